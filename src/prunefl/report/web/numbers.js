"use strict";
/* Numbers as people read them, places of ticks, and scales from values to pixels. */
const numbers = (() => {
  const UNITS = {
    seconds: [["s", 1], ["min", 60], ["h", 3600], ["days", 86400]],
    bytes: [["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]],
  };

  /* The largest unit of which there are at least two, or the smallest: as the report's own tables choose it. */
  const unitFor = (largest, kind) => UNITS[kind].findLast(([, size]) => largest >= 2 * size) || UNITS[kind][0];

  function spoken(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size < 1) return String(Number(value.toPrecision(3))).replace("-", "−");
    const digits = size >= 1000 ? 0 : size >= 100 ? 1 : 2;
    return value.toLocaleString("en-GB", { maximumFractionDigits: digits }).replace("-", "−");
  }

  /* 12 s, 3:05 min, 2:10 h, 3.2 days. */
  function duration(seconds) {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
    const whole = Math.round(seconds), two = (number) => String(number).padStart(2, "0");
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)} min`;
    if (whole < 172800) return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)} h`;
    return `${(seconds / 86400).toFixed(1)} days`;
  }

  function size(bytes) {
    if (bytes === null || bytes === undefined) return "–";
    if (bytes < 1000) return `${Math.round(bytes)} B`;
    const [unit, scale] = UNITS.bytes.findLast(([, at]) => bytes >= at) || UNITS.bytes[0];
    return `${spoken(Number((bytes / scale).toPrecision(3)))} ${unit}`;
  }

  const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`);

  function ticks(low, high, count, whole) {
    const raw = Math.max(whole ? 1 : 0, (high - low || 1) / count);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((at) => at >= raw * 0.999 && !(whole && at % 1)) || 10 * power;
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    return found;
  }

  function logTicks(low, high, count) {
    const found = [], powers = Math.log10(high / low);
    const factors = powers > count ? [1] : powers > count / 2 ? [1, 3] : powers < 0.7 ? [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const factor of factors) {
        const at = factor * 10 ** power;
        if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
      }
    return found.length > 1 ? found : [low, high];
  }

  /* Tick labels of one axis: all with as many decimals as the finest step needs. */
  function tickLabels(places) {
    const step = Math.min(...places.slice(1).map((at, index) => Math.abs(at - places[index])), Infinity);
    const digits = Number.isFinite(step) && step > 0 ? Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9))) : 2;
    const finer = places.some((at) => Math.abs(at * 10 ** digits - Math.round(at * 10 ** digits)) > 1e-6) ? 1 : 0;
    return places.map((at) => at.toLocaleString("en-GB", { maximumFractionDigits: digits + finer }).replace("-", "−"));
  }

  function extent(lists) {
    let low = Infinity, high = -Infinity;
    for (const list of lists) for (const value of list) if (value !== null) { if (value < low) low = value; if (value > high) high = value; }
    return low <= high ? [low, high] : [0, 1];
  }

  function scale(low, high, from, to, log) {
    const shape = log ? Math.log10 : (value) => value;
    const span = shape(high) - shape(low) || 1;
    const place = (value) => from + ((shape(value) - shape(low)) / span) * (to - from);
    place.back = (pixel) => { const at = shape(low) + ((pixel - from) / (to - from)) * span; return log ? 10 ** at : at; };
    return place;
  }

  /* A scale in two parts: below zero on the small axis of its own, from zero on along the rest. */
  function splitScale(low, high, from, middle, gap, to) {
    const left = scale(low, 0, from, middle, false), right = scale(0, high, middle + gap, to, false);
    const place = (value) => (value < 0 ? left(value) : right(value));
    place.back = (pixel) => (pixel < middle + gap / 2 ? Math.min(left.back(pixel), -1e-9) : Math.max(0, right.back(pixel)));
    return place;
  }

  const ruler = document.createElement("canvas").getContext("2d");
  function wide(text, size = 12) {
    ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
    return ruler.measureText(text).width;
  }

  /* A name in at most so many lines that fit the room; what is too long even so ends in dots. */
  function inLines(name, room, most, size = 12) {
    const found = [];
    for (const word of name.split(" ")) {
      const longer = found.length ? `${found.at(-1)} ${word}` : word;
      if (!found.length || (wide(longer, size) > room && found.length < most)) found.push(word);
      else found[found.length - 1] = longer;
    }
    return found.map((line) => {
      if (wide(line, size) <= room) return line;
      const letters = [...line];
      while (letters.length > 1 && wide(`${letters.join("")}…`, size) > room) letters.pop();
      return `${letters.join("")}…`;
    });
  }

  return { unitFor, spoken, duration, size, percent, ticks, logTicks, tickLabels, extent, scale, splitScale, wide, inLines };
})();
