"use strict";
/* A lane for each client. Only the lanes in sight are in the page: a thousand clients cost no more than thirty. */
const lanes = (() => {
  const place = document.getElementById("lanes"), order = document.getElementById("order");
  const { duration, percent, size } = numbers;
  const TROUBLE = ["refused", "left out", "away", "silent", "late", "training", "waiting", "in use", "–"];
  const [CLIENT, STATE, WHY, HEARD, UP, DOWN, SAMPLES, ACCURACY, , REFUSALS] = Array(10).keys();
  const KEPT = 60;
  let rows = [], history = [], offset = 0, shown = [];

  function reset() { rows = []; history = []; }

  function take(news) {
    if (news.anew) history = [];
    for (const row of news.lanes || []) rows[row[CLIENT]] = row;
    if (news.history) history = [...history, ...news.history].slice(-KEPT);
    if (news.now) offset = news.now - Date.now() / 1000;
  }

  function sorted() {
    const known = rows.filter(Boolean);
    const by = {
      client: (a, b) => a[CLIENT] - b[CLIENT],
      trouble: (a, b) => TROUBLE.indexOf(a[STATE]) - TROUBLE.indexOf(b[STATE]) || b[REFUSALS] - a[REFUSALS] || a[CLIENT] - b[CLIENT],
      accuracy: (a, b) => (a[ACCURACY] ?? 2) - (b[ACCURACY] ?? 2) || a[CLIENT] - b[CLIENT],
    }[order.value];
    return known.sort(by);
  }

  /* One rectangle for each of the last rounds, in one path for each kind. */
  function strip(client) {
    const svg = charts.node("svg", { class: "strip", viewBox: `0 0 ${KEPT} 10`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const paths = { t: "", r: "", ".": "" };
    history.forEach(([, letters], index) => {
      const at = KEPT - history.length + index, letter = letters[client] || ".";
      paths[letter] += `M${at} 0h.8v10h-.8z`;
    });
    for (const [letter, path] of Object.entries(paths)) if (path) charts.node("path", { class: letter === "." ? "n" : letter, d: path }, svg);
    return svg;
  }

  function ago(when) {
    if (!when) return "–";
    const seconds = Math.max(0, Math.round(Date.now() / 1000 + offset - when));
    return `${seconds < 60 ? `${seconds} s` : duration(seconds)} ago`;
  }
  const height = () => (innerWidth <= 860 ? 56 : 30);

  function lane(row, top) {
    const made = tiles.element("div", "lane");
    made.setAttribute("role", "listitem");
    made.dataset.state = row[STATE];
    made.dataset.client = row[CLIENT];
    made.style.top = `${top}px`;
    const strips = tiles.element("span", "");
    strips.append(strip(row[CLIENT]));
    const cell = (text, className = "num") => tiles.element("span", className, text);
    const why = cell(row[WHY] || "", "why");
    why.title = row[WHY] || "";
    made.append(cell(String(row[CLIENT]), "client"), cell(row[STATE], "state"), strips, cell(percent(row[ACCURACY])), cell(row[SAMPLES] === null ? "–" : row[SAMPLES].toLocaleString("en-GB")), cell(size(row[UP])), cell(size(row[DOWN])), cell(ago(row[HEARD])), cell(String(row[REFUSALS])), why);
    return made;
  }

  function paint() {
    const tall = height(), first = Math.max(0, Math.floor(place.scrollTop / tall) - 4), last = Math.min(shown.length, Math.ceil((place.scrollTop + place.clientHeight) / tall) + 4);
    const ground = tiles.element("div");
    ground.style.height = `${shown.length * tall}px`;
    for (let index = first; index < last; index++) ground.append(lane(shown[index], index * tall));
    const top = place.scrollTop;
    place.replaceChildren(ground);
    place.scrollTop = top;
  }

  function draw(run) {
    document.getElementById("clients").hidden = !rows.length;
    shown = sorted();
    const counts = new Map();
    for (const row of shown) counts.set(row[STATE], (counts.get(row[STATE]) || 0) + 1);
    const words = TROUBLE.filter((state) => counts.has(state) && state !== "–").map((state) => `${counts.get(state)} ${state}`);
    document.getElementById("clients-words").textContent = `${shown.length.toLocaleString("en-GB")} in all${words.length && run.federation ? `: ${words.join(", ")}` : ""}`;
    place.style.height = `${Math.min(496, shown.length * height())}px`;
    paint();
  }

  place.addEventListener("scroll", () => requestAnimationFrame(paint), { passive: true });
  order.addEventListener("change", () => { shown = sorted(); place.scrollTop = 0; paint(); });
  return { reset, take, draw };
})();
