"use strict";
/* Maps of densities: rows are layers, columns rounds, one colour scale from nothing to all. */
charts.heat = (() => {
  const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
  const { node, drawing, rowsOf, rowName } = charts;

  function shade(value) {
    const at = Math.max(0, Math.min(1, value)) * (VIRIDIS.length - 1), low = Math.min(VIRIDIS.length - 2, Math.floor(at));
    const parts = [1, 3, 5].map((from) => [low, low + 1].map((stop) => parseInt(VIRIDIS[stop].slice(from, from + 2), 16)));
    return parts.map(([a, b]) => Math.round(a + (b - a) * (at - low)));
  }

  /* One pixel a value; the browser stretches them. */
  function picture(values) {
    const canvas = document.createElement("canvas");
    canvas.width = values[0].length;
    canvas.height = values.length;
    const paint = canvas.getContext("2d"), image = paint.createImageData(canvas.width, canvas.height);
    values.forEach((row, y) => row.forEach((value, x) => image.data.set([...shade(value), 255], 4 * (y * canvas.width + x))));
    paint.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }

  function axis(svg, figure, x, bottom) {
    const last = figure.columns.length - 1, first = figure.columns[0], end = figure.columns[last];
    const count = Math.max(2, Math.floor((x(last || 1) - x(0)) / 90)), places = last ? numbers.ticks(first, end, count, true) : [first];
    for (const round of places) {
      const at = last * ((round - first) / (end - first || 1)), label = round.toLocaleString("en-GB");
      const room = numbers.wide(label) / 2;
      node("text", { x: Math.max(room, Math.min(x(last || 1) - room, x(at))), y: bottom + 17, "text-anchor": "middle" }, svg, label);
    }
    node("text", { class: "name", x: (x(0) + x(last || 1)) / 2, y: bottom + 36, "text-anchor": "middle" }, svg, figure.x_label);
  }

  function legend(svg, left, top, width) {
    const size = Math.max(150, Math.min(200, width / 3));
    for (let step = 0; step < 40; step++) node("rect", { x: left + (step * size) / 40, y: top, width: size / 40 + 0.5, height: 8, fill: `rgb(${shade(step / 39)})` }, svg);
    [["0 %", 0, "start"], ["density", 0.5, "middle"], ["100 %", 1, "end"]].forEach(([text, share, anchor]) => node("text", { x: left + share * size, y: top + 23, "text-anchor": anchor }, svg, text));
  }

  return (figure, place, width) => {
    const rows = rowsOf(figure.rows, width), rowHeight = rows.above ? 42 : figure.rows.length > 14 ? 22 : 30;
    const bottom = 6 + rowHeight * figure.rows.length, height = bottom + 82;
    const x = numbers.scale(0, figure.columns.length - 1 || 1, rows.left, width - 4, false);
    const svg = drawing(width, height, `${figure.title}: ${figure.tab}.`);
    figure.values.forEach((row, index) => {
      const top = 6 + rowHeight * index;
      rowName(svg, { ...rows, bar: rowHeight - 3 }, figure.rows[index], top, width);
      const from = rows.above ? top + 17 : top;
      node("image", { class: "cells", x: rows.left, y: from, width: width - rows.left - 4, height: top + rowHeight - 3 - from, preserveAspectRatio: "none", href: picture([row]) }, svg);
    });
    axis(svg, figure, x, bottom);
    legend(svg, rows.left, bottom + 50, width);
    place.replaceChildren(svg);
    return { svg, x, rowHeight, top: 6 };
  };
})();
