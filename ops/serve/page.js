// page.js - keeps wiremill serve's page up to date: it fetches the page again, and changes in place what differs.
// So there is one renderer, the server; focus, selection and the place on the page stay. What peers named is text in
// the server's answer, is parsed without running anything, and the page's policy lets no other script run.
"use strict";
const every_ms = 1000 * Number(document.body.dataset.every);
const sort = { column: -1, descending: false };
let timer = 0, asks = false;

const valueOf = (cell) => (cell && "v" in cell.dataset ? Number(cell.dataset.v) : cell ? cell.textContent : "");
function compare(a, b) {
  const one = valueOf(a.cells[sort.column]), other = valueOf(b.cells[sort.column]);
  const order = typeof one === "number" && typeof other === "number"
    ? one - other : String(one).localeCompare(String(other), undefined, { numeric: true });
  return sort.descending ? -order : order;
}

// Puts buttons into the heads of a table that can be sorted, and its rows into order.
function dress(page) {
  const table = page.querySelector("table.sortable");
  if (!table) return;
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (!head.querySelector("button")) {
      const button = page.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
    }
    if (i === sort.column) head.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  const body = table.tBodies[0];
  if (sort.column >= 0) body.append(...[...body.rows].sort(compare));
}

// Makes one element like another, changing as little as can be.
function change(live, next) {
  for (const { name } of [...live.attributes])
    if (!next.hasAttribute(name) && name !== "open") live.removeAttribute(name); // a table that was opened stays open
  for (const { name, value } of next.attributes) if (live.getAttribute(name) !== value) live.setAttribute(name, value);
  const old = [...live.childNodes], now = [...next.childNodes];
  now.forEach((child, i) => {
    const was = old[i];
    if (!was) live.append(child);
    else if (was.nodeName !== child.nodeName) was.replaceWith(child);
    else if (child.nodeType === Node.ELEMENT_NODE) change(was, child);
    else if (was.data !== child.data) was.data = child.data;
  });
  old.slice(now.length).forEach((child) => child.remove());
}

function report(text) {
  const contact = document.getElementById("contact");
  if (contact.textContent !== text) contact.textContent = text;
}

async function refresh() {
  if (asks || document.hidden) return;
  clearTimeout(timer);
  asks = true;
  try {
    const answer = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    dress(next);
    if (["script", "style"].some((tag) => next.querySelector(tag).textContent !== document.querySelector(tag).textContent))
      location.reload(); // wiremill serve is another version now
    for (const part of ["h1", "main"]) change(document.querySelector(part), next.querySelector(part));
    document.title = next.title;
    report("");
  } catch (error) {
    report("wiremill serve does not answer: what follows is old. The page asks again.");
  }
  asks = false;
  timer = setTimeout(refresh, every_ms);
}

document.addEventListener("click", (event) => {
  const head = event.target.closest("table.sortable button")?.closest("th");
  if (!head) return;
  const isNew = sort.column !== head.cellIndex;
  sort.descending = isNew ? head.classList.contains("n") : !sort.descending;
  sort.column = head.cellIndex;
  dress(document);
});
document.addEventListener("visibilitychange", refresh);
dress(document);
timer = setTimeout(refresh, every_ms);
