// Keys of trace viewers on a focused page, and the list of them.
const KEYS = [
  [
    "Charts with a time axis",
    [
      [["W", "S"], "zoom in, zoom out"],
      [["A", "D"], "move left, move right"],
      [["0"], "the whole step"],
    ],
  ],
  [
    "A run",
    [
      [["Z"], "a drag zooms"],
      [["V"], "a drag selects a stretch and shows its numbers"],
      [["Esc"], "clear the selection"],
      [["/"], "search ops, storages and transfers"],
      [["Shift"], "and drag a copy in to the left: start it earlier"],
    ],
  ],
  [
    "Runs and SQL",
    [
      [["/"], "search the runs; write the query"],
      [["Enter"], "in a row: open its run; Space ticks it"],
      [["Ctrl", "Enter"], "run the query"],
    ],
  ],
  [
    "Everywhere",
    [
      [["Tab"], "next control; Enter or Space presses it"],
      [["?"], "this list; Esc closes it"],
    ],
  ],
];

const timeChart = () => document.querySelector("#run-timeline .js-plotly-plot, #compare-timeline .js-plotly-plot");

// Shows [low, high] (ms) of the chart's axis, cut to what it allows.
function showRange(chart, low, high) {
  const { minallowed, maxallowed } = chart.layout.xaxis;
  let [from, to] = [low, high];
  if (from < minallowed) [from, to] = [minallowed, Math.min(maxallowed, to + minallowed - from)];
  if (to > maxallowed) [from, to] = [Math.max(minallowed, from - to + maxallowed), maxallowed];
  zoomTo(chart, [from, to]);
}

// Moves or zooms the chart by a key; says whether the key means something.
function moveChart(key) {
  const chart = timeChart();
  if (!chart || !chart.layout || !chart.layout.xaxis) return false;
  const [low, high] = chart.layout.xaxis.range.map(Number);
  const width = high - low;
  const moves = {
    w: [low + width / 4, high - width / 4],
    s: [low - width / 2, high + width / 2],
    a: [low - width / 4, high - width / 4],
    d: [low + width / 4, high + width / 4],
  };
  if (!moves[key]) return false;
  showRange(chart, ...moves[key]);
  return true;
}

// The whole axis of a chart that has no button for it.
function showWhole() {
  const chart = timeChart();
  if (chart?.layout?.xaxis) showRange(chart, 0, chart.layout.xaxis.maxallowed);
  return Boolean(chart);
}

function press(selector) {
  const control = document.querySelector(selector);
  if (control) control.click();
  return Boolean(control);
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function keysDialog() {
  const there = document.getElementById("keys");
  if (there) return there;
  const groups = KEYS.flatMap(([title, keys]) => [
    element("h3", {}, title),
    element(
      "dl",
      {},
      ...keys.flatMap(([names, meaning]) => [
        element("dt", {}, ...names.map((name) => element("kbd", {}, name))),
        element("dd", {}, meaning),
      ]),
    ),
  ]);
  const close = element("button", { type: "button", className: "button" }, "Close");
  const dialog = element("dialog", { id: "keys", className: "keys-dialog" }, element("h2", {}, "Keys"), ...groups, close);
  dialog.setAttribute("aria-label", "Keys");
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  return dialog;
}

document.addEventListener("click", (event) => {
  if (event.target.closest?.("#keys-help")) keysDialog().showModal();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable], .ag-root")) return;
  const key = event.key.toLowerCase();
  const meanings = {
    "?": () => Boolean(keysDialog().showModal() ?? true),
    0: () => press("#run-whole") || showWhole(),
    "/": () => {
      const search = document.querySelector("#run-search, #runs-search, #sql-text");
      search?.focus();
      return Boolean(search);
    },
    z: () => press('#run-mode input[value="zoom"]'),
    v: () => press('#run-mode input[value="select"]'),
    escape: () => press("#run-selection-clear"),
  };
  if (meanings[key] ? meanings[key]() : moveChart(key)) event.preventDefault();
});
