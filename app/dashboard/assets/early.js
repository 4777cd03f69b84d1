// The first page comes with the shell around it: what Dash fetches is named after the page (app/dashboard/opening.py).
(() => {
  const { fetch } = window;
  const named = document.querySelector('link[rel="preload"][href*="_dash-layout?"]').getAttribute("href");
  window.fetch = (address, ...settings) => {
    if (address !== named.split("?")[0]) return fetch(address, ...settings);
    window.fetch = fetch;
    return fetch(named, ...settings);
  };
})();

// Scripts that the page draws with: their compiling must not hold up those that come before them.
for (const soon of document.querySelectorAll('meta[name="soon"]')) {
  document.head.append(Object.assign(document.createElement("link"), { rel: "preload", as: "script", href: soon.content }));
}
