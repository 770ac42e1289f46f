"use strict";
/* Figures that share a place: tabs, by click and by arrow keys. */
const tabs = (() => {
  function select(list, chosen) {
    list.forEach((tab) => {
      tab.setAttribute("aria-selected", tab === chosen);
      tab.tabIndex = tab === chosen ? 0 : -1;
      const panel = document.getElementById(tab.getAttribute("aria-controls"));
      if (panel && panel.role === "tabpanel") panel.classList.toggle("away", tab.dataset.stays === undefined && tab !== chosen);
    });
  }

  /* `onSelect` is told of the tab that was chosen. */
  function wire(tablist, onSelect = () => {}) {
    const list = [...tablist.querySelectorAll("[role=tab]")];
    const choose = (tab) => { select(list, tab); onSelect(tab); };
    list.forEach((tab, index) => {
      tab.addEventListener("click", () => choose(tab));
      tab.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!move) return;
        const next = list[(index + move + list.length) % list.length];
        choose(next);
        next.focus();
      });
    });
  }
  return { wire };
})();
