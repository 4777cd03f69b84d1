// The compare page: numbers of its tables, the filter above them, and its address.
(() => {
  const formats = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  formats.share = (value) => (value === null || value === undefined ? "–" : `${(value * 100).toFixed(1)} %`);
  formats.signedTime = (value) => (value > 0 ? `+${formats.time(value)}` : value === 0 ? "±0" : formats.time(value));

  const text = (value) => (value === null || value === undefined ? "" : String(value));

  // The address of the page with other values in its query, in a fixed order; what is empty is left out.
  const whole = (query, values) => {
    for (const [name, value] of Object.entries(values)) query.set(name, value || "");
    const order = ["runs", "baseline", "tab", "axis", "by"].filter((name) => query.get(name));
    const words = new URLSearchParams(order.map((name) => [name, query.get(name)])).toString().replaceAll("%2C", ",");
    return words ? `/compare?${words}` : "/compare";
  };

  // The runs and the baseline that the fields of the page in view held last, and every run they ever held.
  let [page, listed, compared] = [null, [], null];
  const known = new Set();

  const clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.compare = {
    // What the page shows goes into its address without loading the page again.
    remember: (tab, axis, by, shown) => {
      if (window.location.pathname !== "/compare" || !shown) return;
      const query = new URLSearchParams(window.location.search);
      const usual = { tab: "decisions", axis: "time", by: "layer" };
      const values = Object.entries({ tab, axis, by });
      const told = values.map(([name, value]) => [name, value === usual[name] ? "" : value]);
      history.replaceState(history.state, "", whole(query, Object.fromEntries(told)));
    },
    // The address after a choice. The page may still show what was asked for before the last choice, so a choice is what
    // differs from what the fields held, made in the address as it is now.
    choose: (runs, baseline, bases, removes, shown) => {
      const { no_update, callback_context } = window.dash_clientside;
      if (window.location.pathname !== "/compare" || !shown) return no_update;
      if (page !== shown) [page, listed, compared] = [shown, shown.runs.map(String), text(shown.baseline)];
      const query = new URLSearchParams(window.location.search);
      const now = (runs || []).map(String);
      for (const run of [...listed, ...now]) known.add(run);
      let chosen = (query.get("runs") || "").split(",").filter((run) => known.has(run));
      let base = query.get("baseline") || "";
      const told = () => ({ runs: chosen.join(), baseline: base !== chosen[0] && chosen.includes(base) ? base : "" });
      const before = told();
      chosen = chosen.filter((run) => !listed.includes(run) || now.includes(run));
      chosen.push(...now.filter((run) => !listed.includes(run) && !chosen.includes(run)));
      if (text(baseline) !== compared) base = text(baseline);
      [listed, compared] = [now, text(baseline)];
      const pressed = callback_context.triggered_id;
      if (pressed && typeof pressed === "object" && callback_context.triggered[0].value) {
        if ("compare-base" in pressed) base = String(pressed["compare-base"]);
        else chosen = chosen.filter((run) => run !== String(pressed["compare-remove"]));
      }
      const after = told();
      return after.runs === before.runs && after.baseline === before.baseline ? no_update : whole(query, after);
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
