// Formatters and cell renderers of the grids. Values arrive as text or numbers and are put into the page as text only.
const functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
const renderers = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});

function decimals(value) {
  return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

functions.bytes = (value) => {
  if (value === null || value === undefined) return "–";
  const sign = value < 0 ? "-" : "";
  let size = Math.abs(value);
  if (size < 1024) return `${sign}${size} B`;
  let unit = "";
  for (unit of ["KiB", "MiB", "GiB", "TiB", "PiB"]) {
    size /= 1024;
    if (size < 1023.5) break;
  }
  return `${sign}${size.toFixed(decimals(size))} ${unit}`;
};

functions.time = (value) => {
  if (value === null || value === undefined) return "–";
  const sign = value < 0 ? "-" : "";
  let time = Math.abs(value);
  if (time < 1000) return `${sign}${time} ns`;
  let unit = "";
  for (unit of ["µs", "ms", "s"]) {
    time /= 1000;
    if (time < 999.5) break;
  }
  return `${sign}${time.toFixed(decimals(time))} ${unit}`;
};

renderers.RunLink = (props) =>
  React.createElement("a", { href: `/run/${props.data.id}` }, props.value);

renderers.Tag = (props) =>
  React.createElement("span", { className: `tag ${props.data[`${props.colDef.field}_tone`] || props.value}` }, props.value);

renderers.Swatch = (props) =>
  React.createElement(
    "span",
    null,
    React.createElement("i", { className: "swatch", style: { background: props.data.colour } }),
    props.value,
  );

// A cell that acts: tells the page which cell of which row was pressed.
renderers.Act = (props) =>
  React.createElement(
    "button",
    { className: "link", type: "button", "aria-label": props.label, title: props.label || props.value, onClick: () => props.setData(props.data) },
    props.text || props.value,
  );

renderers.Matches = (props) => {
  const { count, bytes, problem } = props.data;
  if (problem) return React.createElement("span", { className: "tag bad", title: problem }, "not valid");
  if (count === null || count === undefined) return React.createElement("span", { className: "hint" }, "at compile time");
  return React.createElement("span", null, `${count} · ${functions.bytes(bytes)}`);
};

// Labels of sliders.
const labels = (window.dashMantineFunctions = window.dashMantineFunctions || {});
labels.percent = (value) => `${Math.round(value)} %`;
