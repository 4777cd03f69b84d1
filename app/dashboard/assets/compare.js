// The compare page: numbers of its tables, the filter above them, and its address.
(() => {
  const formats = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  formats.share = (value) => (value === null || value === undefined ? "–" : `${(value * 100).toFixed(1)} %`);
  formats.signedTime = (value) => (value > 0 ? `+${formats.time(value)}` : value === 0 ? "±0" : formats.time(value));

  const clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.compare = {
    // What the page shows goes into its address without loading the page again.
    remember: (tab, axis, by, shown) => {
      if (window.location.pathname !== "/compare" || !shown) return;
      const query = new URLSearchParams(window.location.search);
      for (const [name, value, usual] of [["tab", tab, "decisions"], ["axis", axis, "time"], ["by", by, "layer"]]) {
        query.delete(name);
        if (value && value !== usual) query.append(name, value);
      }
      const text = query.toString().replaceAll("%2C", ",");
      history.replaceState(history.state, "", window.location.pathname + (text ? `?${text}` : ""));
    },
    filter: (text) => {
      try {
        const table = dash_ag_grid.getApi("compare-table");
        table.setGridOption("quickFilterText", text || "");
        // ag-grid says nothing of its own where a filter leaves no row.
        if (table.getDisplayedRowCount()) table.hideOverlay();
        else table.showNoRowsOverlay();
      } catch {
        // The tab in view has no table; the next one that has begins with the filter.
      }
    },
  };
})();
