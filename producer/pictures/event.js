// event.js - an event's interactive page: the planes of a TPC on one axis of ticks, with charge, hits, scores and truth.
// show_live.c writes what it draws into the page: facts as attributes, columns of hits as base64. Pixels are computed here,
// charge by its maximum and hits as squares, so that a frame costs the same for each layer. Without it the page is still.
"use strict";
document.documentElement.classList.add("live");

// Of the event that is shown (read makes them), and all events of the page, which are read when they are first shown.
let facts = {}, column = {}, outputs = [], planes = [], tpcs = [], labels = [], statuses = [];
const events = [];
const state = { value: 0.5, opacity: 0.7, cell: null, tpc: 0, layer: "call", label: 0, charge: true, least: 0.5, pin: -1, hover: -1, box: null, walk: "worst", at: -1, output: 0, blink: 0 };
const view = { t0: 0, t1: 1, panels: [], width: 0, height: 0, ratio: 1 };
const HELD = 255, LACKS = 255, MARGIN = { left: 52, right: 20, top: 20, bottom: 38, gap: 8 };
const element = {};
const ordered = {}; // hits with a colour, plane by plane, in the order in which they are drawn
let call = null, paint = null, asked = false, isStale = false, dark = false;

// ---- data ------------------------------------------------------------------------------------------------------------

// A column of numbers: base64 of zlib's format, in which the lowest bytes of all of them come first.
async function take(source, name, kind) {
  const text = source.querySelector(`[data-name=${name}]`);
  if (!text) return new kind(0);
  const packed = Uint8Array.from(atob(text.textContent), (c) => c.charCodeAt(0));
  const plain = new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
  const width = kind.BYTES_PER_ELEMENT, n = plain.length / width, bytes = new Uint8Array(plain.length);
  for (let b = 0, at = 0; b < width; b++) for (let i = b; i < n * width; i += width) bytes[i] = plain[at++];
  return new kind(bytes.buffer);
}

async function read(source) {
  const facts = { ...source.dataset }, column = {}, outputs = [], planes = [], tpcs = [], labels = [], statuses = [];
  for (const name of ["window", "n", "ticks", "sigmoid", "least", "firstTick", "tickUs", "tickCm", "trigger"])
    facts[name] = name in source.dataset ? Number(source.dataset[name]) : NaN;
  facts.patch = source.dataset.patch.split(" ").map(Number);
  for (const one of source.querySelectorAll("i")) labels.push({ name: one.dataset.label, colour: one.dataset.colour });
  for (const one of source.querySelectorAll("u")) statuses.push(one.dataset.status);
  for (const one of source.querySelectorAll("b")) {
    const plane = Object.fromEntries(Object.entries(one.dataset).map(([key, v]) => [key, key === "charge" ? v : Number(v)]));
    plane.range = one.dataset.range ? one.dataset.range.split(" ").map(Number) : [0, plane.wires, 0, facts.ticks];
    planes.push(plane);
    plane.drawn = 0;
    let tpc = tpcs.find((t) => t.cryostat === plane.cryostat && t.tpc === plane.tpc);
    if (!tpc) tpcs.push(tpc = { cryostat: plane.cryostat, tpc: plane.tpc, planes: [], hits: 0 });
    tpc.planes.push(plane);
    tpc.hits += plane.count;
  }
  column.wire = await take(source, "wire-0", Int32Array);
  column.tick = await take(source, "tick-0", Float32Array);
  column.id = source.querySelector("[data-name=id-1]") ? await take(source, "id-1", Float64Array) : await take(source, "id-0", Int32Array);
  facts.count = facts.n;
  if (facts.points) {
    column.alike = new Map();
    column.id.forEach((id, i) => (column.alike.has(id) ? column.alike.get(id).push(i) : column.alike.set(id, [i])));
    facts.count = column.alike.size;
    for (const t of tpcs) t.hits = new Set(t.planes.flatMap((p) => [...column.id.subarray(p.first, p.first + p.count)])).size;
  }
  column.truth = facts.truth ? await take(source, "truth-0", Uint8Array) : null;
  for (const [k, name] of (facts.b === undefined ? ["score"] : ["score", "other"]).entries())
    outputs.push({ name: "AB"[k], path: [facts.a, facts.b][k], status: await take(source, "status-" + k, Uint8Array), call: new Uint8Array(facts.n), best: null,
      score: await Promise.all(labels.map((label, l) => take(source, name + "-" + l, Float32Array))) });
  Object.assign(column, { score: outputs[0].score, status: outputs[0].status });
  for (const plane of facts.image ? planes : []) await readImage(source, plane, facts.ticks);
  if (facts.image) facts.span = spanOfValues(planes);
  if (!tpcs.length) throw new Error("no planes");
  return { facts, column, outputs, planes, tpcs, labels, statuses };
}

const isScored = (output, i) => output.status[i] === 0 && output.score.every((s) => Number.isFinite(s[i]));
const isPair = () => outputs.length === 2;
// Rows of the same space point, on other planes; of a hit itself. The first one stands for all of them where rows are counted.
const alike = (i) => (column.alike ? column.alike.get(column.id[i]) : [i]);
const isFirst = (i) => !column.alike || column.alike.get(column.id[i])[0] === i;
const one = () => facts.rows.slice(0, -1);
const differs = (i) => isPair() && outputs[0].call[i] !== outputs[1].call[i];
const planeOf = (i) => planes.find((p) => i >= p.first && i < p.first + p.count) || null;

// The rule of wm_call_rule.h: a label with a threshold of its own, else the largest of the others, the first of equal ones.
function callAll(output) {
  const { score, call } = output;
  if (!output.best) {
    const best = output.best = new Uint8Array(facts.n);
    const others = labels.map((label, k) => k).filter((k) => k !== facts.sigmoid || labels.length === 1);
    for (let i = 0; i < facts.n; i++) {
      best[i] = isScored(output, i) ? others[0] : HELD;
      for (const k of others) if (best[i] !== HELD && score[k][i] > score[best[i]][i]) best[i] = k;
    }
  }
  const sigmoid = labels.length > 1 && score[facts.sigmoid], { best } = output;
  for (let i = 0; i < facts.n; i++) call[i] = sigmoid && best[i] !== HELD && sigmoid[i] >= state.least ? facts.sigmoid : best[i];
}

// The largest difference of a hit's scores, as compare has it; -1: one output did not score it.
function difference(i) {
  const [a, b] = outputs;
  if (!isPair() || a.call[i] === HELD || b.call[i] === HELD) return -1;
  return Math.max(...a.score.map((s, k) => Math.abs(s[i] - b.score[k][i]) / Math.max(1, Math.abs(s[i]))));
}

// How many hits have which truth and are called what in an output: counts[truth][call].
function confusion({ call }) {
  const n = labels.length, counts = labels.map(() => new Array(n).fill(0));
  const add = (i) => { if (call[i] !== HELD && column.truth[i] < n) counts[column.truth[i]][call[i]]++; };
  if (column.truth) for (let i = 0; i < facts.n; i++) add(i);
  return counts;
}

// As wiremill truth prints shares: a tie is rounded to even, as C does.
const share = (part, of) => {
  const v = 100 * part / of;
  return of ? (v % 1 === 0.25 ? v - 0.05 : v).toFixed(1) + "%" : "-";
};
const count = (n) => n.toLocaleString("en");
const digits = (v) => { // seven, as the still page has them
  const short = Number(v.toPrecision(7));
  return v && Math.abs(v) < 1e-4 ? short.toExponential() : String(short);
};

// ---- colours ---------------------------------------------------------------------------------------------------------

// OKLCH (Ottosson 2020) as 0xAABBGGRR, which little-endian pixels are.
function oklch(l, c, h) {
  const a = c * Math.cos(h * Math.PI / 180), b = c * Math.sin(h * Math.PI / 180);
  const [x, y, z] = [l + 0.3963377774 * a + 0.2158037573 * b, l - 0.1055613458 * a - 0.0638541728 * b,
    l - 0.0894841775 * a - 1.291485548 * b].map((v) => v ** 3);
  const rgb = [4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z, -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z];
  return rgb.reduce((all, v, k) => {
    const s = v <= 0.0031308 ? 12.92 * Math.max(0, v) : 1.055 * Math.min(1, v) ** (1 / 2.4) - 0.055;
    return (all | Math.round(255 * Math.min(1, s)) << 8 * k) >>> 0;
  }, 0xff000000);
}

