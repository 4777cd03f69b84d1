// A callback that leads to another page (a drag that becomes a rule) would leave it scrolled to where the last one was.
let pathShown = window.location.pathname;
window.addEventListener("_dashprivate_pushstate", () => {
  if (window.location.pathname !== pathShown) window.scrollTo(0, 0);
  pathShown = window.location.pathname;
});
window.addEventListener("popstate", () => {
  pathShown = window.location.pathname;
});
