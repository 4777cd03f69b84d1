// Pages with charts need plotly.js, which Dash asks for only when the first chart is there. It is loaded while the browser
// waits for the page's content instead; until then the name holds a promise, which Dash waits for as well.
if (/^\/(run|compare|experiments)\b/.test(window.location.pathname)) {
  const config = JSON.parse(document.getElementById("_dash-config").textContent);
  window.requestIdleCallback?.(() => {
    if (window.Plotly) return;
    window.Plotly = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${config.requests_pathname_prefix}_dash-component-suites/plotly/package_data/plotly.min.js`;
      script.onload = () => resolve(window.Plotly);
      script.onerror = reject;
      document.head.append(script);
    });
  });
}