const css = (pixel) => "#" + [0, 8, 16].map((k) => (pixel >> k & 255).toString(16).padStart(2, "0")).join("");
const pixelOf = (text) => (0xff000000 | parseInt(text.slice(5, 7), 16) << 16 | parseInt(text.slice(3, 5), 16) << 8 |
  parseInt(text.slice(1, 3), 16)) >>> 0;

const theme = { score: new Uint32Array(256), charge: new Uint32Array(256), label: [], held: 0, paper: 0 };

// Lightness alone orders the map of scores, away from the paper, so that colour-blind people read it, too.
function dress() {
  dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme.paper = dark ? 0xff1d1814 : 0xffffffff;
  for (let i = 0; i < 256; i++) {
    const s = i / 255;
    theme.score[i] = dark ? oklch(0.53 + 0.4 * s, 0.13 + 0.03 * s, 285 - 180 * s) : oklch(0.65 - 0.37 * s, 0.11 + 0.05 * s, 195 + 160 * s);
    theme.charge[i] = dark ? oklch(0.205 + 0.36 * s, 0.012 + 0.028 * s, 170) : oklch(1 - 0.36 * s, 0.045 * s, 170);
  }
  theme.charge[0] = theme.paper;
  theme.label = labels.map((label) => {
    const onDark = { "#0b5fb4": 0xfff5b06c, "#a81420": 0xff3838f0, "#cf7d00": 0xff4fd2ff, "#8a8a8a": 0xff909090 };
    return (dark && onDark[label.colour]) || pixelOf(label.colour);
  });
  theme.held = dark ? 0xfff030a8 : 0xfffc0096;
}

// ---- what is painted, and in which order -----------------------------------------------------------------------------

function repaint() {
  const key = new Uint8Array(facts.n), none = labels.findIndex((label) => label.name === "none");
  const rank = (k) => (k === HELD ? 100 : k === none ? 0 : k + 1);
  const score = column.score[state.label];
  for (let i = 0; i < facts.n; i++) {
    const is = column.truth ? column.truth[i] : HELD;
    paint[i] = 0;
    if (state.layer === "charge" || (state.layer === "differs" && !differs(i))) continue;
    if (state.layer === "truth") {
      key[i] = rank(is);
      paint[i] = is < labels.length ? theme.label[is] : 0;
    } else if (call[i] === HELD) {
      key[i] = 255;
      paint[i] = state.layer === "wrong" ? 0 : theme.held;
    } else if (state.layer === "score") {
      key[i] = Math.max(0, Math.min(254, Math.round(254 * score[i])));
      paint[i] = theme.score[key[i]];
    } else if (["call", "differs"].includes(state.layer) || (is < labels.length && is !== call[i])) {
      key[i] = rank(call[i]);
      paint[i] = theme.label[call[i]];
    }
  }
  for (const plane of planes) { // a counting sort: what is more lies above
    const start = new Uint32Array(257), end = plane.first + plane.count;
    for (let i = plane.first; i < end; i++) if (paint[i]) start[key[i] + 1]++;
    for (let k = 0; k < 256; k++) start[k + 1] += start[k];
    plane.drawn = start[256];
    for (let i = plane.first; i < end; i++) {
      if (!paint[i]) continue;
      const j = plane.first + start[key[i]]++;
      ordered.tick[j] = column.tick[i] + 0.5;
      ordered.wire[j] = column.wire[i] + 0.5;
      ordered.colour[j] = paint[i];
    }
  }
  ask();
}

// ---- charge ----------------------------------------------------------------------------------------------------------

// The levels of a plane's still picture, wire by wire: the picture has wires across, from the left, and ticks upwards.
async function loadCharge(plane) {
  if (facts.image || plane.level) return; // readImage has it
  await decode(plane);
  legend();
  tell();
  ask();
}

async function decode(plane) {
  const group = document.getElementById(plane.charge);
  if (!group) return;
  const picture = new Image();
  picture.src = group.querySelector("image").getAttribute("href");
  await picture.decode();
  const canvas = document.createElement("canvas"), nx = canvas.width = picture.width, ny = canvas.height = picture.height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(picture, 0, 0);
  const pixel = context.getImageData(0, 0, nx, ny).data, level = new Uint8Array(nx * ny);
  for (let y = 0; y < ny; y++)
    for (let x = 0; x < nx; x++) level[x * ny + ny - 1 - y] = Math.min(255, Math.round((255 - pixel[4 * (y * nx + x)]) * 255 / 160));
  Object.assign(plane, { level, nx, ny, pools: pooled(level, nx, ny), most: group.dataset.most });
}

// The same of half as many wires, a quarter, and so on, each the most of two: a small picture reads as many cells as it has.
function pooled(level, nx, ny) {
  const pools = [{ level, nx }];
  for (let n = (nx + 1) >> 1; n >= 32; n = (n + 1) >> 1) {
    const from = pools[pools.length - 1], to = new Uint8Array(n * ny);
    for (let w = 0; w < from.nx; w++)
      for (let t = 0, a = w * ny, b = (w >> 1) * ny; t < ny; t++, a++, b++) if (from.level[a] > to[b]) to[b] = from.level[a];
    pools.push({ level: to, nx: n });
  }
  return pools;
}

// Where the pixels of a range begin in cells of a picture: n + 1 places; of each pixel at least one cell.
function cells(n, from, to, first, last, size) {
  const at = new Int32Array(n + 1);
  for (let i = 0; i <= n; i++) at[i] = Math.floor((from + (to - from) * i / n - first) / (last - first) * size);
  return at;
}

// Rows of pixels with the same wires are the same. The most of several wires is found cell by cell, then that of a pixel's cells.
// With an `opacity` it lies over what is there.
function drawCharge(pixel, width, height, panel, ticks = [view.t0, view.t1], plane = panel.plane, map = theme.charge, opacity = 0) {
  const ny = plane.ny;
  if (!plane.level) return;
  const across = (panel.w1 - panel.w0) / (plane.range[1] - plane.range[0]) * plane.nx / height;
  const pool = Math.max(0, Math.min(plane.pools.length - 1, Math.floor(Math.log2(across)))), { level, nx } = plane.pools[pool];
  const last = plane.range[0] + (plane.range[1] - plane.range[0]) * nx * 2 ** pool / plane.nx, most = new Uint8Array(ny);
  const xs = cells(width, ticks[0], ticks[1], plane.range[2], plane.range[3], ny);
  const ys = cells(height, panel.w1, panel.w0, plane.range[0], last, nx);
  let x0 = 0, x1 = width, old0 = -1, old1 = -1; // pixels with a cell; wires of the row before
  while (x0 < x1 && Math.max(xs[x0], xs[x0 + 1] - 1) < 0) x0++;
  while (x1 > x0 && xs[x1 - 1] >= ny) x1--;
  for (let x = x0; x <= x1; x++) xs[x] = Math.max(0, Math.min(ny, xs[x]));
  const c0 = xs[x0], c1 = Math.min(ny, xs[x1] + 1);
  for (let y = 0; y < height; y++) {
    const w0 = Math.max(0, Math.min(ys[y], ys[y + 1] + 1)), w1 = Math.min(nx - 1, Math.max(ys[y], w0)), from = y * width + x0;
    if (w0 > w1 || ys[y] < 0) continue;
    if (w0 === old0 && w1 === old1) {
      pixel.copyWithin(from, from - width, from - width + x1 - x0);
      continue;
    }
    old0 = w0;
    old1 = w1;
    most.set(level.subarray(w0 * ny + c0, w0 * ny + c1), c0);
    for (let w = w0 + 1; w <= w1; w++)
      for (let c = c0, at = w * ny + c0; c < c1; c++, at++) if (level[at] > most[c]) most[c] = level[at];
    for (let x = x0, to = from; x < x1; x++, to++) {
      let c = xs[x], v = most[c];
      while (++c < xs[x + 1]) if (most[c] > v) v = most[c];
      if (!opacity) pixel[to] = map[v];
      else if (v) pixel[to] = over(pixel[to], map[v], opacity);
    }
  }
}

// ---- images: values of a frame above the charge that the network saw -------------------------------------------------

const hasCharge = () => planes.some((plane) => plane.seen);

