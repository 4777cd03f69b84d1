// The window over the overview of the run page: drag it, drag its edges, drag beside it for a new one, or use the keys.
(() => {
  const clamp = (value) => Math.min(1, Math.max(0, value));
  let held = null;

  const mainChart = () => document.querySelector("#run-timeline .js-plotly-plot");
  const brush = () => document.getElementById("run-brush");
  // The axis may be moved to 2 % beyond the end (views/timeline.py).
  const wholeMs = () => (mainChart()?.layout?.xaxis?.maxallowed || 0) / 1.02;

  function frame() {
    const area = brush();
    let box = area.querySelector(".brush-window");
    if (!box) {
      box = document.createElement("div");
      box.className = "brush-window";
      box.tabIndex = 0;
      box.setAttribute("role", "slider");
      box.setAttribute("aria-label", "Part of the step that is shown; W and S zoom, A and D move");
      for (const side of ["low", "high"]) {
        const edge = document.createElement("div");
        edge.className = `brush-edge ${side}`;
        box.append(edge);
      }
      area.append(box);
    }
    return box;
  }

  // Puts the window where the fractions [low, high] of the step are.
  function place(low, high) {
    const box = frame();
    box.style.left = `${clamp(low) * 100}%`;
    box.style.width = `${Math.max(0, clamp(high) - clamp(low)) * 100}%`;
    box.setAttribute("aria-valuemin", "0");
    box.setAttribute("aria-valuemax", "100");
    box.setAttribute("aria-valuenow", String(Math.round(clamp(low) * 100)));
    box.setAttribute("aria-valuetext", `${(clamp(low) * 100).toFixed(1)} % to ${(clamp(high) * 100).toFixed(1)} % of the step`);
  }

  function follow() {
    const chart = mainChart();
    const whole = wholeMs();
    if (!brush() || held || !whole || !chart?.layout?.xaxis?.range) return;
    const [low, high] = chart.layout.xaxis.range.map(Number);
    place(low / whole, high / whole);
  }

  // What stands below the timeline is asked for when the timeline has been shown, so that it need not wait for it.
  function askForRest(chart) {
    if (!chart.querySelector(".scatterlayer .trace")) return;
    chart.removeListener("plotly_afterplot", chart.askForRest);
    requestAnimationFrame(() =>
      setTimeout(() => document.getElementById("run-rest") && dash_clientside.set_props("run-drawn-first", { data: true })),
    );
  }

  // Charts come and go with the pages; each is followed from the moment it is there.
  new MutationObserver(() => {
    for (const chart of document.querySelectorAll("#run-timeline .js-plotly-plot")) {
      if (chart.dataset.followed || !chart.on) continue;
      chart.dataset.followed = "yes";
      chart.on("plotly_afterplot", follow);
      chart.on("plotly_relayout", follow);
      follow();
      chart.askForRest = () => askForRest(chart);
      chart.on("plotly_afterplot", chart.askForRest);
      askForRest(chart);
    }
  }).observe(document.documentElement, { childList: true, subtree: true });

  document.addEventListener("pointerdown", (event) => {
    const area = event.target.closest?.("#run-brush");
    if (!area || event.button) return;
    const { left, width } = area.getBoundingClientRect();
    const at = clamp((event.clientX - left) / width);
    const box = frame().getBoundingClientRect();
    const low = (box.left - left) / width;
    const high = (box.right - left) / width;
    const side = event.target.classList;
    // A window that is the whole step cannot be moved: a drag inside makes a smaller one.
    const inside = side.contains("brush-window") && high - low < 0.98 ? "all" : "new";
    const part = side.contains("low") ? "low" : side.contains("high") ? "high" : inside;
    held = { left, width, at, low, high, part, range: [low, high] };
    area.setPointerCapture(event.pointerId);
  });

  document.addEventListener("pointermove", (event) => {
    if (!held) return;
    const now = clamp((event.clientX - held.left) / held.width);
    const moved = Math.min(1 - held.high, Math.max(-held.low, now - held.at));
    const ranges = {
      low: [now, held.high],
      high: [held.low, now],
      all: [held.low + moved, held.high + moved],
      new: [held.at, now],
    };
    held.range = ranges[held.part].sort((a, b) => a - b);
    place(...held.range);
  });

  function release() {
    if (!held) return;
    const { range, low, high } = held;
    held = null;
    const chart = mainChart();
    if (chart && range[1] - range[0] > 1e-6 && (range[0] !== low || range[1] !== high)) {
      const whole = wholeMs();
      zoomTo(chart, [range[0] * whole, range[1] * whole]);
    } else {
      follow();
    }
  }
  document.addEventListener("pointerup", release);
  document.addEventListener("pointercancel", release);

  document.addEventListener("keydown", (event) => {
    if (!event.target.classList?.contains("brush-window")) return;
    const meaning = { ArrowLeft: "a", ArrowRight: "d", ArrowUp: "w", ArrowDown: "s" }[event.key];
    if (meaning && moveChart(meaning)) event.preventDefault();
  });
})();

window.dash_clientside = window.dash_clientside || {};
window.dash_clientside.run = {
  go: (address) => address || window.dash_clientside.no_update,
  replace_query: (query) => {
    if (query === undefined || query === null) return window.dash_clientside.no_update;
    // What other panels keep in the address stays.
    const asked = new URLSearchParams(query);
    const own = ["step", "show", "by", "window", "picked", "at", "selected"];
    for (const [key, value] of new URLSearchParams(window.location.search)) if (!own.includes(key)) asked.set(key, value);
    const text = asked.toString().replaceAll("%3A", ":");
    history.replaceState(history.state, "", window.location.pathname + (text ? `?${text}` : ""));
    return window.dash_clientside.no_update;
  },
};
