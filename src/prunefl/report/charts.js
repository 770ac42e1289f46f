"use strict";
/* Draw figures as SVG. Colours come from CSS variables, so that a theme needs no new drawing. */
const charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];

  function node(name, attributes, parent, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  function ticks(low, high, count, whole) {
    const raw = Math.max(whole ? 1 : 0, (high - low || 1) / count);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw && !(whole && size % 1));
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    return found;
  }

  function logTicks(low, high) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const factor of [1, 2, 5]) {
        const at = factor * 10 ** power;
        if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
      }
    return found;
  }

  function spoken(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size < 1) return String(Number(value.toPrecision(3)));
    const digits = size >= 1000 ? 0 : size >= 100 ? 1 : 2;
    return value.toLocaleString("en-GB", { maximumFractionDigits: digits });
  }

  function short(value) {
    return Math.abs(value) >= 1 ? value.toLocaleString("en-GB", { maximumFractionDigits: 2 }) : String(Number(value.toPrecision(2)));
  }

  function extent(lists) {
    let low = Infinity, high = -Infinity;
    for (const list of lists) for (const value of list) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    return low <= high ? [low, high] : [0, 1];
  }

  function scale(low, high, from, to, log) {
    const shape = log ? Math.log10 : (value) => value;
    const span = shape(high) - shape(low) || 1;
    const place = (value) => from + ((shape(value) - shape(low)) / span) * (to - from);
    place.back = (pixel) => { const at = shape(low) + ((pixel - from) / (to - from)) * span; return log ? 10 ** at : at; };
    return place;
  }

  /* Return an SVG with axes, and the scales that fit the shown curves. */
  function frame(figure, place, width, log) {
    const height = Math.max(width < 450 ? 210 : 260, Math.min(430, width * 0.46));
    const box = { left: 58, right: width - 14, top: 12, bottom: height - 46 };
    const [x0, x1] = extent([...figure.curves, ...figure.lines].map((curve) => curve.x));
    const ys = extent([...figure.curves.flatMap((curve) => [curve.y, curve.low, curve.high]), ...figure.lines.map((line) => line.y)]);
    const y0 = figure.points ? ys[0] : Math.min(0, ys[0]);
    const y1 = ys[1] + 0.04 * (ys[1] - y0 || 1);
    const start = log ? Math.max(x0, x1 / 1e5) : figure.points || x0 < 0 ? x0 : Math.min(0, x0);
    const x = scale(start, x1, box.left, box.right, log), y = scale(y0, y1, box.bottom, box.top, false);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `${figure.title}. ${figure.y_label} against ${figure.x_label}. Arrow keys read values.` });
    for (const at of ticks(y0, y1, 5)) {
      node("line", { class: "grid", x1: box.left, x2: box.right, y1: y(at), y2: y(at) }, svg);
      node("text", { x: box.left - 9, y: y(at) + 4, "text-anchor": "end" }, svg, short(at));
    }
    for (const at of log ? logTicks(start, x1) : ticks(start, x1, Math.max(3, width / 110), figure.x_label === "Round")) {
      node("line", { class: "axis", x1: x(at), x2: x(at), y1: box.bottom, y2: box.bottom + 5 }, svg);
      node("text", { x: x(at), y: box.bottom + 20, "text-anchor": "middle" }, svg, short(at));
    }
    if (!log && start < 0) node("line", { class: "axis", x1: x(0), x2: x(0), y1: box.top, y2: box.bottom }, svg);
    node("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
    node("text", { class: "name", x: (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle" }, svg, figure.x_label);
    node("text", { class: "name", transform: `translate(14 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, figure.y_label);
    place.replaceChildren(svg);
    return { svg, x, y, box, start, log };
  }

  function path(curve, values, view, step) {
    let text = "", last = null;
    curve.x.forEach((at, index) => {
      const value = values[index];
      if (value === null || (view.log && at < view.start)) return;
      const px = view.x(at).toFixed(1), py = view.y(value).toFixed(1);
      text += last === null ? `M${px} ${py}` : step ? `H${px}V${py}` : `L${px} ${py}`;
      last = value;
    });
    return text;
  }

  function band(curve, view, step) {
    const upper = path(curve, curve.high, view, step);
    const reversed = { x: [...curve.x].reverse() };
    const lower = step ? backwards(curve, view) : path(reversed, [...curve.low].reverse(), view, false);
    return upper && lower ? `${upper}${lower.replace(/^M/, "L")}Z` : "";
  }

  function backwards(curve, view) {
    let text = "";
    for (let index = curve.x.length - 1; index >= 0; index--) {
      const px = view.x(curve.x[index]).toFixed(1), py = view.y(curve.low[index]).toFixed(1);
      text += text ? `V${py}H${px}` : `M${px} ${py}`;
    }
    return text;
  }

  function lines(figure, place, width, context) {
    const shown = figure.curves.filter((curve) => context.visible(curve.variant));
    const fitted = { ...figure, curves: shown.length ? shown : figure.curves };
    const view = frame(fitted, place, width, context.log);
    for (const line of figure.lines) node("path", { class: "reference", d: path(line, line.y, view, false) }, view.svg);
    for (const curve of shown) {
      const colour = `var(--${curve.variant})`;
      if (figure.points) {
        curve.x.forEach((at, index) => node("circle", { cx: view.x(at), cy: view.y(curve.y[index]), r: 3, fill: colour, opacity: 0.55, "data-curve": curve.variant }, view.svg));
        continue;
      }
      if (curve.low.length) node("path", { class: "band", fill: colour, d: band(curve, view, curve.step) }, view.svg);
      const strong = curve.label === "PruneFL" ? " strong" : "";
      node("path", { class: `curve${strong}`, stroke: colour, "stroke-dasharray": context.dashes[curve.variant] || "none", d: path(curve, curve.y, view, curve.step), "data-curve": curve.variant }, view.svg);
    }
    return { ...view, shown };
  }

  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `12.5px ${getComputedStyle(document.body).fontFamily}`;
  const wide = (text) => ruler.measureText(text).width;

  /* Room for names at the left: what the longest needs, but never more than two fifths of the chart. */
  const margin = (names, width) => Math.min(0.4 * width, 14 + Math.max(0, ...names.map(wide)));

  /* Return a name in at most so many lines that fit the room; what is too long even so ends in dots. */
  function inLines(name, room, most) {
    const found = [];
    for (const word of name.split(" ")) {
      const longer = found.length ? `${found.at(-1)} ${word}` : word;
      if (!found.length || (wide(longer) > room && found.length < most)) found.push(word);
      else found[found.length - 1] = longer;
    }
    return found.map((line) => {
      while (wide(line) > room) line = `${line.replace(/…$/, "").slice(0, -1)}…`;
      return line;
    });
  }

  const partColour = (part) => `var(--part-${part.replace(" ", "-")})`;

  function bars(figure, place, width, context) {
    const rows = figure.variants.map((variant, index) => ({ variant, index })).filter((row) => context.visible(row.variant));
    const left = margin(rows.map((row) => figure.labels[row.index]), width), height = rows.length * 38 + 48;
    const totals = rows.map((row) => figure.parts.reduce((sum, part) => sum + part[1][row.index], 0));
    const most = Math.max(...totals, 1e-9), right = width - 20 - Math.max(0, ...totals.map((total) => wide(spoken(total))));
    const x = scale(0, most, left, right, false);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `${figure.title}. ${figure.x_label} by part. Arrow keys read values.` });
    for (const at of ticks(0, most, Math.max(3, width / 130))) {
      node("line", { class: "grid", x1: x(at), x2: x(at), y1: 4, y2: height - 40 }, svg);
      node("text", { x: x(at), y: height - 24, "text-anchor": "middle" }, svg, short(at));
    }
    rows.forEach((row, line) => {
      const top = 8 + line * 38;
      const label = inLines(figure.labels[row.index], left - 10, 2);
      label.forEach((text, nth) => node("text", { class: "name", x: left - 10, y: top + 24 - 7 * label.length + 14 * nth, "text-anchor": "end" }, svg, text));
      let from = 0;
      for (const [part, values] of figure.parts) {
        const value = values[row.index];
        if (value > 0) node("rect", { x: x(from), y: top, width: Math.max(0.4, x(from + value) - x(from)), height: 25, fill: partColour(part), "data-curve": row.variant }, svg);
        from += value;
      }
      node("text", { class: "name", x: x(totals[line]) + 7, y: top + 17 }, svg, spoken(totals[line]));
    });
    node("text", { class: "name", x: (left + width) / 2, y: height - 5, "text-anchor": "middle" }, svg, figure.x_label);
    const key = document.createElement("p");
    key.className = "parts";
    for (const [part] of figure.parts) {
      const item = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = partColour(part);
      item.append(mark, part);
      key.append(item);
    }
    place.replaceChildren(key, svg);
    return { svg, rows, totals };
  }

  function shade(value) {
    const at = Math.max(0, Math.min(1, value)) * (VIRIDIS.length - 1), low = Math.min(VIRIDIS.length - 2, Math.floor(at));
    const parts = [1, 3, 5].map((from) => [low, low + 1].map((stop) => parseInt(VIRIDIS[stop].slice(from, from + 2), 16)));
    return parts.map(([a, b]) => Math.round(a + (b - a) * (at - low)));
  }

  function heat(figure, place, width) {
    const rowHeight = figure.rows.length > 14 ? 20 : 30, left = margin(figure.rows, width);
    const bottom = 10 + rowHeight * figure.rows.length, height = bottom + 84;
    const picture = document.createElement("canvas");
    picture.width = figure.columns.length;
    picture.height = figure.rows.length;
    const paint = picture.getContext("2d"), image = paint.createImageData(picture.width, picture.height);
    figure.values.forEach((row, y) => row.forEach((value, x) => image.data.set([...shade(value), 255], 4 * (y * picture.width + x))));
    paint.putImageData(image, 0, 0);
    const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `${figure.title}: ${figure.tab}. Arrow keys read values.` });
    node("image", { x: left, y: 10, width: width - left - 14, height: bottom - 10, preserveAspectRatio: "none", style: "image-rendering: pixelated", href: picture.toDataURL() }, svg);
    figure.rows.forEach((name, row) => node("text", { class: "name", x: left - 10, y: 10 + rowHeight * (row + 0.5) + 4, "text-anchor": "end" }, svg, inLines(name, left - 10, 1)[0]));
    const last = figure.columns.length - 1, x = scale(0, last || 1, left, width - 14, false);
    for (const at of [0, 0.25, 0.5, 0.75, 1].map((share) => Math.round(share * last)))
      node("text", { x: x(at), y: bottom + 18, "text-anchor": at === 0 ? "start" : at === last ? "end" : "middle" }, svg, figure.columns[at].toLocaleString("en-GB"));
    node("text", { class: "name", x: (left + width) / 2, y: bottom + 38, "text-anchor": "middle" }, svg, figure.x_label);
    const size = Math.min(220, width / 3);
    for (let step = 0; step < 44; step++)
      node("rect", { x: left + (step * size) / 44, y: bottom + 52, width: size / 44 + 0.5, height: 9, fill: `rgb(${shade(step / 43)})` }, svg);
    [["0 %", 0, "start"], ["density", 0.5, "middle"], ["100 %", 1, "end"]].forEach(([text, share, anchor]) => node("text", { x: left + share * size, y: bottom + 76, "text-anchor": anchor }, svg, text));
    place.replaceChildren(svg);
    return { svg, x, left, rowHeight, top: 10 };
  }

  return { node, lines, bars, heat, partColour, spoken };
})();