async function readImage(source, plane, ny) {
  const k = plane.charge.split("-")[1], nx = plane.wires;
  Object.assign(plane, { nx, ny, value: await take(source, "value-" + k, Float32Array) });
  const seen = await take(source, "charge-" + k, Float32Array);
  if (!seen.length) return;
  const most = seen.reduce((all, v) => Math.max(all, Math.abs(v)), 0) || 1, level = new Uint8Array(nx * ny);
  for (let i = 0; i < level.length; i++) level[i] = seen[i] && Math.max(1, Math.round(255 * Math.sqrt(Math.abs(seen[i]) / most)));
  Object.assign(plane, { seen, level, pools: pooled(level, nx, ny), most: Number(most.toPrecision(3)) });
}

// What the values lie between; of a mask, whose largest is from 0.5 to 1, all that one may have.
function spanOfValues(planes) {
  let from = Infinity, to = -Infinity;
  for (const plane of planes)
    for (const v of plane.value) {
      if (v < from) from = v;
      if (v > to) to = v;
    }
  return from < to && !(from >= 0 && to >= 0.5 && to <= 1) ? { from, to } : { from: 0, to: 1 };
}

// Levels of the values from the threshold on; what is below it, and held tiles, have none.
function setValue(value) {
  const { from, to } = facts.span;
  state.value = Math.max(from, Math.min(to, Number(value) || 0));
  element.slider.value = element.number.value = state.value;
  for (const plane of planes) {
    const level = new Uint8Array(plane.nx * plane.ny), scale = 254 / (to - from);
    plane.above = plane.known = plane.inside = plane.all = 0;
    for (let i = 0; i < level.length; i++) {
      const v = plane.value[i], charge = plane.seen ? Math.abs(plane.seen[i]) : 0;
      plane.all += charge;
      plane.known += v === v;
      if (!(v >= state.value)) continue;
      level[i] = 1 + Math.round((v - from) * scale);
      plane.above++;
      plane.inside += charge;
    }
    plane.mask = { nx: plane.nx, ny: plane.ny, range: plane.range, level, pools: pooled(level, plane.nx, plane.ny) };
  }
  cellTable();
  tell();
  ask();
}

function cellTable() {
  const rows = tpcs[state.tpc].planes.filter((p) => p.mask).map((p) => [nameOf(p), count(p.above), share(p.above, p.known), ...(p.seen ? [share(p.inside, p.all)] : [])]);
  element.rates.replaceChildren(table(["plane", "cells", "share", ...(hasCharge() ? ["charge"] : [])], rows,
    "Cells with " + facts.image + " from " + digits(state.value) + (hasCharge() ? ", and the share of the plane's charge in them" : "")));
}

function cellAt(panel, x, y) {
  const wire = Math.floor(panel.w1 - (y - panel.y) / panel.height * (panel.w1 - panel.w0)), plane = panel.plane;
  const bin = Math.floor(view.t0 + (x - panel.x) / panel.width * (view.t1 - view.t0));
  return wire >= 0 && wire < plane.wires && bin >= 0 && bin < facts.ticks ? { plane, wire, bin } : null;
}

function hoverCell(cell) {
  const old = state.cell;
  if (old === cell || (old && cell && old.plane === cell.plane && old.wire === cell.wire && old.bin === cell.bin)) return;
  state.cell = cell;
  tell();
  ask("marks");
}

function tellCell() {
  const told = element.hit, { plane, wire, bin } = state.cell || {};
  if (!plane) {
    told.replaceChildren(node("p", { class: "faint" }, "Point at a cell to read its values."));
    return;
  }
  const at = wire * plane.ny + bin, v = plane.value[at], first = facts.window * bin;
  told.replaceChildren(node("p", { id: "position" }, "TPC " + plane.tpc + ", " + nameOf(plane) + ", wire " + wire + ", drift bin " + bin + " (ticks " + first + " to " +
    (first + facts.window - 1) + ")"), node("p", { id: "value" }, facts.image + ": " + (v === v ? digits(v) + (v >= state.value ? "" : ", below the threshold") : "none, its tile is held")));
  if (plane.seen) told.append(node("p", { id: "charge" }, "charge: " + digits(plane.seen[at]) + " ADC" + (facts.window > 1 ? ", the largest of these ticks" : "")));
}

// Lays the mask's colour over a pixel, as opaque as chosen.
const over = (below, above, share) => {
  let pixel = 0xff000000;
  for (let k = 0; k < 24; k += 8) pixel |= Math.round((below >> k & 255) * (1 - share) + (above >> k & 255) * share) << k;
  return pixel >>> 0;
};

// ---- frames ----------------------------------------------------------------------------------------------------------

// The next frame has new marks, and a new picture unless marks alone have changed.
function ask(what) {
  isStale = isStale || what !== "marks";
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (isStale) draw();
    isStale = false;
    mark();
  });
}

function layOut() {
  const stage = element.stage, panels = tpcs.length ? tpcs[state.tpc].planes : [];
  view.ratio = Math.min(2, window.devicePixelRatio || 1);
  view.width = stage.clientWidth;
  view.height = stage.clientHeight;
  for (const canvas of [element.canvas, element.over]) {
    canvas.width = Math.round(view.width * view.ratio);
    canvas.height = Math.round(view.height * view.ratio);
  }
  const left = MARGIN.left + 7 * Math.max(0, String(Math.max(0, ...panels.map((p) => p.wires))).length - 4);
  const all = view.height - MARGIN.bottom - panels.length * MARGIN.top - (panels.length - 1) * MARGIN.gap;
  const height = Math.floor(all / Math.max(1, panels.length));
  view.panels = panels.map((plane, k) => {
    const old = view.panels.find((p) => p.plane === plane);
    return { plane, w0: old ? old.w0 : plane.range[0], w1: old ? old.w1 : plane.range[1], x: left, height,
      y: MARGIN.top + k * (height + MARGIN.top + MARGIN.gap), width: view.width - left - MARGIN.right };
  });
  const { button } = events[state.event];
  if (button) button.parentNode.scrollLeft = button.offsetLeft - button.parentNode.offsetLeft - (button.parentNode.clientWidth - button.clientWidth) / 2;
  draw(); // now: a canvas of a new size is black until it is drawn
  mark();
}

function drawHits(pixel, width, height, panel) {
  const plane = panel.plane, sx = width / (view.t1 - view.t0), sy = height / (panel.w1 - panel.w0);
  const side = Math.max(2, Math.min(9, Math.round(Math.min(0.8 * sy / view.ratio, 4 * sx / view.ratio)))) * view.ratio | 0;
  const half = side >> 1, { wire, tick, colour: colours } = ordered, end = plane.first + plane.drawn, { w1 } = panel, { t0 } = view;
  for (let j = plane.first; j < end; j++) {
    const x = Math.floor((tick[j] - t0) * sx) - half;
    if (!(x > -side && x < width)) continue;
    const y = Math.floor((w1 - wire[j]) * sy) - half, colour = colours[j];
    if (!(y > -side && y < height)) continue;
    const x0 = x < 0 ? 0 : x, x1 = x + side > width ? width : x + side, y1 = y + side > height ? height : y + side;
    for (let v = y < 0 ? 0 : y; v < y1; v++) for (let at = v * width + x0, stop = v * width + x1; at < stop; at++) pixel[at] = colour;
  }
}

function steps(from, to, most, least = 0) {
  const raw = Math.max(least, (to - from) / most), power = 10 ** Math.floor(Math.log10(raw)), at = [];
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw * 0.999);
  for (let v = Math.ceil(from / step) * step; v <= to + step * 1e-6; v += step) at.push(Number(v.toPrecision(12)));
  return at;
}

const NAMES = ["U", "V", "W"];
const nameOf = (plane) => "plane " + plane.plane + (NAMES[plane.plane] ? " (" + NAMES[plane.plane] + ")" : "");

