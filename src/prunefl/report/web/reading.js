"use strict";
/* Read values off a drawn figure, by pointer or by arrow keys. What is told is what was recorded: a reading snaps to
   points, it does not lie between them. */
const reading = (() => {
  const tip = document.getElementById("tip"), spokenTo = document.getElementById("reading");
  const { spoken } = numbers;
  const TOP = 16;

  function show(title, rows, more = 0) {
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
    if (more > 0) { const rest = document.createElement("small"); rest.textContent = `and ${more} more`; tip.append(rest); }
    tip.hidden = !rows.length;
    spokenTo.textContent = [title, ...rows.map(([, label, value]) => `${label} ${value}`)].join("; ");
  }

  function place(clientX, clientY) {
    if (tip.hidden) return;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    const left = clientX + 18 + width > innerWidth ? clientX - 18 - width : clientX + 18;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(innerHeight - height - 4, clientY - height / 2))}px`;
  }

  function clear(view) {
    tip.hidden = true;
    view.svg.querySelectorAll(".cross, .dot").forEach((mark) => mark.remove());
  }

  /* The place in a sorted list that is nearest to a value, by distance on the screen. */
  function nearest(list, value, x) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (list[middle] <= value) low = middle; else high = middle; }
    return Math.abs(x(list[low]) - x(value)) <= Math.abs(x(list[high]) - x(value)) ? low : high;
  }

  const drawn = (view, curve) => curve.x.length && !(view.log && curve.x.at(-1) < view.start);
  const unitOf = (label) => (/\(([^()]*)\)$/.exec(label) || ["", ""])[1];

  function title(view, at) {
    if (view.before && at < 0) return `${view.figure.before.replace(/ \(.*/, "")}, step ${spoken(at - view.start)}`;
    return `${view.figure.x_label.replace(/ \([^()]*\)$/, "")} ${spoken(at)} ${unitOf(view.figure.x_label)}`.trim();
  }

  function readLines(view, px) {
    const at = view.x.back(Math.max(view.box.left, Math.min(view.box.right, px)));
    clear(view);
    const found = view.shown.filter((curve) => drawn(view, curve)).map((curve) => {
      // of what holds until the next point, the point before
      const index = curve.step ? Math.max(0, curve.x.findLastIndex((x) => x <= at + 1e-9)) : nearest(curve.x, at, view.x);
      return { curve, index, far: Math.abs(view.x(curve.x[index]) - view.x(at)) };
    });
    if (!found.length) return;
    const anchor = found.reduce((best, one) => (one.far < best.far ? one : best));
    const snapped = anchor.curve.step ? at : anchor.curve.x[anchor.index];
    view.at = snapped;
    charts.node("line", { class: "cross", x1: view.x(snapped), x2: view.x(snapped), y1: view.box.top, y2: view.box.bottom }, view.svg);
    const rows = [], room = Math.max(24, (view.box.right - view.box.left) / 20);
    for (const { curve, index } of found) {
      const own = curve.x[index], value = curve.y[index];
      // a point far from the line is of another time: a curve that has not begun or is over is not told of
      if (value === null || (!curve.step && Math.abs(view.x(own) - view.x(snapped)) > room) || (curve.step && own > at)) continue;
      charts.node("circle", { class: "dot", cx: view.x(curve.step ? snapped : own), cy: view.y(value), r: 4.5, fill: `var(--${curve.variant})` }, view.svg);
      const half = curve.half.length ? ` ± ${spoken(curve.half[index])}` : "";
      const where = !curve.step && Math.abs(view.x(own) - view.x(snapped)) > 0.5 ? ` at ${spoken(own)}` : "";
      rows.push([`var(--${curve.variant})`, [curve.label, curve.part].filter(Boolean).join(", "), `${spoken(value)}${half}${where}`, value]);
    }
    rows.sort((a, b) => b[3] - a[3]);
    show(title(view, snapped), rows.slice(0, TOP), rows.length - TOP);
  }

  function readPoint(view, px, py) {
    let best = null;
    for (const curve of view.shown) curve.x.forEach((at, index) => {
      const far = (view.x(at) - px) ** 2 + (view.y(curve.y[index]) - py) ** 2;
      if (!best || far < best.far) best = { far, curve, index };
    });
    clear(view);
    if (!best) return;
    const { curve, index } = best;
    view.at = curve.x[index];
    charts.node("circle", { class: "dot", cx: view.x(curve.x[index]), cy: view.y(curve.y[index]), r: 5, fill: `var(--${curve.variant})` }, view.svg);
    show(curve.label, [["transparent", view.figure.x_label, spoken(curve.x[index])], ["transparent", view.figure.y_label, spoken(curve.y[index])]]);
  }

  function readBar(view, line) {
    const row = view.rows[line];
    if (!row) { tip.hidden = true; return; }
    view.at = line;
    const rows = view.figure.parts.map(([part, values]) => [charts.partColour(part), part, `${spoken(values[row.index])} (${((100 * values[row.index]) / (view.totals[line] || 1)).toFixed(0)} %)`]);
    show(`${view.figure.labels[row.index]}: ${spoken(view.totals[line])} ${unitOf(view.figure.x_label)}`, rows);
  }

  function readCell(view, row, column) {
    const { figure } = view;
    row = bounded(row, figure.rows.length);
    column = bounded(column, figure.columns.length);
    view.at = [row, column];
    show(figure.rows[row], [["transparent", `Round ${figure.columns[column].toLocaleString("en-GB")}`, `${(100 * figure.values[row][column]).toFixed(1)} %`]]);
  }

  const bounded = (value, length) => Math.max(0, Math.min(length - 1, value));

  function read(view, px, py, clientX, clientY) {
    const { kind } = view.figure;
    if (kind === "lines") view.figure.points ? readPoint(view, px, py) : readLines(view, px);
    else if (kind === "bars") readBar(view, Math.floor((py - view.top) / view.rowHeight));
    else readCell(view, Math.floor((py - view.top) / view.rowHeight), Math.round(view.x.back(px)));
    place(clientX, clientY);
  }

  function stepLines(view, move, key) {
    const sorted = [...new Set(view.shown.flatMap((curve) => curve.x))].filter((at) => !view.log || at >= view.start).sort((a, b) => a - b);
    // places that nobody can tell apart are one
    const grid = sorted.filter((at, index) => !index || view.x(at) - view.x(sorted[index - 1]) > 0.5);
    if (!grid.length) return;
    const from = view.at === null ? -1 : nearest(grid, view.at, view.x);
    const to = key === "Home" ? 0 : key === "End" ? grid.length - 1 : bounded(from + move[0] - 10 * move[1] * Math.sign(grid.length > 20), grid.length);
    const first = view.shown.find((curve) => curve.x.includes(grid[to]));
    const py = first ? view.y(first.y[first.x.indexOf(grid[to])]) : 0;
    if (view.figure.points) readPoint(view, view.x(grid[to]), py);
    else readLines(view, view.x(grid[to]));
  }

  function step(view, event) {
    if (event.key === "Escape") { clear(view); return; }
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    const { kind } = view.figure;
    if (kind === "lines") stepLines(view, move, event.key);
    else if (kind === "bars") readBar(view, bounded((view.at ?? -1) + (move ? move[0] + move[1] : 0), view.rows.length));
    else {
      const [row, column] = view.at ?? [0, 0], jump = event.key === "Home" ? -1e9 : event.key === "End" ? 1e9 : 0;
      readCell(view, row + (move ? move[1] : 0), column + (move ? move[0] : jump));
    }
    const box = view.svg.getBoundingClientRect();
    const at = kind === "lines" ? view.x(view.at) : kind === "heat" ? view.x(view.at[1]) : 200;
    place(box.left + (at * box.width) / view.svg.viewBox.baseVal.width, box.top + box.height / 2);
  }

  /* Let a drawn figure be read; `view` is what drawing it gave, with the figure. */
  function attach(view) {
    const { svg } = view;
    view.at = null;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), ratio = svg.viewBox.baseVal.width / box.width;
      read(view, (event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", () => clear(view));
    svg.addEventListener("blur", () => clear(view));
    svg.addEventListener("keydown", (event) => step(view, event));
    return view;
  }

  return { attach, clear };
})();
