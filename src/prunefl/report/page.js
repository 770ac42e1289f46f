"use strict";
/* What a reader can do: switch curves, change axes, read values by pointer or keyboard, change the theme. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip"), reading = document.getElementById("reading");
  const hidden = new Set(), logarithmic = new Set(), views = new Map();
  let printing = false;

  /* On paper a panel takes the page's width or half of it; letters keep their size. */
  const paperWidth = (panel) => (panel.classList.contains("lead") ? 760 : 400);

  function draw(panel) {
    const figure = data.figures[panel.dataset.figure];
    const place = panel.querySelector(".chart");
    const width = printing ? paperWidth(panel) : Math.round(panel.closest("figure").clientWidth - 42);
    const context = { visible: (variant) => !hidden.has(variant), dashes: data.dashes, log: logarithmic.has(figure.name) };
    const view = charts[figure.kind](figure, place, Math.max(320, width), context);
    views.set(panel, { ...view, figure, at: null });
    listen(panel, view.svg);
    if (figure.kind === "lines" && !figure.points && Math.min(...figure.curves.flatMap((curve) => curve.x)) > 0) place.append(logSwitch(panel, figure));
  }

  function logSwitch(panel, figure) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "switch";
    button.textContent = "log x";
    button.setAttribute("aria-pressed", logarithmic.has(figure.name));
    button.addEventListener("click", () => {
      if (!logarithmic.delete(figure.name)) logarithmic.add(figure.name);
      draw(panel);
      panel.querySelector(".switch").focus();
    });
    return button;
  }

  const panels = [...document.querySelectorAll(".panel")];
  const drawAll = () => panels.forEach(draw);

  /* ---- reading values ---- */
  function listen(panel, svg) {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), ratio = svg.viewBox.baseVal.width / box.width;
      read(panel, (event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => clear(panel));
    svg.addEventListener("blur", () => clear(panel));
    svg.addEventListener("keydown", (event) => step(panel, event));
  }

  function clear(panel) {
    tip.hidden = true;
    views.get(panel).svg.querySelectorAll(".cross, .dot").forEach((mark) => mark.remove());
  }

  function nearest(list, value) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (list[middle] <= value) low = middle; else high = middle; }
    return Math.abs(list[low] - value) <= Math.abs(list[high] - value) ? low : high;
  }

  function read(panel, px, py, clientX, clientY) {
    const view = views.get(panel), kind = view.figure.kind;
    if (kind === "lines") (view.figure.points ? readPoint : readLines)(panel, view, px, py);
    else if (kind === "bars") readBar(view, Math.floor((py - 8) / 38));
    else readCell(view, Math.floor((py - view.top) / view.rowHeight), Math.round(view.x.back(px)));
    place(clientX, clientY);
  }

  function place(clientX, clientY) {
    if (tip.hidden) return;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${clientX + 18 + width > innerWidth ? Math.max(4, clientX - 18 - width) : clientX + 18}px`;
    tip.style.top = `${Math.max(4, Math.min(innerHeight - height - 4, clientY - height / 2))}px`;
  }

  function show(title, rows) {
    const head = document.createElement("b");
    head.textContent = title;
    tip.replaceChildren(head, ...rows.map(([colour, label, value]) => {
      const row = document.createElement("div"), mark = document.createElement("i"), name = document.createElement("span"), number = document.createElement("em");
      mark.style.background = colour;
      name.textContent = label;
      number.textContent = value;
      row.append(mark, name, number);
      return row;
    }));
    tip.hidden = !rows.length;
    reading.textContent = [title, ...rows.map(([, label, value]) => `${label} ${value}`)].join("; ");
  }

  /* Return what is drawn at a place: on the line between two points, or on the step before it. */
  function valueAt(view, curve, values, at) {
    const after = curve.x.findIndex((x) => x > at);
    if (after === 0) return values[0];
    const before = after < 0 ? values.length - 1 : after - 1;
    if (after < 0 || curve.step || values[before] === null || values[after] === null) return values[before];
    const [left, right] = [view.x(curve.x[before]), view.x(curve.x[after])];
    return values[before] + ((view.x(at) - left) / (right - left)) * (values[after] - values[before]);
  }

  function readLines(panel, view, px) {
    const at = view.x.back(Math.max(view.box.left, Math.min(view.box.right, px)));
    view.at = at;
    clear(panel);
    charts.node("line", { class: "cross", x1: view.x(at), x2: view.x(at), y1: view.box.top, y2: view.box.bottom }, view.svg);
    const rows = [];
    for (const curve of view.shown) {
      // three pixels of grace: a pointer is no needle
      if (!curve.x.length || view.x(at) < view.x(curve.x[0]) - 3 || view.x(at) > view.x(curve.x.at(-1)) + 3) continue;
      const value = valueAt(view, curve, curve.y, at);
      if (value === null) continue;
      charts.node("circle", { class: "dot", cx: view.x(Math.max(view.start, at)), cy: view.y(value), r: 4.5, fill: `var(--${curve.variant})` }, view.svg);
      const half = curve.half.length ? ` ± ${charts.spoken(valueAt(view, curve, curve.half, at))}` : "";
      rows.push([`var(--${curve.variant})`, curve.label, charts.spoken(value) + half, value]);
    }
    rows.sort((a, b) => b[3] - a[3]);
    show(`${view.figure.x_label}: ${charts.spoken(at)}`, rows);
  }

  function readPoint(panel, view, px, py) {
    let best = null;
    for (const curve of view.shown) curve.x.forEach((at, index) => {
      const far = (view.x(at) - px) ** 2 + (view.y(curve.y[index]) - py) ** 2;
      if (!best || far < best.far) best = { far, curve, index };
    });
    clear(panel);
    if (!best) return;
    const { curve, index } = best;
    view.at = curve.x[index];
    charts.node("circle", { class: "dot", cx: view.x(curve.x[index]), cy: view.y(curve.y[index]), r: 5, fill: `var(--${curve.variant})` }, view.svg);
    show(curve.label, [["transparent", view.figure.x_label, charts.spoken(curve.x[index])], ["transparent", view.figure.y_label, charts.spoken(curve.y[index])]]);
  }

  function readBar(view, line) {
    const row = view.rows[line];
    if (!row) { tip.hidden = true; return; }
    view.at = line;
    const rows = view.figure.parts.map(([part, values]) => [charts.partColour(part), part, `${charts.spoken(values[row.index])} (${((100 * values[row.index]) / (view.totals[line] || 1)).toFixed(0)} %)`]);
    show(`${view.figure.labels[row.index]}: ${charts.spoken(view.totals[line])}`, rows);
  }

  function readCell(view, row, column) {
    const { figure } = view;
    row = Math.max(0, Math.min(figure.rows.length - 1, row));
    column = Math.max(0, Math.min(figure.columns.length - 1, column));
    view.at = [row, column];
    show(figure.rows[row], [["transparent", `Round ${figure.columns[column].toLocaleString("en-GB")}`, `${(100 * figure.values[row][column]).toFixed(1)} %`]]);
  }

  function step(panel, event) {
    const view = views.get(panel), { figure } = view;
    if (event.key === "Escape") { clear(panel); return; }
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    if (figure.kind === "lines") stepLines(panel, view, move, event.key);
    else if (figure.kind === "bars") readBar(view, bounded((view.at ?? -1) + (move ? move[0] + move[1] : 0), view.rows.length));
    else {
      const [row, column] = view.at ?? [0, 0];
      const jump = event.key === "Home" ? -1e9 : event.key === "End" ? 1e9 : 0;
      readCell(view, row + (move ? move[1] : 0), column + (move ? move[0] : jump));
    }
    const box = view.svg.getBoundingClientRect();
    const at = figure.kind === "lines" ? view.x(view.at) : figure.kind === "heat" ? view.x(view.at[1]) : 200;
    place(box.left + (at * box.width) / view.svg.viewBox.baseVal.width, box.top + box.height / 2);
  }

  const bounded = (value, length) => Math.max(0, Math.min(length - 1, value));

  function stepLines(panel, view, move, key) {
    const grid = [...new Set(view.shown.flatMap((curve) => curve.x))].filter((at) => at >= view.start).sort((a, b) => a - b);
    if (!grid.length) return;
    const from = view.at === null ? -1 : nearest(grid, view.at);
    const to = key === "Home" ? 0 : key === "End" ? grid.length - 1 : bounded(from + move[0] - 10 * move[1] * Math.sign(grid.length > 20), grid.length);
    const first = view.shown.find((curve) => curve.x.includes(grid[to]));
    const py = first ? view.y(first.y[first.x.indexOf(grid[to])]) : 0;
    (view.figure.points ? readPoint : readLines)(panel, view, view.x(grid[to]), py);
  }

  /* ---- switching curves ---- */
  const chips = [...document.querySelectorAll("[data-variant]")];
  function refresh() {
    chips.forEach((chip) => chip.setAttribute("aria-pressed", !hidden.has(chip.dataset.variant)));
    drawAll();
  }
  chips.forEach((chip) => chip.addEventListener("click", () => {
    if (!hidden.delete(chip.dataset.variant)) hidden.add(chip.dataset.variant);
    refresh();
  }));
  chips.forEach((chip) => chip.addEventListener("dblclick", () => {
    chips.forEach((other) => hidden.add(other.dataset.variant));
    hidden.delete(chip.dataset.variant);
    refresh();
  }));
  document.querySelectorAll("[data-all]").forEach((button) => button.addEventListener("click", () => {
    if (button.dataset.all === "show") hidden.clear();
    else chips.forEach((chip) => hidden.add(chip.dataset.variant));
    refresh();
  }));

  /* ---- tabs ---- */
  document.querySelectorAll("[role=tablist]").forEach((list) => {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    const select = (tab) => tabs.forEach((other) => {
      other.setAttribute("aria-selected", other === tab);
      other.tabIndex = other === tab ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).classList.toggle("away", other !== tab);
    });
    tabs.forEach((tab, index) => {
      tab.addEventListener("click", () => select(tab));
      tab.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!move) return;
        const next = tabs[(index + move + tabs.length) % tabs.length];
        select(next);
        next.focus();
      });
    });
  });

  /* ---- theme, printing, size ---- */
  const root = document.documentElement, theme = document.getElementById("theme");
  function paint(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    theme.textContent = dark ? "Light" : "Dark";
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  paint(system.matches);
  system.addEventListener("change", (event) => paint(event.matches));
  theme.addEventListener("click", () => paint(root.dataset.theme !== "dark"));
  document.getElementById("print").addEventListener("click", () => print());
  addEventListener("beforeprint", () => { printing = true; drawAll(); });
  addEventListener("afterprint", () => { printing = false; drawAll(); });
  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width || printing) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 120);
  });
  drawAll();
  root.dataset.ready = "yes";
})();
