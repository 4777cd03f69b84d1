// The page of experiments: its address.
(() => {
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.experiments = {
    remember: (workload, hardware, strategies) => {
      if (window.location.pathname !== "/experiments") return;
      const query = new URLSearchParams({ show: "limits", workload, hardware });
      if (strategies && strategies.length) query.set("strategies", strategies.join(","));
      history.replaceState(history.state, "", `/experiments?${query.toString().replaceAll("%2C", ",")}`);
    },
  };
})();
