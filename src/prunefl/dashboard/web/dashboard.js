"use strict";
/* Take news from the server and draw them, once a second at most. */
(() => {
  const byId = (id) => document.getElementById(id), root = document.documentElement;
  const AXES = [["Round", null], ["Simulated time", "seconds"], ["Wall time", "seconds"], ["Bytes exchanged", "bytes"]];
  const NO_DETAIL = { layers: [], change: null, initial: null, privacy: null, worst_tenth: null };
  const curves = new Map(), layerCurves = new Map(), hidden = new Set();
  let state = { runs: [], chosen: "", left_out: 0 }, detail = NO_DETAIL, asked = "", source = null, fresh = false, heard = 0, measure = "accuracy", axis = 0, whole = false, waiting = 0;

  const pointsOf = (kept) => (kept ? kept.flat() : []);
  const curveOf = (key, name) => pointsOf(curves.get(`${key} ${name}`));

  function splice(store, piece) {
    const id = `${piece.run} ${piece.name}`, kept = (store.get(id) || []).slice(0, piece.from);
    store.set(id, [...kept, ...piece.stretches]);
  }

  function take(news) {
    if (fresh) { curves.clear(); layerCurves.clear(); lanes.reset(); detail = NO_DETAIL; fresh = false; }
    state = { runs: news.runs, chosen: news.chosen, left_out: news.left_out };
    for (const piece of news.curves) splice(curves, piece);
    for (const piece of news.layers || []) splice(layerCurves, piece);
    detail = news.detail || detail;
    lanes.take(news);
    hear("live");
    if (!waiting) waiting = setTimeout(() => { waiting = 0; draw(); }, root.dataset.ready ? 250 : 0);
  }

  function hear(how) {
    if (how === "live") heard = Date.now();
    const pill = byId("link");
    pill.dataset.state = how;
    pill.textContent = how === "live" ? "live" : "connection lost, trying again";
  }

  function connect() {
    if (source) source.close();
    source = new EventSource(`/events?run=${encodeURIComponent(asked)}`);
    source.addEventListener("open", () => { fresh = true; });
    source.addEventListener("news", (event) => take(JSON.parse(event.data)));
    source.addEventListener("ping", () => hear("live"));
    source.addEventListener("error", () => { hear("lost"); if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000); });
  }
  setInterval(() => { if (heard && Date.now() - heard > 12000) hear("lost"); }, 1000);

  /* ---- drawing ---- */
  const chosen = () => state.runs.find((run) => run.key === state.chosen);
  /* Runs of one method and seed are told apart by where they lie. */
  const plainName = (run) => `${run.label}, ${run.seed === null ? run.name : `seed ${run.seed}`}`;
  const nameOf = (run) => (state.runs.some((other) => other !== run && plainName(other) === plainName(run)) ? `${plainName(run)} (${run.name})` : plainName(run));
  /* One axis holds one metric: those of other tasks stay in the table. */
  const comparable = () => state.runs.filter((run) => run.metric.name === chosen().metric.name);
  const widthOf = (place) => Math.max(280, Math.floor(place.clientWidth));

  function draw() {
    for (const run of state.runs) root.style.setProperty(`--${run.key}`, run.colours[theme.isDark() ? 1 : 0]);
    const run = chosen();
    notes();
    if (!run) { root.dataset.ready = "yes"; return; }
    byId("title").textContent = `${run.label}: ${run.title}`;
    document.title = `${run.round}/${run.rounds} ${run.label} – PruneFL dashboard`;
    byId("about").textContent = [run.name, run.seed === null ? "" : `seed ${run.seed}`, `${run.clients.toLocaleString("en-GB")} clients`, run.federation ? "federation" : "simulation", detail.started && `begun ${detail.started}`, detail.machine].filter(Boolean).join(" · ");
    table();
    tiles.draw(run, (name) => curveOf(run.key, name), detail);
    tiles.change(detail.change, detail.layers);
    byId("change").hidden = !detail.change;
    byId("columns").dataset.changes = detail.change ? "yes" : "no";
    byId("clients").dataset.kind = run.federation ? "federation" : "simulation";
    drawCurves();
    drawSeconds(run);
    drawLayers(run);
    lanes.draw(run);
    root.dataset.ready = "yes";
  }

  function notes() {
    const said = state.runs.flatMap((run) => run.notes.map((note) => (state.runs.length > 1 ? `${run.name}: ${note}` : note)));
    if (state.left_out) said.push(`${state.left_out} older runs are left out`);
    byId("notes").hidden = !said.length;
    byId("notes").firstElementChild.replaceChildren(...said.map((note) => tiles.element("li", "", note)));
  }

  function table() {
    byId("runs").hidden = state.runs.length < 2;
    if (state.runs.length < 2) return;
    const mixed = comparable().length < state.runs.length;
    byId("metric").textContent = mixed ? "Metric" : tiles.capital(chosen().metric.words);
    byId("runs").querySelector("tbody").replaceChildren(...state.runs.map((run) => {
      const row = tiles.element("tr"), head = tiles.element("th"), button = tiles.element("button", ""), swatch = tiles.element("i", "swatch");
      row.setAttribute("aria-selected", run.key === state.chosen);
      row.dataset.run = run.key;
      head.scope = "row";
      swatch.style.background = `var(--${run.key})`;
      button.type = "button";
      button.append(swatch, nameOf(run));
      head.append(button);
      const cells = [run.state, `${run.round.toLocaleString("en-GB")} of ${run.rounds.toLocaleString("en-GB")}`, run.left === null ? "–" : numbers.duration(run.left), `${mixed ? `${run.metric.words} ` : ""}${run.accuracy === null ? numbers.percent(run.clients_accuracy) : tiles.judged(run, run.accuracy)}`, numbers.percent(run.density), numbers.duration(run.seconds), numbers.size(run.bytes_up + run.bytes_down)];
      row.append(head, ...cells.map((text) => tiles.element("td", "", text)));
      row.addEventListener("click", () => { asked = run.key; connect(); });
      return row;
    }));
    byId("runs").querySelectorAll(".scroll").forEach((scroll) => scroll.parentElement.classList.toggle("more", scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 2));
  }

  function figure(title, x_label, y_label, found, more = {}) {
    return { kind: "lines", title, x_label, y_label, curves: found.filter((curve) => curve.x.length), lines: [], bounds: [], points: false, marks: false, before: "", ...more };
  }

  function show(place, drawn, options = {}) {
    if (!drawn.curves.length) { place.replaceChildren(tiles.element("p", "empty", "Nothing yet.")); return; }
    const dashes = Object.fromEntries(state.runs.map((run) => [run.key, state.runs.length > 1 ? run.dash : ""]));
    const view = charts.lines(drawn, place, widthOf(place), { visible: (key) => !hidden.has(key), dashes, ...options });
    reading.attach({ ...view, figure: drawn });
  }

  /* The curves of all runs on one axis, in one unit. */
  function drawCurves() {
    const runs = comparable(), accuracy = measure === "accuracy", [name, kind] = AXES[axis], many = runs.length > 1;
    const tested = runs.some((run) => run.accuracy !== null), { words, percent } = chosen().metric;
    const factor = accuracy && (percent || !tested) ? 100 : 1, title = accuracy ? tiles.capital(words) : "Loss";
    const raw = runs.flatMap((run) => {
      const label = many ? nameOf(run) : "", of = (curve, part) => ({ variant: run.key, label: label || part, part: label ? part : "", points: curveOf(run.key, curve), strong: run.key === state.chosen && curve !== "clients" });
      return accuracy ? [of(tested ? "accuracy" : "clients", tested ? "on the test set" : "at the clients"), ...(tested && !many ? [{ ...of("clients", "at the clients"), variant: "predicted" }] : [])] : [of("loss", "training"), ...(many ? [] : [{ ...of("test_loss", "on the test set"), variant: "predicted" }])];
    }).filter((curve) => curve.points.length);
    const largest = Math.max(0, ...raw.map((curve) => curve.points.at(-1)[axis])), [unit, scale] = kind ? numbers.unitFor(largest, kind) : ["", 1];
    const found = raw.map(({ points, ...curve }) => ({ ...curve, x: points.map((point) => point[axis] / scale), y: points.map((point) => point.at(-1) * factor), low: [], high: [], half: [], step: false }));
    byId("curves-title").textContent = title;
    byId("measures").firstElementChild.textContent = tiles.capital(words);
    byId("whole").hidden = factor !== 100;
    legend(many ? runs.map((run) => [run.key, nameOf(run), true]) : found.length > 1 ? found.map((curve) => [curve.variant, curve.label, false]) : []);
    show(byId("curves-chart"), figure(title, unit ? `${name} (${unit})` : name, accuracy && !tested ? "Accuracy at the clients (%)" : factor === 100 ? `${title} (%)` : title, found, { bounds: factor === 100 ? [0, 100] : [] }), { whole });
  }

  function legend(entries) {
    byId("curves-legend").replaceChildren(...entries.map(([key, label, canHide]) => {
      const chip = tiles.element(canHide ? "button" : "span", canHide ? "chip" : "chip plain"), mark = tiles.element("i", "dotmark");
      mark.style.background = `var(--${key})`;
      chip.append(mark, label);
      if (canHide) {
        chip.setAttribute("aria-pressed", !hidden.has(key));
        chip.addEventListener("click", () => { if (!hidden.delete(key)) hidden.add(key); drawCurves(); });
      }
      return chip;
    }));
  }

  function drawSeconds(run) {
    const found = ["charged", "predicted"].map((name) => {
      const points = curveOf(run.key, name);
      return { variant: name, label: name === "charged" ? "charged" : "predicted by T(M)", part: "", x: points.map((point) => point[0]), y: points.map((point) => point.at(-1)), low: [], high: [], half: [], step: false };
    });
    show(byId("seconds-chart"), figure("Seconds of a round", "Round", "Simulated time of a round (s)", found), { height: 260, visible: () => true });
  }

  /* Density holds from one change to the next: the map has a column for every so many rounds. */
  function drawLayers(run) {
    const place = byId("layers-chart"), last = Math.max(1, run.round), count = Math.min(160, last + 1);
    const columns = Array.from({ length: count }, (_, index) => Math.round((index * last) / Math.max(1, count - 1)));
    const rows = detail.layers.map((layer, index) => {
      const points = pointsOf(layerCurves.get(`${run.key} layer ${index}`));
      let at = 0;
      return columns.map((round) => { while (at + 1 < points.length && points[at + 1][0] <= round) at++; return points.length ? points[at][1] : 1; });
    });
    if (!rows.length) { place.replaceChildren(tiles.element("p", "empty", "Nothing yet.")); return; }
    const names = detail.layers.map((layer, index) => `${layer.name}: ${numbers.percent(rows[index].at(-1))}`);
    const drawn = { kind: "heat", title: "Density by layer", tab: run.label, x_label: "Round", rows: names, columns, values: rows };
    reading.attach({ ...charts.heat(drawn, place, widthOf(place)), figure: drawn });
  }

  /* ---- what a reader can do ---- */
  tabs.wire(byId("measures"), (tab) => { measure = tab.dataset.measure; drawCurves(); });
  tabs.wire(byId("axes"), (tab) => { axis = Number(tab.dataset.axis); drawCurves(); });
  byId("whole").addEventListener("click", () => { whole = !whole; byId("whole").setAttribute("aria-pressed", whole); drawCurves(); });
  byId("theme").addEventListener("click", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let width = innerWidth, resizing = 0;
  addEventListener("resize", () => { if (innerWidth === width) return; width = innerWidth; clearTimeout(resizing); resizing = setTimeout(draw, 120); });
  connect();
})();
