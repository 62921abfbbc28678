"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const paths = data.paths;
const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "path", "line", "circle", "rect", "text", "title"]);

function make(tag, attributes = {}, ...children) {
  const node = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
  node.append(...children); // texts become text, never markup
  return node;
}
function short(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
}
const percent = (share) => share === null ? "–" : `${(100 * share).toFixed(1)} %`;
const nameOf = (values) => data.parameters.map((name, i) => `${name}=${short(values[i], 6)}`).join(", ");

/* ---- the table: a tree that folds, or a list that is sorted */

const body = document.querySelector("#paths tbody");
const children = paths.map(() => []);
const roots = [];
paths.forEach((path, i) => (path.parent < 0 ? roots : children[path.parent]).push(i));
const below = paths.map((path) => path.share || 0); // of the whole subtree; callers stand before what they call
for (let i = paths.length - 1; i >= 0; i--) if (paths[i].parent >= 0) below[paths[i].parent] += below[i];
const folded = new Set();
let sorting = null, descending = true, words = "", chosen = null;
const asTree = () => sorting === null && words === "";

function order() {
  const out = [];
  if (asTree()) {
    const stack = roots.slice().reverse().map((i) => [i, 0]);
    while (stack.length) {
      const [i, depth] = stack.pop();
      out.push([i, depth]);
      if (folded.has(i)) continue;
      const largest = children[i].slice().sort((a, b) => below[a] - below[b]);
      for (const child of largest) stack.push([child, depth + 1]);
    }
    return out;
  }
  const found = paths.map((_, i) => i).filter((i) => {
    const text = `${paths[i].name} ${paths[i].model} ${paths[i].grows}`.toLowerCase();
    return words.split(/\s+/).every((word) => text.includes(word));
  });
  const key = sorting || "share", sign = descending ? -1 : 1;
  const value = (i) => paths[i][key] ?? (typeof paths[i].name === typeof paths[i][key] ? "" : -Infinity);
  found.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * sign || a - b);
  return found.map((i) => [i, 0]);
}

function row(i, depth) {
  const path = paths[i];
  const label = make("td");
  label.style.paddingLeft = `${0.4 + Math.min(depth, 24) * 0.9}rem`;
  if (asTree()) {
    const fold = make("button", { class: "fold", type: "button", "aria-label": folded.has(i) ? "unfold" : "fold" },
      children[i].length ? (folded.has(i) ? "▸" : "▾") : "");
    fold.disabled = !children[i].length;
    fold.addEventListener("click", (event) => { event.stopPropagation(); folded.has(i) ? folded.delete(i) : folded.add(i); draw(); });
    label.append(fold);
  }
  label.append(asTree() ? path.short : path.name);
  label.title = path.name;
  const share = (value) => {
    const cell = make("td", { class: "number share" }, percent(value));
    cell.style.setProperty("--part", `${100 * (value || 0)}%`);
    return cell;
  };
  const line = make("tr", { tabindex: 0, class: i === chosen ? "chosen" : null, "data-path": i }, label, share(path.now), share(path.share),
    make("td", { class: "number" }, short(path.at)),
    make("td", { class: "number" }, path.low === null ? "–" : `${short(path.low)} … ${short(path.high)}`),
    make("td", {}, path.grows), make("td", { class: "number" }, path.smape === null ? "–" : `${short(path.smape, 2)} %`));
  line.addEventListener("click", () => show(i));
  line.addEventListener("keydown", (event) => { if (event.key === "Enter") show(i); });
  return line;
}