function drawAxes(context, panel, isLast) {
  const { x, y, width, height } = panel, ink = css(dark ? 0xffb8ada3 : 0xff6a6057);
  const toX = (t) => x + (t - view.t0) / (view.t1 - view.t0) * width, toY = (w) => y + (panel.w1 - w) / (panel.w1 - panel.w0) * height;
  context.strokeStyle = ink;
  context.fillStyle = ink;
  context.lineWidth = 1;
  context.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "left";
  context.fillText(nameOf(panel.plane) + (facts.n ? ", " + count(panel.plane.count) + " " + facts.rows : ""), x, y - 6);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  for (const w of steps(panel.w0, panel.w1, Math.max(2, height / 45), 1)) {
    context.fillText(String(w), x - 7, toY(w) + 4);
    context.fillRect(x - 5, Math.round(toY(w)), 4, 1);
  }
  context.save();
  context.translate(11, y + height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText("wire", 0, 0);
  context.restore();
  context.textAlign = "center";
  const first = facts.firstTick || 0, long = (text) => context.measureText(text).width;
  let free = 0; // a label has room from here on
  for (const t of steps(view.t0 + first, view.t1 + first, Math.max(1, width / Math.max(85, long(String(first + facts.ticks)) + 24)))) {
    const at = toX(t - first), half = long(String(t)) / 2;
    context.fillRect(Math.round(at), y + height + 1, 1, 4);
    if (!isLast || at - half < free || at + half > view.width) continue;
    context.fillText(String(t), at, y + height + 16);
    free = at + half + 6;
  }
  if (!isLast) return;
  const cm = (t) => Math.round((t - facts.trigger) * facts.tickCm), drift = facts.tickCm > 0 ? "drift " + cm(view.t0) + " to " + cm(view.t1) + " cm" : "";
  const name = facts.n ? "tick" : "drift bin", each = name + (facts.tickUs > 0 ? " (" + Number(facts.tickUs.toPrecision(4)) + " us each)" : "");
  const has = (text) => long(text) + long(drift) + 10 <= width, isNarrow = width / 2 < long(each) / 2 + long(drift) + 10;
  context.textAlign = isNarrow ? "left" : "center";
  context.fillText(has(each) ? each : has(name) ? name : "", isNarrow ? x : x + width / 2, y + height + 31);
  context.textAlign = "right";
  context.fillText(drift, x + width, y + height + 31);
}

function draw() {
  const context = element.canvas.getContext("2d", { alpha: false });
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = css(theme.paper);
  context.fillRect(0, 0, element.canvas.width, element.canvas.height);
  view.panels.forEach((panel, k) => {
    const width = Math.max(1, Math.round(panel.width * view.ratio)), height = Math.max(1, Math.round(panel.height * view.ratio));
    if (!panel.image || panel.image.width !== width || panel.image.height !== height) panel.image = context.createImageData(width, height);
    const pixel = new Uint32Array(panel.image.data.buffer), isBelow = state.layer !== "value" && (state.charge || state.layer === "charge");
    const mask = state.layer === "charge" ? null : panel.plane.mask;
    const what = [width, height, view.t0, view.t1, panel.w0, panel.w1, dark, isBelow && panel.plane.most, mask ? state.value : "", state.opacity].join();
    if (panel.what !== what) { // else the charge below is that of the last frame
      panel.what = what;
      if (!panel.under || panel.under.length !== pixel.length) panel.under = new Uint32Array(pixel.length);
      panel.under.fill(theme.paper);
      if (isBelow) drawCharge(panel.under, width, height, panel);
      if (mask) drawCharge(panel.under, width, height, panel, undefined, mask, theme.score, state.layer === "value" ? 1 : state.opacity);
    }
    pixel.set(panel.under);
    drawHits(pixel, width, height, panel);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(panel.image, Math.round(panel.x * view.ratio), Math.round(panel.y * view.ratio));
    context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    drawAxes(context, panel, k === view.panels.length - 1);
  });
}

// Above the picture: the pinned hit, the one below the pointer, the patch that the network saw of it, a selection.
function mark() {
  const context = element.over.getContext("2d"), ink = dark ? "#fff" : "#000";
  context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  for (const panel of view.panels) {
    context.save();
    context.beginPath();
    context.rect(panel.x, panel.y, panel.width, panel.height);
    context.clip();
    const shown = state.hover >= 0 ? state.hover : state.pin;
    for (const i of new Set([state.pin, state.hover])) {
      const here = i < 0 ? [] : alike(i).filter((j) => planeOf(j) === panel.plane);
      if (!here.length) continue;
      const at = place(panel, here[0]);
      context.strokeStyle = ink;
      context.lineWidth = i === state.pin ? 2.5 : 1.5;
      context.beginPath();
      context.arc(at.x, at.y, 8, 0, 7);
      context.stroke();
      if (i !== shown) continue;
      const w = windowOf(here[0]), a = toScreen(panel, w.t0, w.w1), b = toScreen(panel, w.t1, w.w0);
      context.lineWidth = 1;
      context.setLineDash([4, 3]);
      context.strokeRect(a.x, a.y, b.x - a.x, b.y - a.y);
      context.setLineDash([]);
    }
    if (shown >= 0 && !alike(shown).some((j) => planeOf(j) === panel.plane)) {
      context.strokeStyle = dark ? "#ffffff70" : "#00000050";
      const x = place(panel, shown).x; // the same time in the other views
      context.setLineDash([2, 4]);
      context.strokeRect(x, panel.y - 2, 0, panel.height + 4);
      context.setLineDash([]);
    }
    if (state.cell) {
      const { plane, wire, bin } = state.cell, is = plane === panel.plane;
      const a = toScreen(panel, bin, is ? wire + 1 : panel.w1), b = toScreen(panel, bin + 1, is ? wire : panel.w0);
      context.strokeStyle = is ? ink : dark ? "#ffffff70" : "#00000050";
      context.setLineDash(is ? [] : [2, 4]);
      context.strokeRect(a.x - 1, a.y - 1, is ? b.x - a.x + 2 : 0, b.y - a.y + 2);
      context.setLineDash([]);
    }
    if (state.box && state.box.panel.plane === panel.plane) {
      const a = toScreen(panel, state.box.t0, state.box.w1), b = toScreen(panel, state.box.t1, state.box.w0);
      context.strokeStyle = ink;
      context.fillStyle = dark ? "#ffffff18" : "#0000000d";
      context.fillRect(a.x, a.y, b.x - a.x, b.y - a.y);
      context.strokeRect(a.x, a.y, b.x - a.x, b.y - a.y);
    }
    context.restore();
  }
}

const toScreen = (panel, tick, wire) => ({ x: panel.x + (tick - view.t0) / (view.t1 - view.t0) * panel.width,
  y: panel.y + (panel.w1 - wire) / (panel.w1 - panel.w0) * panel.height });
const place = (panel, i) => toScreen(panel, column.tick[i] + 0.5, column.wire[i] + 0.5);

function windowOf(i) {
  const [wires, bins, window] = facts.patch, w0 = column.wire[i] - (wires >> 1);
  const b0 = Math.floor(column.tick[i] / window) - (bins >> 1);
  return { w0, w1: w0 + wires, t0: b0 * window, t1: (b0 + bins) * window };
}

// ---- moving ----------------------------------------------------------------------------------------------------------

// A range around `at` that is `factor` as wide, and lies within a little more than there is.
function scaled(from, to, at, factor, least, first, last) {
  const width = Math.max(least, Math.min((last - first) * 1.1, (to - from) * factor)), share = (at - from) / (to - from);
  return slid(at - share * width, width, first, last);
}
function slid(from, width, first, last) {
  const slack = 0.05 * (last - first);
  const low = Math.max(first - slack - Math.max(0, width - (last - first) - 2 * slack), Math.min(from, last + slack - width));
  return [low, low + width];
}

function zoom(panel, x, y, ticks, wires) {
  const at = view.t0 + (x - panel.x) / panel.width * (view.t1 - view.t0), wire = panel.w1 - (y - panel.y) / panel.height * (panel.w1 - panel.w0);
  [view.t0, view.t1] = scaled(view.t0, view.t1, at, ticks, 20, 0, facts.ticks);
  [panel.w0, panel.w1] = scaled(panel.w0, panel.w1, wire, wires, 4, 0, panel.plane.wires);
  ask();
}

function pan(panel, dx, dy) {
  const t = view.t1 - view.t0, w = panel.w1 - panel.w0;
  [view.t0, view.t1] = slid(view.t0 - dx / panel.width * t, t, 0, facts.ticks);
  [panel.w0, panel.w1] = slid(panel.w0 + dy / panel.height * w, w, 0, panel.plane.wires);
  ask();
}

function home() {
  const range = view.panels.length ? view.panels[0].plane.range : [0, 1, 0, 1];
  [view.t0, view.t1] = [range[2], range[3]];
  for (const panel of view.panels) [panel.w0, panel.w1] = panel.plane.range;
  ask();
}

function chooseTpc(k) {
  state.tpc = (k + tpcs.length) % tpcs.length;
  element.tpc.value = state.tpc;
  view.panels = [];
  state.box = null;
  state.hover = -1;
  layOut();
  home();
  for (const plane of tpcs[state.tpc].planes) loadCharge(plane);
  if (facts.image) cellTable();
  legend();
  tell();
}

function panelAt(x, y) {
  return view.panels.find((p) => y >= p.y - MARGIN.top && y <= p.y + p.height + MARGIN.gap && x >= p.x - 8 && x <= p.x + p.width + 8) || null;
}

// The drawn hit that is nearest to a place on the screen, within a few pixels; -1: there is none.
function hitAt(panel, x, y, most) {
  let found = -1, least = most * most;
  for (let i = panel.plane.first, end = i + panel.plane.count; i < end; i++) {
    if (!paint[i] && state.layer !== "charge") continue;
    const at = place(panel, i), d = (at.x - x) ** 2 + (at.y - y) ** 2;
    if (d < least || (d === least && paint[i])) {
      least = d;
      found = i;
    }
  }
  return found;
}

// ---- what is told of a hit -------------------------------------------------------------------------------------------

function node(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made[key] = value;
    else if (value !== false) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const keyOf = (k) => { // a square in the colour of a label
  const made = node("span", { class: "key" });
  made.style.background = css(k === HELD ? theme.held : theme.label[k]);
  return made;
};
const nameOfLabel = (k) => (k < labels.length ? labels[k].name : "held");

function scoreRows(i) {
  const rows = node("div", { class: "score" });
  labels.forEach((label, k) => outputs.forEach((output) => {
    const bar = node("b"), value = output.score[k][i];
    bar.style.background = css(theme.label[k]);
    bar.style.width = Math.max(0, Math.min(1, value || 0)) * 100 + "%";
    rows.append(node("span", {}, label.name + (isPair() ? " " + output.name : "")), bar, node("span", {}, digits(value)));
  }));
  return rows;
}

// Charge in the window of the patch. The picture has 49 levels and one pixel for several ticks: the network's has neither.
function drawPatch(i) {
  const w = windowOf(i), plane = planeOf(i), [wires, bins] = facts.patch, canvas = element.patch;
  canvas.classList.toggle("hidden", !plane || !plane.level);
  if (!plane || !plane.level) return;
  canvas.width = bins;
  canvas.height = wires;
  const context = canvas.getContext("2d"), image = context.createImageData(bins, wires), pixel = new Uint32Array(image.data.buffer);
  drawCharge(pixel.fill(theme.paper), bins, wires, { plane, w0: w.w0, w1: w.w1 }, [w.t0, w.t1]);
  context.putImageData(image, 0, 0);
}

function position(i) {
  return alike(i).map(positionOf).join("; ");
}

function positionOf(i) {
  const plane = planeOf(i), first = facts.firstTick || 0, tick = digits(column.tick[i] + first);
  const cm = facts.tickCm > 0 ? ", drift " + ((column.tick[i] - facts.trigger) * facts.tickCm).toFixed(1) + " cm" : "";
  return (plane ? "TPC " + plane.tpc + ", " + nameOf(plane) : "on no plane of the event") + ", wire " + column.wire[i] + ", tick " + tick + cm;
}

function tell() {
  const i = state.hover >= 0 ? state.hover : state.pin, told = element.hit;
  if (facts.image) {
    tellCell();
    return;
  }
  told.replaceChildren();
  element.patchBox.classList.toggle("hidden", i < 0 || !planeOf(i) || !planeOf(i).level);
  if (i < 0) {
    told.append(node("p", { class: "faint" }, facts.n ? "Point at a " + one() + ". A click pins it; n and p walk." : "This output has no hits."));
    return;
  }
  told.append(node("p", {}, node("strong", { id: "identity" }, facts.event + ":" + column.id[i]), i === state.pin ? " (pinned)" : ""),
    node("p", { id: "position" }, position(i)), scoreRows(i));
  const line = node("p", { id: "verdict" });
  for (const { name, call, status } of outputs) {
    if (isPair()) line.append(name === "B" ? "; B: " : "A: ");
    if (status[i] === LACKS) line.append(keyOf(HELD), "not in this output");
    else if (call[i] === HELD) line.append(keyOf(HELD), "held: " + (statuses[status[i]] || "status " + status[i]));
    else line.append("called ", keyOf(call[i]), nameOfLabel(call[i]));
  }
  if (column.truth && column.truth[i] < labels.length)
    line.append(", truth ", keyOf(column.truth[i]), nameOfLabel(column.truth[i]), call[i] === column.truth[i] || call[i] === HELD ? "" : ": wrong");
  told.append(line);
  if (difference(i) >= 0) told.append(node("p", { id: "difference" }, "largest difference of scores: " + digits(Number(difference(i).toPrecision(7)))));
  drawPatch(i);
}

function table(head, rows, caption) {
  return node("table", {}, node("caption", {}, caption), node("thead", {}, node("tr", {}, ...head.map((h, k) => node("th", { class: k ? "n" : "", scope: "col" }, h)))),
    node("tbody", {}, ...rows.map((row) => node("tr", {}, ...row.map((cell, k) => (k ? node("td", { class: "n" }, cell) : node("th", { scope: "row" }, cell)))))));
}

function ratings() {
  const told = element.rates, seen = outputs.map(() => 0), rows = [];
  outputs.forEach((output, o) => {
    const counts = confusion(output), called = new Array(labels.length + 1).fill(0), of = isPair() ? " " + output.name : "";
    let lacking = 0;
    for (let i = 0; i < facts.n; i++) {
      if (!isFirst(i)) continue;
      called[Math.min(output.call[i], labels.length)]++;
      lacking += output.status[i] === LACKS;
    }
    seen[o] = counts.flat().reduce((a, b) => a + b, 0);
    const add = (at, k, name, n, is, rates) => rows.push({ at, row: [node("span", {}, keyOf(k), name + of), ...(column.truth ? [is, n, ...rates] : [n])] });
    labels.forEach((label, k) => {
      const is = counts[k].reduce((a, b) => a + b, 0), as = counts.reduce((a, row) => a + row[k], 0);
      add(k, k, label.name, count(column.truth ? as : called[k]), count(is), [share(counts[k][k], is), share(counts[k][k], as)]);
    });
    if (called[labels.length] > lacking) add(labels.length, HELD, "held", count(called[labels.length] - lacking), "", ["", ""]);
    if (lacking) add(labels.length, HELD, "not in", count(lacking), "", ["", ""]);
  });
  element.rule.textContent = "Called: " + (facts.sigmoid < labels.length ? labels[facts.sigmoid].name + " if its score is at least " + state.least +
    ", else the largest of the others." : "the largest score.");
  const n = seen[0] === seen[1] || !isPair() ? count(seen[0]) : count(seen[0]) + " (A) and " + count(seen[1]) + " (B)";
  told.replaceChildren(table(column.truth ? ["label", "true", "called", "found", "right"] : ["label", "called"],
    rows.sort((a, b) => a.at - b.at).map(({ row }) => row),
    (column.truth ? n + " hits with truth and scores" : count(facts.count) + " " + facts.rows) + " of the event"));
  if (isPair()) told.append(node("p", { id: "otherwise" }, count(rowsOf(differs).length) + " of " + count(facts.count) + " are called otherwise in B." +
    (facts.extra === "0" ? "" : " B has " + count(Number(facts.extra)) + " more, which A lacks.")));
}

function legend() {
  const told = element.legend, parts = [];
  if (state.layer === "score") parts.push(ramp(theme.score, labels[state.label].name + " 0", "1"));
  if (["call", "truth", "wrong", "differs"].includes(state.layer)) labels.forEach((label, k) => parts.push(node("span", {}, keyOf(k), label.name)));
  if (["call", "score", "differs"].includes(state.layer) && call.includes(HELD))
    parts.push(node("span", {}, keyOf(HELD), column.status.includes(LACKS) ? "held, or not in " + outputs[state.output].name : "held"));
  if (isPair()) parts.unshift(node("strong", { id: "output" }, outputs[state.output].name + ": " + outputs[state.output].path));
  const most = tpcs.length ? tpcs[state.tpc].planes.map((p) => p.most).filter(Boolean) : [];
  if (facts.image && state.layer !== "charge") parts.push(ramp(theme.score, facts.image + " " + digits(facts.span.from), digits(facts.span.to)));
  if (facts.without) parts.push(node("span", {}, "Without charge: " + facts.without));
  if (most.length && state.layer !== "value" && (state.charge || state.layer === "charge"))
    parts.push(ramp(theme.charge, "charge 0", most.join(", ") + " ADC" + (most.length > 1 ? " (by plane)" : "")));
  told.replaceChildren(...parts);
}

function ramp(map, from, to) {
  const canvas = node("canvas", { width: 256, height: 1, "aria-hidden": "true" }), context = canvas.getContext("2d");
  const image = context.createImageData(256, 1);
  new Uint32Array(image.data.buffer).set(map);
  context.putImageData(image, 0, 0);
  return node("span", {}, from, canvas, to);
}

// ---- choices ---------------------------------------------------------------------------------------------------------

function setLayer(layer) {
  state.layer = layer;
  for (const button of element.layers.children) button.setAttribute("aria-pressed", button.dataset.layer === layer);
  element.label.classList.toggle("hidden", layer !== "score");
  repaint();
  legend();
}

// Shows the calls and scores of output A (0) or B (1): pictures, walks and selections are of this one.
function setOutput(k) {
  state.output = k;
  call = outputs[k].call;
  Object.assign(column, { score: outputs[k].score, status: outputs[k].status });
  for (const [at, button] of [...element.outputs.children].entries()) button.setAttribute("aria-pressed", at === k);
  repaint();
  legend();
  if (state.box) tellBox();
}

function setBlink() {
  if (state.blink) clearInterval(state.blink);
  state.blink = state.blink ? 0 : setInterval(() => setOutput(1 - state.output), 700);
  element.blink.setAttribute("aria-pressed", state.blink !== 0);
}

function setLeast(value) {
  state.least = Math.max(0, Math.min(1, Number(value) || 0));
  element.slider.value = element.number.value = state.least;
  outputs.forEach(callAll);
  ratings();
  repaint();
  tell();
  if (state.box) tellBox();
}

function pin(i, how) {
  state.pin = i;
  state.hover = -1;
  const plane = i >= 0 ? planeOf(i) : null;
  if (plane && how === "go") {
    const k = tpcs.findIndex((t) => t.planes.includes(plane));
    if (k !== state.tpc || !view.panels.length) chooseTpc(k);
    const [wires, bins, window] = facts.patch, t = Math.min(view.t1 - view.t0, 5 * bins * window);
    if (Number.isFinite(column.tick[i])) [view.t0, view.t1] = slid(column.tick[i] - t / 2, t, 0, facts.ticks);
    for (const panel of view.panels)
      for (const j of alike(i).filter((j) => planeOf(j) === panel.plane)) {
        const w = Math.min(panel.w1 - panel.w0, 5 * wires);
        [panel.w0, panel.w1] = slid(column.wire[j] - w / 2, w, 0, panel.plane.wires);
      }
  }
  const link = "#" + (i >= 0 ? facts.event + ":" + column.id[i] : events.length > 1 ? facts.event : "");
  if (location.hash !== link && (link !== "#" || location.hash)) history.replaceState(null, "", link);
  tell();
  element.said.textContent = i >= 0 ? [...element.hit.querySelectorAll("p,.score span")].map((e) => e.textContent).join(" ") : "";
  ask(how === "go" ? "all" : "marks");
}

// A link to a hit, run:subrun:event:hit, or to an event of several.
async function follow() {
  const [run, subrun, event, hit] = decodeURIComponent(location.hash.slice(1)).split(":"), name = [run, subrun, event].join(":");
  const k = events.findIndex((e) => e.source.dataset.event === name);
  if (k < 0 || (k !== state.event && !(await enter(k))) || hit === undefined) return;
  const i = column.id.indexOf(Number(hit));
  if (i >= 0) pin(i, "go");
}

// ---- events of the page ----------------------------------------------------------------------------------------------

// Shows an event. False: another one was asked for before this one was read.
async function enter(k) {
  const event = events[k];
  state.wanted = k;
  event.read = event.read || (await read(event.source));
  if (state.wanted !== k) return false;
  ({ facts, column, outputs, planes, tpcs, labels, statuses } = event.read);
  state.event = k;
  Object.assign(state, { pin: -1, hover: -1, box: null, cell: null });
  paint = new Uint32Array(facts.n);
  Object.assign(ordered, { tick: new Float64Array(facts.n), wire: new Float32Array(facts.n), colour: new Uint32Array(facts.n) });
  for (const [j, { source }] of events.entries()) source.closest("section").classList.toggle("chosen", j === k);
  if (!element.stage) begin();
  document.querySelector("h1").textContent = "Event " + facts.event;
  element.tpc.replaceChildren(...tpcs.map((t, j) =>
    node("option", { value: j }, (t.cryostat ? "cryostat " + t.cryostat + ", " : "") + "TPC " + t.tpc + (facts.n ? ": " + count(t.hits) : ""))));
  element.box.replaceChildren();
  element.walked.textContent = "";
  outputs.forEach(callAll);
  call = outputs[state.output].call;
  Object.assign(column, { score: outputs[state.output].score, status: outputs[state.output].status });
  const fullest = tpcs.reduce((most, t, j) => (t.hits > tpcs[most].hits ? j : most), 0);
  const drawn = tpcs.findIndex((t) => t.planes.some((p) => document.getElementById(p.charge)));
  chooseTpc(tpcs[fullest].planes.some((p) => document.getElementById(p.charge)) || drawn < 0 ? fullest : drawn);
  if (facts.n) setLeast(state.least);
  if (facts.image) setValue((facts.span.from + facts.span.to) / 2);
  setLayer(state.layer);
  for (const [j, { button }] of events.entries()) button?.setAttribute("aria-pressed", j === k);
  tell();
  return true;
}

const step = (by) => events.length > 1 && enter((state.event + by + events.length) % events.length).then((is) => is && pin(-1));

function pickers() {
  const strip = node("div", { class: "events", role: "group", tabindex: 0, "aria-label": "events" });
  for (const [k, event] of events.entries()) {
    const { event: name, n, points, rows } = event.source.dataset;
    event.thumb = node("canvas", { width: 132, height: 44, "aria-hidden": "true" });
    event.button = node("button", { type: "button", "aria-pressed": "false", onclick: () => enter(k).then((is) => is && pin(-1)) }, event.thumb,
      node("span", {}, name + ", " + count(Number(points ?? n)) + " " + rows));
    strip.append(event.button);
  }
  return strip;
}

// The charge of the plane with most hits, event by event, so that the page answers meanwhile.
async function drawThumbs() {
  for (const { source, thumb } of events) {
    const all = [...source.querySelectorAll("b")].filter((b) => document.getElementById(b.dataset.charge));
    const one = all.sort((a, b) => b.dataset.count - a.dataset.count)[0], ticks = Number(source.dataset.ticks);
    if (!one) continue;
    const range = one.dataset.range ? one.dataset.range.split(" ").map(Number) : [0, Number(one.dataset.wires), 0, ticks], plane = { charge: one.dataset.charge, range };
    await decode(plane);
    const context = thumb.getContext("2d"), image = context.createImageData(thumb.width, thumb.height);
    drawCharge(new Uint32Array(image.data.buffer).fill(theme.paper), thumb.width, thumb.height, { plane, w0: range[0], w1: range[1] }, range.slice(2));
    context.putImageData(image, 0, 0);
    thumb.dataset.drawn = "yes";
  }
}

// ---- walks -----------------------------------------------------------------------------------------------------------

const WALKS = {
  worst: ["worst by truth", () => column.truth && rowsOf((i) => call[i] !== HELD && column.truth[i] < labels.length)
    .sort((a, b) => column.score[column.truth[a]][a] - column.score[column.truth[b]][b])],
  wrong: ["called wrong", () => column.truth && rowsOf((i) => call[i] !== HELD && column.truth[i] < labels.length && column.truth[i] !== call[i])],
  unsure: ["least sure", () => labels.length > 1 && rowsOf((i) => call[i] !== HELD)
    .sort((a, b) => column.score[call[a]][a] - column.score[call[b]][b])],
  differs: ["differs most", () => isPair() && rowsOf((i) => difference(i) > 0).map((i) => [difference(i), i]).sort((a, b) => b[0] - a[0]).map(([, i]) => i)],
  held: ["held", () => rowsOf((i) => call[i] === HELD)],
};
function rowsOf(test) {
  const found = [];
  for (let i = 0; i < facts.n; i++) if (isFirst(i) && test(i)) found.push(i);
  return found;
}

function walk(step) {
  const list = WALKS[state.walk][1]() || [];
  const at = state.pin < 0 ? -1 : list.indexOf(alike(state.pin)[0]);
  element.walked.textContent = list.length ? "" : "no such hit";
  if (!list.length) return;
  const next = at < 0 ? (step > 0 ? 0 : list.length - 1) : (at + step + list.length) % list.length;
  element.walked.textContent = count(next + 1) + " of " + count(list.length);
  pin(list[next], "go");
}

// ---- a selection, and its list ---------------------------------------------------------------------------------------

function boxed() {
  const { panel, t0, t1, w0, w1 } = state.box, plane = panel.plane;
  return Array.from({ length: plane.count }, (_, k) => plane.first + k).filter((i) => column.tick[i] + 0.5 >= t0 && column.tick[i] + 0.5 <= t1 &&
    column.wire[i] + 0.5 >= w0 && column.wire[i] + 0.5 <= w1);
}

function tellBox() {
  const list = boxed(), n = labels.length, told = element.box;
  const called = new Array(n + 1).fill(0), is = new Array(n + 1).fill(0);
  for (const i of list) {
    called[Math.min(n, call[i])]++;
    if (column.truth) is[Math.min(n, column.truth[i])]++;
  }
  const lines = [...labels.keys(), HELD].filter((k) => k !== HELD || called[n])
    .map((k) => [node("span", {}, keyOf(k), nameOfLabel(k)), count(called[Math.min(n, k)]), ...(column.truth ? [k === HELD ? "" : count(is[k])] : [])]);
  told.replaceChildren(node("h2", {}, "Selection"),
    table(["label", "called", ...(column.truth ? ["true"] : [])], lines, count(list.length) + " " + facts.rows + ", " + nameOf(state.box.panel.plane)),
    node("p", {}, node("button", { type: "button", id: "copy", onclick: () => copy(list) }, "Copy as CSV"), " ",
      node("button", { type: "button", onclick: () => { state.box = null; told.replaceChildren(); ask("marks"); } }, "Clear")));
}

function csv(list) {
  const quoted = (text) => (/[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
  const head = ["run", "subrun", "event", "hit_id", "cryostat", "tpc", "plane", "wire", "tick",
    ...outputs.flatMap(({ name }) => [...labels.map((l) => l.name), "status", "called"].map((text) => quoted(text + (isPair() ? " " + name : "")))),
    ...(column.truth ? ["truth"] : [])];
  return [head, ...list.map((i) => {
    const plane = planeOf(i) || {};
    return [...facts.event.split(":"), column.id[i], plane.cryostat, plane.tpc, plane.plane, column.wire[i], digits(column.tick[i] + (facts.firstTick || 0)),
      ...outputs.flatMap(({ score, status, call }) => [...score.map((s) => Number(s[i].toPrecision(9))),
        quoted(status[i] === LACKS ? "lacking" : statuses[status[i]] || ""), quoted(nameOfLabel(call[i]))]),
      ...(column.truth ? [column.truth[i] < labels.length ? quoted(nameOfLabel(column.truth[i])) : ""] : [])];
  })].map((row) => row.join(",")).join("\n") + "\n";
}

async function copy(list) {
  const text = csv(list);
  try {
    await navigator.clipboard.writeText(text);
    element.said.textContent = document.getElementById("copy").textContent = "Copied " + count(list.length) + " lines";
  } catch { // not allowed, as in a frame: the text is there to be copied by hand
    const area = node("textarea", { rows: 6, readonly: "", "aria-label": "the selection as CSV" });
    area.value = text;
    element.box.append(area);
    area.select();
  }
}

// ---- pointers and keys -----------------------------------------------------------------------------------------------

const pointers = new Map();
let drag = null;

function local(event) {
  const box = element.stage.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function onDown(event) {
  const at = local(event), panel = panelAt(at.x, at.y);
  if (!panel || event.button > 0) return;
  element.stage.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, at);
  drag = { panel, from: at, moved: false, select: !facts.image && (event.shiftKey || element.select.getAttribute("aria-pressed") === "true") };
}

function onMove(event) {
  const at = local(event), last = pointers.get(event.pointerId);
  if (!last) {
    const panel = panelAt(at.x, at.y);
    if (facts.image) {
      hoverCell(panel ? cellAt(panel, at.x, at.y) : null);
      return;
    }
    const i = panel ? hitAt(panel, at.x, at.y, 9) : -1;
    if (i !== state.hover) {
      state.hover = i;
      tell();
      ask("marks");
    }
    return;
  }
  if (pointers.size === 2) {
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
    const length = (a, b) => Math.hypot(a.x - b.x, a.y - b.y), factor = length(last, other) / Math.max(1, length(at, other));
    zoom(drag.panel, (at.x + other.x) / 2, (at.y + other.y) / 2, factor, factor);
    pan(drag.panel, (at.x - last.x) / 2, (at.y - last.y) / 2);
    drag.moved = true;
  } else if (drag && (drag.moved || Math.hypot(at.x - drag.from.x, at.y - drag.from.y) > 4)) {
    drag.moved = true;
    if (drag.select) {
      const t = (x) => view.t0 + (x - drag.panel.x) / drag.panel.width * (view.t1 - view.t0);
      const w = (y) => drag.panel.w1 - (y - drag.panel.y) / drag.panel.height * (drag.panel.w1 - drag.panel.w0);
      state.box = { panel: drag.panel, t0: Math.min(t(at.x), t(drag.from.x)), t1: Math.max(t(at.x), t(drag.from.x)),
        w0: Math.min(w(at.y), w(drag.from.y)), w1: Math.max(w(at.y), w(drag.from.y)) };
      ask("marks");
    } else pan(drag.panel, at.x - last.x, at.y - last.y);
  }
  pointers.set(event.pointerId, at);
}

function onUp(event) {
  if (!pointers.delete(event.pointerId) || !drag || pointers.size) return;
  const { panel, moved, select } = drag, at = local(event);
  drag = null;
  if (moved && select && state.box) tellBox();
  if (!moved && facts.image) hoverCell(cellAt(panel, at.x, at.y));
  else if (!moved && event.type === "pointerup") {
    const i = hitAt(panel, at.x, at.y, event.pointerType === "touch" ? 18 : 9);
    pin(i === state.pin ? -1 : i);
  }
}

function onWheel(event) {
  const at = local(event), panel = panelAt(at.x, at.y);
  if (!panel) return;
  event.preventDefault();
  const factor = Math.exp(Math.max(-0.5, Math.min(0.5, (event.deltaMode ? 20 : 1) * (event.deltaY || event.deltaX) * 0.002)));
  zoom(panel, at.x, at.y, event.altKey ? 1 : factor, event.shiftKey ? 1 : factor);
}

const KEYS = {
  ArrowLeft: () => each((p, k) => k || pan(p, 60, 0)), ArrowRight: () => each((p, k) => k || pan(p, -60, 0)),
  ArrowUp: () => each((p) => pan(p, 0, p.height / 5)), ArrowDown: () => each((p) => pan(p, 0, -p.height / 5)),
  "+": () => each((p, k) => zoom(p, p.x + p.width / 2, p.y + p.height / 2, k ? 1 : 0.75, 0.75)),
  "-": () => each((p, k) => zoom(p, p.x + p.width / 2, p.y + p.height / 2, k ? 1 : 4 / 3, 4 / 3)),
  "0": home, n: () => facts.n && walk(1), p: () => facts.n && walk(-1), "]": () => chooseTpc(state.tpc + 1), "[": () => chooseTpc(state.tpc - 1),
  l: () => { const all = [...element.layers.children].map((b) => b.dataset.layer); setLayer(all[(all.indexOf(state.layer) + 1) % all.length]); },
  ",": () => step(-1), ".": () => step(1),
  b: () => isPair() && setOutput(1 - state.output), c: () => facts.n && element.charge.click(), Escape: () => { state.box = null; element.box.replaceChildren(); pin(-1); },
};
KEYS["="] = KEYS["+"];
const each = (what) => view.panels.forEach(what);

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const what = KEYS[event.key];
  if (!what || (event.key.startsWith("Arrow") && event.target.closest(".events"))) return; // which these scroll
  event.preventDefault();
  what();
}

// ---- the page --------------------------------------------------------------------------------------------------------

function build() {
  const layers = facts.image ? [["both", "both"], ["value", facts.image], ["charge", "charge"]].slice(hasCharge() ? 0 : 1, hasCharge() ? 3 : 2) : [["call", "call"], ["score", "score"], ...(column.truth ? [["truth", "truth"], ["wrong", "wrong only"]] : []),
    ...(isPair() ? [["differs", "differs"]] : []), ["charge", "charge"]];
  element.tpc = node("select", { id: "tpc", onchange: (e) => chooseTpc(Number(e.target.value)) });
  element.layers = node("span", { class: "group", role: "group", "aria-label": "what is drawn" }, ...layers.map(([key, text]) =>
    node("button", { type: "button", "data-layer": key, "aria-pressed": key === state.layer, onclick: () => setLayer(key) }, text)));
  element.outputs = node("span", { class: "group", role: "group", "aria-label": "whose scores" }, ...outputs.map(({ name, path }, k) =>
    node("button", { type: "button", title: path || "", "aria-pressed": k === 0, onclick: () => setOutput(k) }, name)));
  element.blink = node("button", { type: "button", "aria-pressed": "false", onclick: setBlink }, "blink");
  element.label = node("select", { class: "hidden", "aria-label": "score of", onchange: (e) => { state.label = Number(e.target.value); repaint(); legend(); } },
    ...labels.map((label, k) => node("option", { value: k }, label.name)));
  element.label.value = state.label;
  element.charge = node("input", { type: "checkbox", id: "under", checked: "", onchange: (e) => { state.charge = e.target.checked; legend(); ask(); } });
  const { from, to } = facts.span || { from: 0, to: 1 }, setThreshold = (e) => (facts.image ? setValue : setLeast)(e.target.value);
  element.slider = node("input", { type: "range", min: from, max: to, step: (to - from) / 100, "aria-label": "threshold", oninput: setThreshold });
  element.number = node("input", { type: "number", min: from, max: to, step: "any", id: "least", onchange: setThreshold });
  element.opacity = node("input", { type: "range", min: 0.05, max: 1, step: 0.05, value: state.opacity, id: "opacity", oninput: (e) => { state.opacity = Number(e.target.value); ask(); } });
  element.select = node("button", { type: "button", "aria-pressed": "false", onclick: (e) =>
    e.target.setAttribute("aria-pressed", e.target.getAttribute("aria-pressed") !== "true") }, "select");
  element.walks = node("select", { "aria-label": "walk through", onchange: (e) => { state.walk = e.target.value; element.walked.textContent = ""; } },
    ...Object.entries(WALKS).filter(([key]) => (key === "differs" ? isPair() : column.truth || !["worst", "wrong"].includes(key))).map(([key, [text]]) => node("option", { value: key }, text)));
  element.walked = node("span", { class: "faint", role: "status" });
  element.canvas = node("canvas");
  element.over = node("canvas");
  element.stage = node("div", { id: "stage", tabindex: 0, role: "img",
    "aria-label": "The planes of a TPC, " + (facts.image ? "drift bins across, wires upwards, with charge and " + facts.image + ". Keys: arrows, plus, minus, 0, brackets, l." :
      "ticks across, wires upwards, with charge and hits. Keys: arrows, plus, minus, 0, n, p, brackets.") }, element.canvas, element.over);
  element.hit = node("div");
  element.said = node("p", { class: "unseen", role: "status" });
  element.patch = node("canvas", { id: "patch", "aria-hidden": "true" });
  element.patchBox = node("div", { class: "hidden" }, node("p", { class: "faint" }, "charge in its patch, ticks across"), element.patch);
  element.rates = node("div");
  element.rule = node("p", { class: "faint" });
  element.box = node("div");
  element.legend = node("div", { class: "legend" });
  const hasCut = facts.sigmoid < labels.length && labels.length > 1;
  const bar = node("div", { class: "bar" }, node("span", {}, node("label", { for: "tpc" }, facts.n ? facts.rows + " of" : "show"), element.tpc,
    node("button", { type: "button", onclick: home }, "all of it")));
  if (facts.n) bar.append(element.layers, element.label, node("span", {}, element.charge, node("label", { for: "under" }, "charge below")));
  if (facts.image)
    bar.append(element.layers, node("span", {}, node("label", { for: "least" }, facts.image + " from"), element.slider, element.number),
      node("span", {}, node("label", { for: "opacity" }, "opacity"), element.opacity));
  if (facts.n && isPair()) bar.append(element.outputs, element.blink);
  if (facts.n && hasCut) bar.append(node("span", {}, node("label", { for: "least" }, labels[facts.sigmoid].name + " from"), element.slider, element.number));
  if (facts.n) bar.append(node("span", {}, element.walks, node("button", { type: "button", "aria-label": "the one before", onclick: () => walk(-1) }, "\u25c0 p"),
    node("button", { type: "button", "aria-label": "the next one", onclick: () => walk(1) }, "n \u25b6"), element.walked), element.select);
  const aside = node("aside", { "aria-label": "hit and event" });
  if (facts.n) aside.append(node("h2", {}, one()[0].toUpperCase() + one().slice(1)), element.hit, element.patchBox, element.box, node("h2", {}, "Event"), element.rates,
    element.rule);
  if (facts.image) aside.append(node("h2", {}, "Cell"), element.hit, node("h2", {}, "Event"), element.rates);
  aside.append(element.said, help());
  document.documentElement.classList.toggle("bare", !facts.n && !facts.image);
  document.getElementById("still").before(node("div", { id: "live" }, ...(events.length > 1 ? [pickers()] : []), bar, node("div", {}, element.legend, element.stage), aside));
}

function help() {
  const lines = [["wheel, pinch, + -", "zoom; with Shift ticks alone, with Alt wires"], ["drag, arrows", "move"], ...(facts.n ? [["Shift and drag", "select hits"],
    ["n p", "walk through the list"], ["c", "charge below"], ["Esc", "nothing pinned"]] : []), ["0", "all of the planes"], ["[ ]", "the TPC before, the next"], ...(events.length > 1 ? [[", .", "the event before, the next"]] : []), ["l", "next layer"], ...(isPair() ? [["b", "the other output"]] : [])];
  return node("details", {}, node("summary", {}, "Keys"), node("table", {}, node("caption", {}, "Keys and gestures"), node("tbody", {}, ...lines.map(([key, text]) =>
    node("tr", {}, node("th", { scope: "row" }, node("kbd", {}, key)), node("td", {}, text))))));
}

// What the first event that is shown decides.
function begin() {
  state.least = facts.least;
  state.layer = facts.image ? (hasCharge() ? "both" : "value") : facts.n ? "call" : "charge";
  state.label = facts.sigmoid < labels.length ? facts.sigmoid : 0;
  state.walk = isPair() ? "differs" : column.truth ? "worst" : "unsure";
  build();
  dress();
  element.walks.value = state.walk;
}

async function start() {
  for (const source of document.querySelectorAll(".facts")) events.push({ source });
  await enter(0);
  if (facts.hit !== "") pin(column.id.indexOf(Number(facts.hit)), "go");
  await follow();
  const stage = element.stage;
  stage.addEventListener("pointerdown", onDown);
  stage.addEventListener("pointermove", onMove);
  stage.addEventListener("pointerup", onUp);
  stage.addEventListener("pointercancel", onUp);
  stage.addEventListener("pointerleave", () => {
    if (facts.image && !pointers.size) hoverCell(null);
    if (!pointers.size && state.hover >= 0) { state.hover = -1; tell(); ask("marks"); } });
  stage.addEventListener("wheel", onWheel, { passive: false });
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", follow);
  new ResizeObserver(layOut).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    dress();
    repaint();
    legend();
    if (facts.n) ratings();
    tell();
    if (events.length > 1) drawThumbs();
  });
  if (events.length > 1) await drawThumbs();
}

addEventListener("DOMContentLoaded", () => start().catch((error) => {
  document.documentElement.classList.remove("live"); // the still pictures are better than nothing
  throw error;
}));
