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
    const stack = roots.slice().sort((a, b) => below[a] - below[b]).map((i) => [i, 0]);
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
    make("td", { class: "number" }, path.low === null || path.high === null ? "–" : `${short(path.low)} … ${short(path.high)}`),
    make("td", {}, path.grows), make("td", { class: "number" }, path.smape === null ? "–" : `${short(path.smape, 2)} %`),
    make("td", { class: "number" }, path.noise_level === null ? "–" : `${short(path.noise_level, 2)} %`));
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

function show(i) {
  const path = paths[i], detail = document.getElementById("detail");
  chosen = i;
  for (const line of body.children) line.classList.toggle("chosen", Number(line.dataset.path) === i);
  const close = make("button", { class: "close", type: "button" }, "Close");
  close.addEventListener("click", () => { detail.hidden = true; chosen = null; draw(); });
  detail.replaceChildren(close, make("h3", {}, path.name), factsOf(path), plotsOf(path));
  detail.hidden = false;
  detail.scrollTop = 0;
}

function startTable() {
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
