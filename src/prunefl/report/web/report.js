"use strict";
/* What a reader of the report can do: switch curves, change axes, read values, change the theme, print. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set(), switched = { log: new Set(), whole: new Set() }, views = new Map();
  for (const figure of Object.values(data.figures)) if (figure.log) switched.log.add(figure.name);
  let printing = false;

  /* On paper a panel takes the page's width or half of it; letters keep their size. */
  const paperWidth = (panel) => (panel.classList.contains("lead") ? 760 : 400);

  function draw(panel) {
    const figure = data.figures[panel.dataset.figure], place = panel.querySelector(".chart");
    const width = printing ? paperWidth(panel) : Math.max(300, Math.floor(panel.closest("figure").clientWidth - data.padding));
    const context = { visible: (variant) => !hidden.has(variant), dashes: data.dashes, log: switched.log.has(figure.name), whole: switched.whole.has(figure.name) };
    const view = charts[figure.kind](figure, place, width, context);
    views.set(panel, reading.attach({ ...view, figure }));
  }

  const panels = [...document.querySelectorAll(".panel")];
  const drawAll = () => panels.forEach(draw);

  /* ---- the axes ---- */
  document.querySelectorAll(".switch").forEach((button) => {
    const panel = button.closest(".panel"), kind = button.dataset.switch, name = panel.dataset.figure;
    button.setAttribute("aria-pressed", switched[kind].has(name));
    button.addEventListener("click", () => {
      if (!switched[kind].delete(name)) switched[kind].add(name);
      button.setAttribute("aria-pressed", switched[kind].has(name));
      draw(panel);
    });
  });

  /* ---- switching curves ---- */
  const chips = [...document.querySelectorAll(".chip[data-variant]")];
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

  document.querySelectorAll("[role=tablist]").forEach((list) => tabs.wire(list));

  /* ---- tables that are wider than the page say so ---- */
  const scrolls = [...document.querySelectorAll(".scroll")];
  const cue = (scroll) => scroll.parentElement.classList.toggle("more", scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 2);
  scrolls.forEach((scroll) => scroll.addEventListener("scroll", () => cue(scroll), { passive: true }));

  /* ---- printing, size ---- */
  document.getElementById("print").addEventListener("click", () => print());
  addEventListener("beforeprint", () => { printing = true; drawAll(); });
  addEventListener("afterprint", () => { printing = false; drawAll(); });
  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width || printing) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => { drawAll(); scrolls.forEach(cue); }, 120);
  });
  drawAll();
  scrolls.forEach(cue);
  document.documentElement.dataset.ready = "yes";
})();
