// Buttons that lead somewhere on the run page: data-pick (kind:id), data-target (start-end ns), data-at (ns),
// data-find (a search), data-ask (a what-if question), data-show (the id of a place on the page).
document.addEventListener("click", (event) => {
  const lead = event.target.closest?.("[data-pick], [data-target], [data-at], [data-find], [data-ask], [data-show]");
  if (!lead) return;
  const { pick, target, at, find, ask, show: place } = lead.dataset;
  const show = (id, data) => window.dash_clientside.set_props(id, { data });
  const bring = (id) => document.getElementById(id)?.scrollIntoView({ block: "nearest" });
  const [kind, id] = (pick || "").split(":");
  if (ask !== undefined) show("run-ask", { question: ask, about: pick || "", again: Date.now() });
  if (pick) show("run-picked", { kind, id: Number(id) });
  if (at !== undefined) show("run-cursor", Number(at));
  if (target) {
    show("run-target", target.split("-").map(Number));
    bring("run-timeline");
  }
  if (find !== undefined) {
    window.dash_clientside.set_props("run-search", { value: find });
    document.getElementById("run-search")?.scrollIntoView({ block: "center" });
  }
  if (ask !== undefined) {
    bring("run-answer");
    bringAnswer();
  }
  if (place) document.getElementById(place)?.scrollIntoView({ block: "start" });
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.id === "run-question") bringAnswer();
});

// An answer takes a while, and its place is at the foot of the details: it is brought into sight when it is there.
function bringAnswer() {
  const before = document.getElementById("run-answer")?.innerHTML;
  const details = document.getElementById("run-details");
  if (!details) return;
  new MutationObserver((_, seen) => {
    const answer = document.getElementById("run-answer");
    if (!answer?.firstChild || answer.innerHTML === before) return;
    seen.disconnect();
    answer.scrollIntoView({ block: "nearest" });
  }).observe(details, { childList: true, subtree: true, characterData: true });
}

// The bar that names what is picked is there while its details are out of sight.
let watching = false;
function watchDetails() {
  if (watching) return;
  watching = true;
  requestAnimationFrame(() => {
    watching = false;
    const [bar, details] = ["run-picked-bar", "run-details"].map((id) => document.getElementById(id));
    if (!bar || !details) return;
    const { top, bottom } = details.getBoundingClientRect();
    bar.hidden = top < window.innerHeight - 160 && bottom > 160;
  });
}
for (const event of ["scroll", "resize", "load", "click", "keyup"]) window.addEventListener(event, watchDetails, true);

window.dash_clientside = window.dash_clientside || {};
window.dash_clientside.explaining = {
  // Puts the search and the grouping into the address, beside what is there. Before its buttons are on the page the
  // grouping stays what the address says.
  name_address: (search, group) => {
    const query = new URLSearchParams(window.location.search);
    for (const [key, value] of [["q", (search || "").trim()], ["group", group === "class" ? "" : group]]) {
      if (value === undefined) continue;
      value ? query.set(key, value) : query.delete(key);
    }
    const text = query.toString().replaceAll("%3A", ":");
    history.replaceState(history.state, "", window.location.pathname + (text ? `?${text}` : ""));
    return window.dash_clientside.no_update;
  },
};
