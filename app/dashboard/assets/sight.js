// Tells the store <id>-seen when a chart of the class in-sight comes near what is seen of the page, and hands a window on
// to the store <id>-window of those that are.
(() => {
  const NEAR = "300px 0px";
  const near = new WeakSet();
  const sight = new IntersectionObserver(
    (changes) => {
      for (const { target, isIntersecting } of changes) {
        if (!isIntersecting) near.delete(target);
        else {
          near.add(target);
          window.dash_clientside.set_props(`${target.id}-seen`, { data: performance.now() });
        }
      }
    },
    { rootMargin: NEAR },
  );
  new MutationObserver(() => {
    for (const chart of document.querySelectorAll(".in-sight:not([data-sighted])")) {
      chart.dataset.sighted = "yes";
      sight.observe(chart);
    }
  }).observe(document.documentElement, { childList: true, subtree: true });

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.sight = {
    follow: (shown, _seen, asked, id) => {
      const now = { window: shown ?? null };
      const known = JSON.stringify(asked) === JSON.stringify(now);
      return known || !near.has(document.getElementById(id)) ? window.dash_clientside.no_update : now;
    },
  };
})();
