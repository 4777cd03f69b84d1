// Hands on what a person did to a chart of the class zooms (a zoom, a reset, a selection) from the moment it is there;
// not that it was drawn or has another size.
(() => {
  const meant = (name) => /^[xy]axis\d*\.(range|autorange)|^selections/.test(name);
  new MutationObserver(() => {
    for (const chart of document.querySelectorAll(".zooms .js-plotly-plot")) {
      if (chart.dataset.watched || !chart.on) continue;
      chart.dataset.watched = "yes";
      const { id } = chart.closest(".zooms");
      chart.on("plotly_relayout", (change) => {
        if (!Object.keys(change || {}).some(meant)) return;
        // A time, so that the same zoom once more is another event.
        window.dash_clientside.set_props(`${id}-zoom`, { data: { ...change, at: performance.now() } });
      });
    }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
