// Shift and drag a copy in to the left on the timeline of a run: it is to start earlier. The server finds what was
// dragged and what that means; here is only the gesture and what it looks like.
(() => {
  let held = null;

  const chartOf = (target) => target.closest?.("#run-timeline .js-plotly-plot");

  // Where a pointer is on the lanes' axes, null above or below them.
  function place(chart, event) {
    const { xaxis, yaxis2 } = chart._fullLayout;
    const box = chart.getBoundingClientRect();
    const x = event.clientX - box.left - xaxis._offset;
    const y = event.clientY - box.top - yaxis2._offset;
    if (x < 0 || x > xaxis._length || y < 0 || y > yaxis2._length) return null;
    return { x: xaxis.p2d(x), y: yaxis2.p2d(y), left: event.clientX, top: event.clientY };
  }

  function words(ms) {
    if (ms <= 0) return "to the left: earlier";
    return ms < 1 ? `${(ms * 1000).toFixed(0)} µs earlier` : `${ms.toFixed(ms < 10 ? 2 : 1)} ms earlier`;
  }

  function draw() {
    if (!held.mark) {
      held.mark = document.createElement("div");
      held.mark.className = "drag-mark";
      held.mark.append(document.createElement("span"));
      document.body.append(held.mark);
    }
    const width = Math.max(0, held.from.left - held.left);
    held.mark.style.cssText = `left: ${held.from.left - width}px; width: ${width}px; top: ${held.from.top}px`;
    held.mark.firstChild.textContent = words(held.by);
  }

  // Plotly listens to mouse events; with Shift over the lanes they are a drag of ours.
  document.addEventListener(
    "mousedown",
    (event) => {
      const chart = event.shiftKey && !event.button && chartOf(event.target);
      const from = chart && chart._fullLayout?.yaxis2 && place(chart, event);
      if (!from || !document.getElementById("run-earlier")) return;
      event.stopImmediatePropagation();
      event.preventDefault();
      const { range, _length } = chart._fullLayout.xaxis;
      held = { chart, from, left: from.left, by: 0, mark: null, pixel: (range[1] - range[0]) / _length };
      draw();
    },
    true,
  );

  document.addEventListener(
    "mousemove",
    (event) => {
      if (!held) return;
      event.stopImmediatePropagation();
      const xaxis = held.chart._fullLayout.xaxis;
      held.left = event.clientX;
      held.by = held.from.x - xaxis.p2d(event.clientX - held.chart.getBoundingClientRect().left - xaxis._offset);
      draw();
    },
    true,
  );

  function release(event) {
    if (!held) return;
    event?.stopImmediatePropagation();
    const { from, by, mark, pixel } = held;
    held = null;
    mark.remove();
    window.dash_clientside.set_props("run-drag", { data: { x: from.x, y: from.y, by, pixel, at: Date.now() } });
  }
  document.addEventListener("mouseup", release, true);
  document.addEventListener("keydown", (event) => {
    if (held && event.key === "Escape") {
      held.mark.remove();
      held = null;
    }
  });
})();
