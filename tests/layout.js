/* Returns how many pieces of text are seen, and what is wrong with them. */
(() => {
  const faults = [], canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  canvas.canvas.width = canvas.canvas.height = 1;
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const over = (top, under) => [0, 1, 2].map((i) => (top[i] * top[3] + under[i] * (255 - top[3])) / 255);
  const light = (rgb) => rgb.slice(0, 3).map((part) => { const s = part / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; }).reduce((sum, s, i) => sum + s * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) { const colour = rgba(getComputedStyle(at).backgroundColor); if (colour[3]) layers.push(colour); if (colour[3] === 255) break; }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const seen = (element) => { const style = getComputedStyle(element); return style.visibility !== "hidden" && style.display !== "none" && Number(style.opacity) > 0; };
  const clip = (element, box) => {
    let { left, right, top, bottom } = box;
    for (let at = element.parentElement; at; at = at.parentElement) if (getComputedStyle(at).overflowX !== "visible") { const edge = at.getBoundingClientRect(); left = Math.max(left, edge.left); right = Math.min(right, edge.right); top = Math.max(top, edge.top); bottom = Math.min(bottom, edge.bottom); }
    return { left, right, top, bottom };
  };
  const texts = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest("script, style, noscript, option, .unseen, .tip, details:not([open]) > :not(summary)") || !seen(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      const shown = clip(element, box);
      if (shown.right - shown.left > 1 && shown.bottom - shown.top > 3) texts.push({ element, words: node.data.trim().slice(0, 40), ...shown, whole: box });
    }
  }
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth + 1) faults.push(`the page is ${page.scrollWidth} wide on ${page.clientWidth}`);
  for (const text of texts) {
    const svg = text.element.ownerSVGElement, edge = svg && svg.getBoundingClientRect();
    if (edge && (text.whole.left < edge.left - 1 || text.whole.right > edge.right + 1 || text.whole.top < edge.top - 2 || text.whole.bottom > edge.bottom + 2)) faults.push(`outside its chart: ${text.words}`);
    if (!svg && !text.element.closest(".scroll, .lanes, .lane") && (text.whole.right > innerWidth + 1 || text.whole.left < -1)) faults.push(`off the screen: ${text.words}`);
    const style = getComputedStyle(text.element), colour = rgba(svg ? style.fill : style.color), under = ground(text.element);
    const [a, b] = [light(over(colour, under)), light(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faults.push(`contrast ${ratio.toFixed(2)}: ${text.words}`);
  }
  texts.sort((a, b) => a.top - b.top);
  texts.forEach((one, index) => {
    for (const other of texts.slice(index + 1)) {
      if (other.top > one.bottom - 3) break;
      if (one.element === other.element || one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const stuck = (text) => text.element.closest("th:first-child, .bar, thead");
      if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2 && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3 && !(stuck(one) || stuck(other)))
        faults.push(`one over the other: ${one.words} | ${other.words}`);
    }
  });
  return [texts.length, [...new Set(faults)]];
})()
