"use strict";
/* Draw figures as SVG. Colours come from CSS variables, so that a theme needs no new drawing. */
const charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const { extent, inLines, logTicks, scale, splitScale, spoken, tickLabels, ticks, wide } = numbers;
  const NARROW = 560;

  function node(name, attributes, parent, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  const drawing = (width, height, words) =>
    node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `${words} Arrow keys read values.` });

  /* As many ticks as have room for their labels. */
  function roomyTicks(make, x, most) {
    for (let count = most; ; count--) {
      const places = make(count), labels = tickLabels(places);
      const ends = labels.map((label, index) => [x(places[index]) - wide(label) / 2, x(places[index]) + wide(label) / 2]);
      const apart = ends.every(([left], index) => !index || left > ends[index - 1][1] + 10);
      if (apart || count <= 2) return apart ? places : places.filter((_, index) => index === 0 || index === places.length - 1);
    }
  }

  /* At least four: fewer do not let a reader judge where a curve is. */
  function enoughTicks(low, high, count) {
    const found = ticks(low, high, count);
    return found.length >= 4 || count > 12 ? found : enoughTicks(low, high, count + 1);
  }

  function yRange(figure, options) {
    const ys = extent([...figure.curves.flatMap((curve) => [curve.y, curve.low, curve.high]), ...figure.lines.map((line) => line.y)]);
    if (options.whole && figure.bounds.length) return [figure.bounds[0], Math.max(figure.bounds[1], ys[1])];
    const pad = 0.06 * (ys[1] - ys[0]) || 0.05 * Math.abs(ys[1]) || 1;
    const [least, most] = figure.bounds.length ? figure.bounds : [-Infinity, Infinity];
    const low = ys[0] >= 0 && ys[0] < 0.25 * ys[1] && !figure.points ? 0 : ys[0] - pad;
    return [Math.max(Math.min(least, ys[0]), low), Math.min(Math.max(most, ys[1]), ys[1] + pad)];
  }

  function xAxis(figure, view, options, width) {
    const { svg, x, box, start, end } = view, most = Math.max(5, Math.floor(width / 90));
    const make = (count) => (view.log ? logTicks(start, end, count) : ticks(view.before ? 0 : start, end, count, figure.x_label === "Round"));
    const places = roomyTicks(make, x, most), labels = tickLabels(places);
    places.forEach((at, index) => {
      node("line", { class: "axis", x1: x(at), x2: x(at), y1: box.bottom, y2: box.bottom + 4 }, svg);
      const half = wide(labels[index]) / 2, shift = Math.min(0, width - 1 - (x(at) + half));
      node("text", { x: x(at) + shift, y: box.bottom + 18, "text-anchor": "middle" }, svg, labels[index]);
    });
    const from = view.before ? view.before.right : box.left;
    node("line", { class: "axis", x1: from, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
    node("text", { class: "name", x: (from + box.right) / 2, y: box.bottom + 37, "text-anchor": "middle" }, svg, inLines(figure.x_label, box.right - from, 1)[0]);
    if (view.before) beforeAxis(figure, view);
  }

  /* Initial pruning is counted from its own beginning, below a ground of its own. */
  function beforeAxis(figure, { svg, box, before, start }) {
    node("rect", { class: "before", x: box.left, y: box.top, width: before.left - box.left, height: box.bottom - box.top }, svg);
    node("line", { class: "axis", x1: box.left, x2: before.left, y1: box.bottom, y2: box.bottom }, svg);
    const room = before.left - box.left, last = spoken(-start);
    if (wide("0") + wide(last) + 12 < room) node("text", { x: box.left, y: box.bottom + 18, "text-anchor": "start" }, svg, "0");
    node("text", { x: before.left, y: box.bottom + 18, "text-anchor": "end" }, svg, last);
    inLines(figure.before, room + 8, 2, 11).forEach((line, nth) => node("text", { class: "small", x: box.left, y: box.bottom + 36 + 13 * nth }, svg, line));
  }

  /* An SVG with axes, and the scales that fit the shown curves. */
  function frame(figure, place, width, options) {
    const height = options.height || Math.round(Math.max(width < NARROW ? 250 : 270, Math.min(400, width * 0.42)));
    const [x0, x1] = extent([...figure.curves, ...figure.lines].map((curve) => curve.x));
    const [y0, y1] = yRange(figure, options);
    const yTicks = enoughTicks(y0, y1, Math.max(4, Math.round(height / 62))), yLabels = tickLabels(yTicks);
    const log = options.log && x1 > 0;
    const box = { left: 12 + Math.max(...yLabels.map((label) => wide(label)), 12), right: width - 10, top: 28, bottom: height - (figure.before ? 58 : 46) };
    const start = log ? Math.max(Math.min(...figure.curves.flatMap((c) => c.x.filter((at) => at > 0))), x1 / 1e5) : figure.points || figure.marks || x0 < 0 ? x0 : options.from ?? Math.min(0, x0);
    const split = figure.before && start < 0 && !log;
    const middle = box.left + Math.max(84, 0.17 * (box.right - box.left));
    const x = split ? splitScale(start, x1, box.left, middle, 14, box.right) : scale(start, x1, box.left, box.right, log);
    const y = scale(y0, y1, box.bottom, box.top, false);
    const svg = drawing(width, height, `${figure.title}. ${figure.y_label} against ${figure.x_label}.`);
    yTicks.forEach((at, index) => {
      node("line", { class: "grid", x1: box.left, x2: box.right, y1: y(at), y2: y(at) }, svg);
      node("text", { x: box.left - 8, y: y(at) + 4, "text-anchor": "end" }, svg, yLabels[index]);
    });
    node("text", { class: "name", x: 0, y: 12 }, svg, figure.y_label);
    const view = { svg, x, y, box, start, end: x1, log, before: split ? { left: middle, right: middle + 14 } : null };
    xAxis(figure, view, options, width);
    place.replaceChildren(svg);
    return view;
  }

  function path(curve, values, view) {
    let text = "", last = null, under = false;
    for (let index = 0; index < curve.x.length; index++) {
      const at = curve.x[index], value = values[index];
      if (value === null || (view.log && at < view.start)) { last = null; continue; }
      // the small axis ends where the rounds begin: no line leads across the gap
      if (view.before && under && at >= 0) last = null;
      under = at < 0;
      const px = view.x(at).toFixed(1), py = view.y(value).toFixed(1);
      text += last === null ? `M${px} ${py}` : curve.step ? `H${px}V${py}` : `L${px} ${py}`;
      last = value;
    }
    return text;
  }

  function band(curve, view) {
    const points = curve.x.map((at, index) => [at, curve.low[index], curve.high[index]]).filter(([at]) => !(view.log && at < view.start) && !(view.before && at < 0));
    if (!points.length) return "";
    const upper = points.map(([at, , high], index) => `${index ? (curve.step ? `H${view.x(at).toFixed(1)}V` : `L${view.x(at).toFixed(1)} `) : `M${view.x(at).toFixed(1)} `}${view.y(high).toFixed(1)}`).join("");
    let lower = "";
    for (const [at, low] of points.reverse()) lower += curve.step ? `V${view.y(low).toFixed(1)}H${view.x(at).toFixed(1)}` : `L${view.x(at).toFixed(1)} ${view.y(low).toFixed(1)}`;
    return `${upper}${lower}Z`;
  }

  function lines(figure, place, width, context) {
    const shown = figure.curves.filter((curve) => context.visible(curve.variant));
    const fitted = { ...figure, curves: shown.length ? shown : figure.curves };
    const view = frame(fitted, place, width, context);
    for (const line of figure.lines) node("path", { class: "reference", d: path(line, line.y, view) }, view.svg);
    for (const curve of shown) {
      const colour = `var(--${curve.variant})`, marked = figure.points || figure.marks || curve.x.length === 1;
      if (curve.low.length) node("path", { class: "band", fill: colour, d: band(curve, view) }, view.svg);
      if (!figure.points) node("path", { class: `curve${curve.strong ? " strong" : ""}`, stroke: colour, "stroke-dasharray": context.dashes[curve.variant] || "none", d: path(curve, curve.y, view), "data-curve": curve.variant }, view.svg);
      if (marked) curve.x.forEach((at, index) => {
        if (curve.y[index] !== null && !(view.log && at < view.start)) node("circle", { class: figure.points ? "point" : "mark", cx: view.x(at).toFixed(1), cy: view.y(curve.y[index]).toFixed(1), r: figure.points ? 3 : 3.5, fill: colour, "data-curve": curve.variant }, view.svg);
      });
    }
    return { ...view, shown };
  }

  const partColour = (part) => `var(--part-${part.replace(" ", "-")})`;

  /* Names at the left, or above their rows where that would leave too little for the values. */
  function rowsOf(names, width) {
    const above = width < NARROW, left = above ? 0 : Math.min(0.36 * width, 14 + Math.max(0, ...names.map((name) => wide(name, 12.5))));
    return { above, left, height: above ? 44 : 36, bar: above ? 20 : 24 };
  }

  function rowName(svg, rows, name, top, width) {
    if (rows.above) { node("text", { class: "name", x: 0, y: top + 11 }, svg, inLines(name, width, 1, 12.5)[0]); return; }
    const label = inLines(name, rows.left - 12, 2, 12.5);
    label.forEach((text, nth) => node("text", { class: "name", x: rows.left - 12, y: top + rows.bar / 2 + 11.5 - 7 * label.length + 14 * nth, "text-anchor": "end" }, svg, text));
  }

  function bars(figure, place, width, context) {
    const shown = figure.variants.map((variant, index) => ({ variant, index })).filter((row) => context.visible(row.variant));
    const rows = rowsOf(shown.map((row) => figure.labels[row.index]), width), height = shown.length * rows.height + 52;
    const totals = shown.map((row) => figure.parts.reduce((sum, part) => sum + part[1][row.index], 0));
    const most = Math.max(...totals, 1e-9), right = width - 12 - Math.max(0, ...totals.map((total) => wide(spoken(total), 12.5)));
    const x = scale(0, most, rows.left, right, false);
    const svg = drawing(width, height, `${figure.title}. ${figure.x_label} by part.`);
    const places = roomyTicks((count) => ticks(0, most, count), x, Math.max(3, Math.floor(width / 110))), labels = tickLabels(places);
    places.forEach((at, index) => {
      node("line", { class: "grid", x1: x(at), x2: x(at), y1: 4, y2: height - 44 }, svg);
      node("text", { x: Math.max(x(at), wide(labels[index]) / 2), y: height - 28, "text-anchor": "middle" }, svg, labels[index]);
    });
    shown.forEach((row, line) => {
      const head = 6 + line * rows.height, top = head + (rows.above ? 17 : 0);
      rowName(svg, rows, figure.labels[row.index], head, width);
      let from = 0;
      for (const [part, values] of figure.parts) {
        const value = values[row.index];
        if (value > 0) node("rect", { x: x(from), y: top, width: Math.max(0.4, x(from + value) - x(from)), height: rows.bar, fill: partColour(part), "data-curve": row.variant }, svg);
        from += value;
      }
      node("text", { class: "name", x: x(totals[line]) + 6, y: top + rows.bar / 2 + 4.5 }, svg, spoken(totals[line]));
    });
    node("text", { class: "name", x: (rows.left + right) / 2, y: height - 7, "text-anchor": "middle" }, svg, figure.x_label);
    const key = document.createElement("p");
    key.className = "parts";
    for (const [part] of figure.parts) {
      const item = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = partColour(part);
      item.append(mark, part);
      key.append(item);
    }
    place.replaceChildren(key, svg);
    return { svg, rows: shown, totals, top: 6, rowHeight: rows.height };
  }

  return { NARROW, node, drawing, lines, bars, partColour, rowsOf, rowName };
})();
