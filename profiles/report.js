"use strict";
(async () => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.text = await new Response(unpacked).text();
  document.head.append(script);

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const names = Object.keys(figures);

  function themed(layout) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = (own) => ({ gridcolor: colour("--grid"), linecolor: colour("--edge"), zeroline: false, ...own });
    return {
      margin: { l: 76, r: 16, t: 30, b: 44 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: style.fontFamily, size: 12, color: colour("--ink-soft") },
      hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--edge"), font: { color: colour("--ink") }, align: "left" },
      ...layout,
      xaxis: axis(layout.xaxis),
      yaxis: axis(layout.yaxis),
    };
  }

  for (const name of names) {
    await Plotly.newPlot(name, figures[name].data, themed(figures[name].layout), figures[name].config);
  }

  // Charts of one group show the same time or the same ops: a zoom of one is given to the others.
  let following = false;
  for (const name of names) {
    document.getElementById(name).on("plotly_relayout", async (change) => {
      if (following) return;
      const update = {};
      if (change["xaxis.autorange"]) update["xaxis.range"] = figures[name].layout.xaxis.range.slice();
      else if ("xaxis.range[0]" in change) update["xaxis.range"] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      else return;
      following = true;
      const group = names.filter((other) => figures[other].group === figures[name].group);
      for (const other of group) if (other !== name || change["xaxis.autorange"]) await Plotly.relayout(other, update);
      following = false;
    });
  }

  dark.addEventListener("change", () => {
    for (const name of names) {
      const layout = themed(figures[name].layout);
      layout.xaxis.range = document.getElementById(name).layout.xaxis.range;
      Plotly.react(name, figures[name].data, layout, figures[name].config);
    }
  });
  document.documentElement.dataset.ready = "yes";
})();
