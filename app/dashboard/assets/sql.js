// The SQL page: Ctrl+Enter runs, a pressed column goes into the query, the address says what is asked.
(() => {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  const { no_update: keep } = dash_clientside;

  clientside.sql = {
    run: (clicks, rows, text, run, asked, saved) => {
      const triggered = dash_clientside.callback_context.triggered_id;
      if (triggered?.["sql-rows"] && rows.some(Boolean)) {
        const query = `SELECT * FROM ${triggered["sql-rows"]} LIMIT 100`;
        dash_clientside.set_props("sql-text", { value: query });
        return [{ q: query, run: run || "", saved: "", kind: "", x: "", y: "", by: "" }, null];
      }
      if (!clicks) return [keep, keep];
      // The field itself: its property may still be on its way when a key runs the query.
      text = document.getElementById("sql-text")?.value ?? text;
      const same = text === asked.q;
      // Another text keeps the plot where it has the same columns, but is no longer the saved query.
      const next = { ...asked, q: text || "", run: run || "", saved: same ? asked.saved : "" };
      return [next, same ? keep : null];
    },
    remember: (asked, drawn, saved) => {
      if (location.pathname !== "/sql" || !asked) return;
      const query = new URLSearchParams();
      if (asked.saved && asked.saved === saved) query.set("saved", saved);
      else if (asked.q) query.set("q", asked.q);
      if (asked.run) query.set("run", asked.run);
      for (const name of ["kind", "x", "y", "by"]) if (drawn?.[name]) query.set(name, drawn[name]);
      history.replaceState(history.state, "", `/sql?${query}`);
    },
  };

  document.addEventListener("keydown", (event) => {
    if (event.target.id !== "sql-text" || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    document.getElementById("sql-run")?.click();
  });

  document.addEventListener("focusin", ({ target }) => {
    if (target.id === "sql-text") target.spellcheck = false;
  });

  document.addEventListener("click", ({ target }) => {
    const name = target.closest?.(".sql-name");
    const field = document.getElementById("sql-text");
    if (!name || !field) return;
    const { selectionStart: from, selectionEnd: to, value } = field;
    const text = `${value.slice(0, from)}${name.textContent}${value.slice(to)}`;
    dash_clientside.set_props("sql-text", { value: text });
    field.focus();
    requestAnimationFrame(() => field.setSelectionRange(from + name.textContent.length, from + name.textContent.length));
  });
})();
