"use strict";
/* Light or dark: what the system prefers, until the reader says else. */
const theme = (() => {
  const root = document.documentElement, button = document.getElementById("theme");
  function paint(dark) {
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  paint(system.matches);
  system.addEventListener("change", (event) => paint(event.matches));
  button.addEventListener("click", () => paint(root.dataset.theme !== "dark"));
  return { isDark: () => root.dataset.theme === "dark" };
})();
