// Grids need a large script. A page that shows none at first names it (app/dashboard/scripts.py) instead of asking for it;
// it is loaded for the first grid there is, which stands empty until then.
(() => {
  const named = document.querySelector('meta[name="grid-script"]');
  if (!named || window.dash_ag_grid) return;
  let loaded = null;
  const load = () =>
    (loaded ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = named.content;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    }));
  // Takes the name that the script gives to its own component.
  const Later = (properties) => {
    const [there, setThere] = React.useState(false);
    React.useEffect(() => void load().then(() => setThere(true)), []);
    return there ? React.createElement(window.dash_ag_grid.AgGrid, properties) : null;
  };
  window.dash_ag_grid = { AgGrid: Later };
})();
