// Keys of trace viewers on a focused page: W and S zoom, A and D move, 0 shows the whole step.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable], .ag-root")) return;
  const chart = document.querySelector("#run-timeline .js-plotly-plot, #compare-timeline .js-plotly-plot");
  if (!chart || !chart.layout || !chart.layout.xaxis) return;
  const [low, high] = chart.layout.xaxis.range.map(Number);
  const width = high - low;
  const middle = (low + high) / 2;
  const moves = {
    w: [middle - width / 4, middle + width / 4],
    s: [middle - width, middle + width],
    a: [low - width / 4, high - width / 4],
    d: [low + width / 4, high + width / 4],
  };
  const key = event.key.toLowerCase();
  if (key === "0") {
    document.getElementById("run-whole")?.click();
  } else if (moves[key]) {
    let [from, to] = moves[key];
    const { minallowed, maxallowed } = chart.layout.xaxis;
    if (from < minallowed) [from, to] = [minallowed, Math.min(maxallowed, to + minallowed - from)];
    if (to > maxallowed) [from, to] = [Math.max(minallowed, from - to + maxallowed), maxallowed];
    window.Plotly.relayout(chart, { "xaxis.range": [from, to] });
  } else {
    return;
  }
  event.preventDefault();
});