function draw() {
  const shown = order();
  body.replaceChildren(...shown.map(([i, depth]) => row(i, depth)));
  document.getElementById("count").textContent = `${shown.length} of ${paths.length} call paths`;
  document.getElementById("tree").setAttribute("aria-pressed", String(asTree()));
  for (const head of document.querySelectorAll("#paths th")) {
    if (head.dataset.key === sorting) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

/* ---- plots of the call path that was chosen */

function scale(values, from, to) {
  const finite = values.filter((value) => value !== null && Number.isFinite(value));
  let low = Math.min(...finite), high = Math.max(...finite);
  const positive = finite.filter((value) => value > 0);
  const logarithmic = low > 0 && high / low > 8;
  if (logarithmic) low = Math.min(...positive);
  if (low === high) { low -= Math.abs(low) / 2 || 0.5; high += Math.abs(high) / 2 || 0.5; }
  const unit = (value) => logarithmic ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  const at = (value) => from + (to - from) * Math.min(Math.max(unit(value), 0), 1);
  const ticks = [0, 1 / 3, 2 / 3, 1].map((part) => logarithmic ? low * (high / low) ** part : low + part * (high - low));
  return { at, ticks, logarithmic };
}

function curve(path, parameter) {
  const [width, height, left, bottom] = [340, 220, 62, 34];
  const axis = data.axes[parameter], [middle, lower, upper] = path.curves.map((each) => each[parameter]);
  const others = data.largest.map((value, i) => i === parameter ? null : value);
  const on = [];
  path.measured.length && data.points.forEach((point, k) => {
    if (path.measured[0][k] !== null && point.every((value, i) => i === parameter || value === others[i])) on.push(k);
  });
  const heights = [...middle, ...on.flatMap((k) => path.measured.map((each) => each[k]))];
  const x = scale([...axis, ...on.map((k) => data.points[k][parameter])], left, width - 10);
  const y = scale(heights.some((value) => value > 0) ? heights.map((value) => Math.max(value, 0)) : heights, height - bottom, 8);
  const drawing = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${data.metric} over ${data.parameters[parameter]}` });
  for (const tick of x.ticks) drawing.append(make("text", { x: x.at(tick), y: height - bottom + 15, "text-anchor": "middle" }, short(tick)));
  for (const tick of y.ticks) drawing.append(make("line", { class: "axis", x1: left, x2: width - 10, y1: y.at(tick), y2: y.at(tick) }),
    make("text", { x: left - 6, y: y.at(tick) + 4, "text-anchor": "end" }, short(tick)));
  const line = (values) => values.map((value, k) => `${x.at(axis[k]).toFixed(1)},${y.at(value ?? 0).toFixed(1)}`);
  drawing.append(make("path", { class: "band", d: `M${line(lower).join("L")}L${line(upper).reverse().join("L")}Z` }));
  drawing.append(make("path", { class: "curve", d: `M${line(middle).join("L")}` }));
  const goal = x.at(data.target[parameter]);
  drawing.append(make("line", { class: "target", x1: goal, x2: goal, y1: 8, y2: height - bottom }));
  for (const k of on) {
    const at = x.at(data.points[k][parameter]), [middle, least, most] = path.measured.map((each) => each[k]);
    drawing.append(make("line", { class: "reach", x1: at, x2: at, y1: y.at(least), y2: y.at(most) }),
      make("circle", { class: "point", cx: at, cy: y.at(middle), r: 3.5 },
        make("title", {}, `${nameOf(data.points[k])}: ${short(middle, 4)} (${short(least, 4)} … ${short(most, 4)})`)));
  }
  drawing.append(make("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" },
    `${data.parameters[parameter]}${x.logarithmic ? " (logarithmic)" : ""}`));
  const held = data.parameters.flatMap((name, i) => i === parameter ? [] : [`${name}=${short(data.largest[i], 6)}`]).join(", ");
  return make("figure", {}, drawing, make("figcaption", {}, held ? `at ${held}` : "all measured points"));
}

function surface(path) {
  const [first, second] = data.map_axes, size = 22, left = 62;
  const values = path.surface, shade = scale(values.map((value) => Math.max(value ?? 0, 0)), 0, 1);
  const drawing = make("svg", { viewBox: `0 0 ${left + second.length * size + 8} ${first.length * size + 40}`,
    width: left + second.length * size + 8, role: "img", "aria-label": "map over two parameters" });
  first.forEach((a, i) => second.forEach((b, j) => {
    const value = values[i * second.length + j], part = value === null ? 0 : shade.at(Math.max(value, 0));
    drawing.append(make("rect", { x: left + j * size, y: (first.length - 1 - i) * size, width: size, height: size,
      fill: `hsl(${Math.round(215 - 170 * part)} 70% ${Math.round(28 + 42 * part)}%)` },
      make("title", {}, `${data.parameters[data.map[0]]}=${short(a)}, ${data.parameters[data.map[1]]}=${short(b)}: ${short(value, 4)}`)));
  }));
  const bottom = first.length * size;
  for (const i of [0, first.length - 1]) drawing.append(make("text", { x: left - 6, y: (first.length - 1 - i) * size + 15, "text-anchor": "end" }, short(first[i])));
  for (const j of [0, second.length - 1]) drawing.append(make("text", { x: left + j * size + 11, y: bottom + 15, "text-anchor": "middle" }, short(second[j])));
  drawing.append(make("text", { x: left + second.length * size / 2, y: bottom + 32, "text-anchor": "middle" }, data.parameters[data.map[1]]),
    make("text", { x: 10, y: bottom / 2 }, data.parameters[data.map[0]]));
  return make("figure", {}, drawing, make("figcaption", {}, `model over ${data.map.map((i) => data.parameters[i]).join(" and ")}, dark is small`));
}

function show(i) {
  const path = paths[i], detail = document.getElementById("detail");
  chosen = i;
  for (const line of body.children) line.classList.toggle("chosen", Number(line.dataset.path) === i);
  const close = make("button", { class: "close", type: "button" }, "Close");
  close.addEventListener("click", () => { detail.hidden = true; chosen = null; draw(); });
  const facts = make("dl");
  const say = (name, text) => text && facts.append(make("dt", {}, name), make("dd", {}, text));
  say("model", path.model || "none: too few measurements, or only zeros");
  say(`at ${nameOf(data.target)}`, path.at === null ? null : `${short(path.at, 4)} ${data.unit}, ${percent(path.share)} of all; ` +
    `interval ${short(path.low)} … ${short(path.high)}`);
  say("prior from counts", path.prior);
  say("from times alone", path.times_alone);
  say("waiting", path.waiting);
  for (const [metric, model] of Object.entries(path.others)) say(metric.replaceAll("_", " "), model);
  for (const note of path.notes) say("note", note);
  const plots = make("div", { class: "plots" });
  if (path.curves) data.parameters.forEach((_, k) => data.axes[k].length > 1 && plots.append(curve(path, k)));
  if (path.surface && path.surface.length) plots.append(surface(path));
  if (!path.curves && path.model) say("plots", "only of the largest call paths, to keep this page small");
  detail.replaceChildren(close, make("h3", {}, path.name), facts, plots);
  detail.hidden = false;
}

/* ---- which points of the matrix were measured */

function matrix() {
  const place = document.getElementById("matrix"), state = new Map();
  const own = (point) => JSON.stringify(data.parameters.map((name) => point[name]));
  for (const each of data.iterations) for (const point of each.points) {
    const known = state.get(own(point.point));
    state.set(own(point.point), known ? { ...known, state: point.state === "failed" ? "failed" : known.state } : { ...point, number: each.number });
  }
  const all = [...state.values()];
  if (!all.length) return place.append("Nothing was measured.");
  const values = data.parameters.map((name) => [...new Set(all.map((each) => each.point[name]))].sort((a, b) => a - b));
  const [across, down] = values.map((each, i) => [each.length, i]).sort((a, b) => b[0] - a[0]).map((each) => each[1]);
  const rest = values.map((_, i) => i).filter((i) => i !== across && i !== down);
  const layers = rest.reduce((sets, i) => sets.flatMap((set) => values[i].map((value) => [...set, [i, value]])), [[]]);
  if (layers.length > 64 || values[across].length > 64) return place.append(`${all.length} points; see the list below.`);
  for (const layer of layers) {
    const table = make("table"), head = make("tr", {}, make("th"), ...values[across].map((value) => make("th", { class: "number" }, `${data.parameters[across]}=${short(value, 6)}`)));
    table.append(head);
    for (const value of down === undefined ? [null] : values[down]) {
      const line = make("tr", {}, make("th", {}, down === undefined ? "" : `${data.parameters[down]}=${short(value, 6)}`));
      for (const other of values[across]) {
        const point = Object.fromEntries([...layer, [across, other], ...(down === undefined ? [] : [[down, value]])].map(([i, own]) => [data.parameters[i], own]));
        const found = state.get(own(point));
        line.append(found ? make("td", { class: `${found.state} ${found.purpose}`, title: `iteration ${found.number}, ${found.purpose}, ${found.state}` }, found.state === "failed" ? "✕" : found.number) : make("td", { title: "never measured" }, "·"));
      }
      table.append(line);
    }
    if (layer.length) place.append(make("h4", {}, layer.map(([i, value]) => `${data.parameters[i]}=${short(value, 6)}`).join(", ")));
    place.append(make("div", { class: "wide" }, table));
  }
  place.append(make("p", {}, "Numbers are iterations; a dashed frame is a point that only tests predictions; ✕ failed; · was never measured."));
}

matrix();
if (body) {
  document.getElementById("search").addEventListener("input", (event) => { words = event.target.value.trim().toLowerCase(); draw(); });
  document.getElementById("tree").addEventListener("click", () => { sorting = null; words = ""; document.getElementById("search").value = ""; draw(); });
  document.getElementById("fold").addEventListener("click", () => { paths.forEach((_, i) => children[i].length && folded.add(i)); draw(); });
  document.getElementById("unfold").addEventListener("click", () => { folded.clear(); draw(); });
  for (const head of document.querySelectorAll("#paths th")) head.addEventListener("click", () => {
    descending = sorting === head.dataset.key ? !descending : head.dataset.key !== "name";
    sorting = head.dataset.key;
    draw();
  });
  paths.forEach((path, i) => { // what matters is open, the rest is folded
    if (children[i].length && below[i] < 0.01 && paths.length > 60) folded.add(i);
  });
  draw();
}
