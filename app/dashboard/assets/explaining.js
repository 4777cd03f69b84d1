// Buttons that lead somewhere on the run page: data-pick (kind:id), data-target (start-end ns), data-at (ns),
// data-find (a search), data-ask (a what-if question).
document.addEventListener("click", (event) => {
  const lead = event.target.closest?.("[data-pick], [data-target], [data-at], [data-find], [data-ask]");
  if (!lead) return;
  const { pick, target, at, find, ask } = lead.dataset;
  const show = (id, data) => window.dash_clientside.set_props(id, { data });
  const [kind, id] = (pick || "").split(":");
  if (ask !== undefined) show("run-ask", { question: ask, about: pick || "", again: Date.now() });
  if (pick) show("run-picked", { kind, id: Number(id) });
  if (at !== undefined) show("run-cursor", Number(at));
  if (target) show("run-target", target.split("-").map(Number));
  if (find !== undefined) {
    window.dash_clientside.set_props("run-search", { value: find });
    document.getElementById("run-search")?.scrollIntoView({ block: "center" });
  }
});

window.dash_clientside = window.dash_clientside || {};
window.dash_clientside.explaining = {
  // Puts the search and the grouping into the address, beside what is there.
  name_address: (search, group) => {
    const query = new URLSearchParams(window.location.search);
    for (const [key, value] of [["q", (search || "").trim()], ["group", group === "class" ? "" : group]]) {
      value ? query.set(key, value) : query.delete(key);
    }
    const text = query.toString().replaceAll("%3A", ":");
    history.replaceState(history.state, "", window.location.pathname + (text ? `?${text}` : ""));
    return window.dash_clientside.no_update;
  },
};
