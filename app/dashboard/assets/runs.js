// The list of runs: cells, and what a filter, an action or a change of the database does to the grid.
(() => {
  const { createElement } = React;
  const cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  const tag = (text, tone, title) => createElement("span", { className: `tag ${tone || ""}`, title }, text);

  cells.RunNumber = ({ data }) =>
    data ? createElement("a", { href: `/run/${data.id}`, "aria-label": `Open run ${data.id}` }, data.id) : null;

  cells.RunName = ({ data }) => {
    if (!data) return createElement("span", { className: "hint" }, "…");
    const words = [data.label, data.model].filter(Boolean);
    const note = data.note && createElement("span", { className: "run-note", title: data.note, key: "note" }, "note");
    const name = data.label
      ? [createElement("b", { key: "label" }, data.label), createElement("span", { key: "model" }, data.model)]
      : createElement("span", { key: "model", className: "only" }, data.model);
    const opens = { className: "run-name", title: words.join(" · "), href: `/run/${data.id}`, tabIndex: -1 };
    return createElement("a", opens, name, note);
  };

  // Enter opens the run of the row that is focused; Space ticks it.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches?.("#runs-grid .ag-cell")) return;
    const row = event.target.closest(".ag-row")?.getAttribute("row-id");
    document.querySelector(`#runs-grid .ag-row[row-id="${CSS.escape(row)}"] a[href]`)?.click();
  });

  cells.RunTag = ({ data, value, colDef }) => {
    if (!data) return null;
    if (value === "complete") return createElement("span", { className: "run-complete" }, value);
    return tag(value, data[`${colDef.field}_tone`], data.reason || undefined);
  };

  cells.RunTags = ({ value }) => {
    const [first, ...more] = value || [];
    if (first === undefined) return null;
    const chips = [tag(first), more.length ? createElement("span", { className: "hint", key: "more" }, `+${more.length}`) : null];
    return createElement("span", { className: "run-tags", title: value.join(", ") }, ...chips);
  };

  const grid = () => {
    try {
      return document.getElementById("runs-grid") ? dash_ag_grid.getApi("runs-grid") : null;
    } catch {
      return null;
    }
  };
  const counted = (count) => `${count} ticked`;
  let hideLater;

  const clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.runs = {
    ask: (q, model, strategy, hardware, kind, chosen, show, asked) => ({
      ...asked,
      q: q || "",
      model: model || "",
      strategy: strategy || "",
      hardware: hardware || "",
      kind: kind || "",
      tag: chosen || "",
      show,
    }),
    clear: (clicks) => {
      const empty = clicks.some(Boolean) ? ["", null, null, null, null, null] : Array(6).fill(dash_clientside.no_update);
      return [...empty, dash_clientside.no_update];
    },
    // The first rows came with the page; all others are asked for.
    rows: (request, first, asked) => {
      const none = dash_clientside.no_update;
      if (!request) return [none, none, none];
      if (first && JSON.stringify(first.asked) === JSON.stringify(asked)) return [first.rows, none, null];
      const { startRow, endRow, sortModel } = request;
      return [none, { startRow, endRow, sortModel, at: performance.now() }, null];
    },
    reload: () => {
      const api = grid();
      if (!api) return;
      api.deselectAll();
      api.purgeInfiniteCache();
      if (api.getDisplayedRowCount()) api.ensureIndexVisible(0);
    },
    refresh: () => grid()?.refreshInfiniteCache(),
    done: () => {
      grid()?.deselectAll();
      grid()?.refreshInfiniteCache();
    },
    // The address says what is shown, so that it can be shared and the way back leads here.
    remember: (asked, request) => {
      if (location.pathname !== "/" || !asked) return;
      const query = new URLSearchParams();
      for (const name of ["q", "model", "strategy", "hardware", "kind", "tag"]) if (asked[name]) query.set(name, asked[name]);
      if (asked.show !== "current") query.set("show", asked.show);
      const sorted = request?.sortModel?.[0];
      const sort = sorted ? (sorted.sort === "desc" ? "-" : "") + sorted.colId : request ? "-created" : asked.sort;
      if (sort !== "-created") query.set("sort", sort);
      const text = query.toString();
      history.replaceState(history.state, "", text ? `/?${text}` : "/");
    },
    pick: (rows, asked, ids) => {
      const count = (rows || []).length;
      const most = Number(document.getElementById("runs-bar").dataset.most);
      const hint = count ? counted(count) + (count > most ? `; at most ${most} can be compared` : "") : "Tick runs to compare, tag, archive or delete them";
      const show = asked.show === "deleted" && !count ? "Tick runs to restore them or remove them for good" : hint;
      const label = count > 1 ? `Compare ${count} runs` : "Compare";
      return [show, `runs-bar ${asked.show}`, count < 2 || count > most, label, ids.map(() => !count)];
    },
    tell: (text, _closed, undoable) => {
      clearTimeout(hideLater);
      const closed = dash_clientside.callback_context.triggered_id === "runs-told-close";
      if (closed || !text) return "runs-toast";
      // What can be undone stays until it is closed.
      if (!undoable) hideLater = setTimeout(() => dash_clientside.set_props("runs-toast", { className: "runs-toast" }), 5000);
      return `runs-toast shown ${undoable ? "undoable" : ""}`;
    },
    restored: (done) => {
      if (done.some(Boolean)) location.reload();
    },
    demoEnded: (ended, waiting) => {
      if (ended && waiting) location.reload();
    },
  };
})();
