// The graph page: its address follows what is shown, and a drawing opens where its middle is.
window.dash_clientside = window.dash_clientside || {};
window.dash_clientside.graph = {
  replace_query: (query) => {
    if (query !== undefined && query !== null) history.replaceState(history.state, "", window.location.pathname + query);
    return window.dash_clientside.no_update;
  },
  show_centre: () => {
    setTimeout(() => {
      for (const area of document.querySelectorAll(".graph-scroll:not(.layers)")) {
        const box = area.querySelector(".graph-box.centre");
        if (!box) continue;
        area.scrollLeft = box.offsetLeft + box.offsetWidth / 2 - area.clientWidth / 2;
        area.scrollTop = box.offsetTop + box.offsetHeight / 2 - area.clientHeight / 2;
      }
    }, 0);
    return window.dash_clientside.no_update;
  },
};
