// Hands on what a person did to a chart of the class zooms (a zoom, a reset, a selection) from the moment it is there;
// not that it was drawn or has another size.
(() => {
  // Dash takes over an axis that a chart has moved by drawing the whole chart once more with it. Where the figure that
  // Dash knows has the axis already it leaves the chart alone; this listener comes before Dash's own.
  function takeOver(id, chart, change) {
    const known = window.dash_component_api.getLayout(id)?.props?.figure?.layout;
    for (const axis of new Set(Object.keys(change).map((name) => name.split(".")[0]))) {
      if (known && /^[xy]axis\d*$/.test(axis)) known[axis] = structuredClone(chart.layout[axis]);
    }
  }
  // Shows a range of a chart's time axis. The server is asked first and the chart drawn once, with the answer; where that
  // is late the chart is moved as it is meanwhile.
  const LATE_MS = 250;
  window.zoomTo = (chart, range) => {
    const id = chart.closest(".zooms")?.id;
    const known = id && window.dash_component_api.getLayout(id)?.props?.figure?.layout;
    if (!known) return void window.Plotly.relayout(chart, { "xaxis.range": range });
    chart.layout.xaxis.range = range;
    // Of another revision: what is drawn next takes this range, whatever range a person chose before.
    known.xaxis = { ...structuredClone(chart.layout.xaxis), uirevision: performance.now() };
    chart.asked = String(range);
    window.dash_clientside.set_props(`${id}-zoom`, { data: { "xaxis.range": range, at: performance.now() } });
    clearTimeout(chart.late);
    chart.late = setTimeout(() => {
      const meanwhile = chart.layout.xaxis.range !== range || String(chart._fullLayout.xaxis.range) === chart.asked;
      if (chart.isConnected && !meanwhile) window.Plotly.relayout(chart, { "xaxis.range": range });
    }, LATE_MS);
  };
  const meant = (name) => /^[xy]axis\d*\.(range|autorange)|^selections/.test(name);
  new MutationObserver(() => {
    for (const chart of document.querySelectorAll(".zooms .js-plotly-plot")) {
      if (chart.dataset.watched || !chart.on) continue;
      chart.dataset.watched = "yes";
      const { id } = chart.closest(".zooms");
      chart.on("plotly_relayout", (change) => {
        if (!Object.keys(change || {}).some(meant)) return;
        if (change["xaxis.range"] && String(change["xaxis.range"]) === chart.asked) return;
        takeOver(id, chart, change);
        // A time, so that the same zoom once more is another event.
        window.dash_clientside.set_props(`${id}-zoom`, { data: { ...change, at: performance.now() } });
      });
    }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
