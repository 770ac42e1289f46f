"use strict";
/* Where the run is, in a few large numbers; and what the last reconfiguration did. */
const tiles = (() => {
  const { duration, percent, size, spoken } = numbers;
  const byId = (id) => document.getElementById(id);
  const STATES = { starting: "starting", waiting: "waiting for clients", training: "training", finished: "finished", stopped: "stopped", silent: "not heard of" };

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function spark(points) {
    const svg = charts.node("svg", { viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" });
    if (points.length < 2) return svg;
    const [low, high] = numbers.extent([points.map((point) => point.at(-1))]);
    const x = numbers.scale(points[0][0], points.at(-1)[0], 0, 100), y = numbers.scale(low, high, 24, 2);
    charts.node("path", { d: points.map((point, index) => `${index ? "L" : "M"}${x(point[0]).toFixed(1)} ${y(point.at(-1)).toFixed(1)}`).join("") }, svg);
    return svg;
  }

  function tile(name, value, note, points) {
    const box = element("div"), small = element("small", "", note || "");
    box.append(element("dt", "", name), element("dd", "", value), small);
    if (points) box.append(spark(points));
    return box;
  }

  function where(run) {
    const pill = byId("state");
    pill.dataset.state = run.state;
    pill.textContent = STATES[run.state] || run.state;
    byId("place").textContent = run.rounds ? `Round ${run.round.toLocaleString("en-GB")} of ${run.rounds.toLocaleString("en-GB")}` : `Round ${run.round}`;
    const goOn = run.federation ? `prunefl server ... --out ${run.name} --resume` : "prunefl run --out ... --resume";
    byId("left").textContent = run.left !== null ? `about ${duration(run.left)} left, ${duration(run.pace)} a round` : run.state === "stopped" ? `go on with ${goOn}` : "";
    const share = run.rounds ? Math.min(100, (100 * run.round) / run.rounds) : 0;
    byId("done").style.width = `${share}%`;
    byId("done").parentElement.setAttribute("aria-valuenow", share.toFixed(0));
  }

  /* A score as its metric is spoken: a share in per cent, anything else as a number. */
  const judged = (run, value) => (value === null ? "–" : run.metric.percent ? percent(value) : spoken(value));
  const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

  function draw(run, curve, detail) {
    where(run);
    const tested = run.accuracy !== null, loss = curve("loss"), bytes = run.bytes_up + run.bytes_down;
    const shown = [tile(tested ? capital(run.metric.words) : "Accuracy at the clients", tested ? judged(run, run.accuracy) : percent(run.clients_accuracy), tested ? `on the test set, round ${run.accuracy_round}` : "by samples", curve(tested ? "accuracy" : "clients"))];
    if (tested && run.clients_accuracy !== null) shown.push(tile("At the clients", percent(run.clients_accuracy), detail.worst_tenth !== null ? `worst tenth ${percent(detail.worst_tenth)}` : "by samples", curve("clients")));
    shown.push(
      tile("Training loss", run.loss === null ? "–" : run.loss.toFixed(3), "mean over clients", loss),
      tile("Density", percent(run.density), detail.initial ? `${percent(detail.initial.density)} after initial pruning` : "of the prunable weights", curve("density")),
      tile("Simulated time", duration(run.seconds), detail.initial ? `${duration(detail.initial.seconds)} of it initial pruning` : "on the fleet's devices"),
      tile("Wall time", duration(run.wall), "on this machine"),
      tile("Bytes exchanged", size(bytes), `${size(run.bytes_up)} up, ${size(run.bytes_down)} down`),
    );
    if (detail.privacy) {
      const { epsilon, delta, budget } = detail.privacy;
      shown.push(tile("Privacy spent", `ε ${spoken(epsilon)}`, `${budget ? `of ${spoken(budget)}, ` : ""}at δ ${delta}`));
    }
    byId("tiles").replaceChildren(...shown);
  }

  function change(told, layers) {
    if (!told) { byId("change-words").textContent = "None yet."; byId("change-layers").replaceChildren(); return; }
    const sum = (place) => told.layers.reduce((total, layer) => total + layer[place], 0);
    const [before, after, all] = [sum(0), sum(1), sum(2)], [was, is] = told.seconds;
    const seconds = was && is ? ` A round is expected to take ${spoken(is)} s instead of ${spoken(was)} s.` : "";
    byId("change-words").textContent = `After round ${told.round.toLocaleString("en-GB")}: ${percent(before / all)} of the weights became ${percent(after / all)}.${seconds}`;
    byId("change-layers").replaceChildren(...told.layers.map(([from, to, of], index) => {
      const row = element("li"), svg = charts.node("svg", { "aria-hidden": "true" });
      for (const [kind, share] of [["track", 1], ["was", from / of], ["is", Math.min(from, to) / of]]) charts.node("line", { class: kind, x1: 0, x2: `${100 * share}%`, y1: 4, y2: 4 }, svg);
      if (to > from) charts.node("line", { class: "is", x1: 0, x2: `${(100 * to) / of}%`, y1: 4, y2: 4 }, svg);
      row.append(element("span", "layer", layers[index] ? layers[index].name : ""), element("span", "from", `${percent(from / of)} → ${percent(to / of)}`), svg);
      return row;
    }));
  }

  return { element, draw, change, judged, capital };
})();
