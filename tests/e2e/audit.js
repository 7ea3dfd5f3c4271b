// audit.js - what readers of screens and weak eyes need of a page: the list of faults, as browser.py's step `audit`.
(() => {
  const faults = [], fault = (what, element) => faults.push(`${what}: ${element ? element.outerHTML.slice(0, 160) : ""}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility() && element.getClientRects().length > 0;
  const named = (element) => (element.getAttribute("aria-label") || "").trim() || element.textContent.trim() ||
    (element.getAttribute("aria-labelledby") || "").split(" ").some((id) => document.getElementById(id)?.textContent.trim());

  if (document.documentElement.lang !== "en") fault("no language");
  if (!document.title) fault("no title");
  if (all("h1").length !== 1) fault(`${all("h1").length} h1`);
  if (all("main").length !== 1) fault("no main");
  const ids = all("[id]").map((element) => element.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => fault(`id ${id} twice`));
  let level = 0;
  for (const head of all("h1,h2,h3,h4").filter(shown)) {
    if (Number(head.tagName[1]) > level + 1) fault("a level of heading is left out", head);
    level = Number(head.tagName[1]);
  }
  for (const element of all("a,button,section,[role=region],[role=img],nav")) if (!named(element)) fault("no name", element);
  for (const element of all("[aria-labelledby]"))
    if (!document.getElementById(element.getAttribute("aria-labelledby"))) fault("its label is not there", element);
  for (const link of all("a[href^='#']")) if (!document.querySelector(link.getAttribute("href"))) fault("leads nowhere", link);
  for (const bar of all("progress")) if (!bar.labels.length) fault("no label", bar);
  for (const table of all("table")) {
    if (!table.caption?.textContent.trim()) fault("no caption", table);
    for (const head of table.querySelectorAll("thead th")) if (head.scope !== "col") fault("no scope", head);
    for (const row of table.tBodies[0].rows) if (row.cells[0].scope !== "row") fault("no head of the row", row);
    const width = (row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
    for (const row of table.rows) if (width(row) !== width(table.rows[0])) fault("too few cells", row);
  }
  for (const element of all("*")) {
    for (const { name } of element.attributes) if (name.startsWith("on") || name === "style") fault(`attribute ${name}`, element);
    const style = getComputedStyle(element);
    if (parseFloat(style.animationDuration) > 0 || parseFloat(style.transitionDuration) > 0) fault("it moves", element);
    if (shown(element) && element.scrollWidth > element.clientWidth + 1 && style.overflowX === "auto" && element.tabIndex < 0)
      fault("scrolls, but not by keys", element);
  }
  for (const button of all("button").filter(shown)) if (button.getBoundingClientRect().height < 24) fault("too small", button);

  // Contrast of text (WCAG: 4.5) against the nearest background that is not transparent.
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const seen = new Set();
  for (const element of all("body *")) {
    if (!shown(element) || ![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const a = light(numbers(getComputedStyle(element).color)), b = light(behind(element));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const key = `${element.className}${contrast}`;
    if (contrast < 4.5 && !seen.has(key)) fault(`contrast ${contrast.toFixed(2)}`, element);
    seen.add(key);
  }
  return faults;
})()
