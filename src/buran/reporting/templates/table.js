/* ---- the table: a tree that folds, or a list that is sorted; rows are made as they come into sight */

const ROWS_AT_ONCE = 30, SMALL = 0.001; // a share of the whole that is folded away
const LOOKED_AT = 10000; // rows that a search looks at before the page answers again: some milliseconds
const body = document.querySelector("#paths tbody");
const children = paths.map(() => []);
const roots = [];
paths.forEach((path, i) => (path.parent < 0 ? roots : children[path.parent]).push(i));
const OF_A_METRIC = ["now", "share", "at", "low", "high", "grows", "model", "smape", "noise_level"];
const modelled = paths.map((path) => Object.fromEntries(OF_A_METRIC.map((key) => [key, path[key]]))); // of the first metric
let shareBelow, nowBelow, valueBelow, texts, smallOnes, shownMetric = data.metric;
addUp();
const folded = new Set(), depths = [];
let sorting = null, descending = true, words = [], chosen = null, withSmall = false;
let shown = [], ahead = [], looked = 0, made = 0, ranking = { key: null, rows: [] };
const asTree = () => sorting === null && !words.length;

/* Sums over whole subtrees; callers stand before what they call. */
function subtrees(key) {
  const sums = paths.map((path) => path[key] || 0);
  for (let i = paths.length - 1; i >= 0; i--) if (paths[i].parent >= 0) sums[paths[i].parent] += sums[i];
  return sums;
}
function addUp() {
  [shareBelow, nowBelow, valueBelow] = ["share", "now", "at"].map(subtrees);
  const isKnown = paths.some((path) => path.share !== null);
  paths.forEach((path, i) => { path.inclusive = isKnown ? shareBelow[i] : null; });
  texts = paths.map((path) => `${path.name} ${path.model} ${path.grows}`.toLowerCase());
  smallOnes = paths.filter((path, i) => path.parent >= 0 && isSmall(i)).length;
}

/* Let the table and the tree show another metric: values and shares of its models, which have no interval here. */
function showMetric(metric) {
  shownMetric = metric;
  const other = data.metrics[metric], whole = (values) => values.reduce((sum, value) => sum + value, 0) || 1;
  const [now, at] = other ? [whole(other.now), whole(other.at)] : [1, 1];
  paths.forEach((path, i) => Object.assign(path, other ? { now: other.now[i] / now, low: null, high: null, share: other.at[i] / at, at: other.at[i],
    grows: other.grows[i], model: path.others[metric] ?? "", smape: other.smape[i], noise_level: null } : modelled[i]));
  addUp();
  ranking = { key: null, rows: [] };
  document.getElementById("shown-metric").textContent = metric.replaceAll("_", " ");
  document.getElementById("shown-unit").textContent = unitShown();
  icicle();
  draw();
}
const unitShown = () => { const name = data.metrics?.[shownMetric]?.unit ?? data.unit; return name === "sec" ? "s" : name || "units"; };

function startMetrics() {
  const names = [data.metric, ...Object.keys(data.metrics ?? {})], chooser = document.getElementById("metric");
  chooser.append(...names.map((name) => make("option", { value: name }, name.replaceAll("_", " "))));
  chooser.addEventListener("change", () => showMetric(chooser.value));
  chooser.parentElement.hidden = names.length < 2;
}

function isSmall(i) {
  return shareBelow[i] < SMALL && nowBelow[i] < SMALL;
}
const largestFirst = (rows) => rows.slice().sort((a, b) => shareBelow[b] - shareBelow[a]);

function treeOrder() {
  const out = [], stack = largestFirst(roots).reverse();
  while (stack.length) {
    const i = stack.pop();
    depths[i] = paths[i].parent < 0 ? 0 : depths[paths[i].parent] + 1;
    if (!withSmall && depths[i] && isSmall(i)) continue;
    out.push(i);
    if (!folded.has(i)) stack.push(...largestFirst(children[i]).reverse());
  }
  return out;
}

/* All rows by a key, sorted once for each: a search only looks through them. */
function ranked() {
  const key = `${sorting} ${descending}`;
  if (ranking.key !== key) {
    const by = sorting || "share", sign = descending ? -1 : 1, text = typeof paths[0]?.[by] === "string";
    const values = paths.map((path) => path[by] ?? (text ? "" : -Infinity));
    ranking = { key, rows: paths.map((_, i) => i).sort((a, b) => (values[a] < values[b] ? -1 : values[a] > values[b] ? 1 : 0) * sign || a - b) };
  }
  return ranking.rows;
}

/* Look at some of the rows that are left for what is searched for. */
function look(most) {
  const until = Math.min(looked + most, ahead.length);
  for (; looked < until; looked++) if (words.every((word) => texts[ahead[looked]].includes(word))) shown.push(ahead[looked]);
}

function lookOn(rows) {
  if (rows !== ahead) return; // another search has begun
  look(LOOKED_AT);
  if (made < ROWS_AT_ONCE) moreRows(ROWS_AT_ONCE);
  else sayCount();
  if (looked < ahead.length) setTimeout(lookOn, 0, rows);
}

function row(i) {
  const path = paths[i];
  const name = make("td", { title: path.name });
  name.style.paddingLeft = `${0.4 + (asTree() ? Math.min(depths[i], 24) : 0) * 0.9}rem`;
  if (asTree()) {
    const fold = make("button", { class: "fold", type: "button", tabindex: -1, "aria-label": folded.has(i) ? "unfold" : "fold" },
      children[i].length ? (folded.has(i) ? "▸" : "▾") : "");
    fold.disabled = !children[i].length;
    fold.addEventListener("click", (event) => { event.stopPropagation(); toggle(i); });
    name.append(fold);
  }
  name.append(asTree() ? path.short : shortOf(i));
  const share = (value) => {
    const cell = make("td", { class: "number share" }, percent(value));
    cell.style.setProperty("--part", `${100 * (value || 0)}%`);
    return cell;
  };
  const line = make("tr", { tabindex: -1, class: i === chosen ? "chosen" : null, "data-path": i }, name, share(path.now), share(path.share),
    share(path.inclusive), make("td", { class: "number" }, path.at === null && path.model ? "not known" : short(path.at)),
    make("td", { class: "number" }, path.low === null || path.high === null ? "–" : `${short(path.low)} … ${short(path.high)}`),
    make("td", {}, path.grows), make("td", { class: "number" }, path.smape === null ? "–" : `${short(path.smape, 2)} %`),
    make("td", { class: "number" }, path.noise_level === null ? "–" : `${short(path.noise_level, 2)} %`));
  line.addEventListener("click", () => show(i));
  return line;
}

/* A call path without the arguments of its functions and templates. */
function shortOf(i) {
  const names = [];
  for (let at = i; at >= 0; at = paths[at].parent) names.unshift(paths[at].short);
  return names.join("->");
}

function toggle(i, fold = !folded.has(i)) {
  fold ? folded.add(i) : folded.delete(i);
  draw();
  body.querySelector(`[data-path="${i}"]`)?.focus();
}

function moreRows(until = made + ROWS_AT_ONCE) {
  body.append(...shown.slice(made, until).map(row));
  made = Math.min(until, shown.length);
  sayCount();
}

function sayCount() {
  const away = asTree() && !withSmall ? smallOnes : 0, all = looked === ahead.length;
  document.getElementById("count").textContent = `${all ? "" : "at least "}${shown.length} of ${paths.length} call paths${away ? `; ${away} below ${percent(SMALL)} are folded away` : ""}`;
  document.getElementById("more").hidden = made === shown.length && all;
}

function draw(among) {
  [shown, ahead, looked, made] = asTree() ? [treeOrder(), [], 0, 0] : [[], among ?? ranked().slice(), 0, 0]; // an array of its own for each search
  body.replaceChildren();
  lookOn(ahead);
  if (body.firstChild) body.firstChild.tabIndex = 0;
  document.getElementById("tree").setAttribute("aria-pressed", String(asTree()));
  document.getElementById("small").setAttribute("aria-pressed", String(withSmall));
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
  close.addEventListener("click", hide);
  const whole = { ...path, ...modelled[i] };
  detail.replaceChildren(close, ...pinOf(i), make("h3", {}, path.name), factsOf(whole), plotsOf(whole));
  detail.hidden = false;
  detail.scrollTop = 0;
  history.replaceState(null, "", `#path=${encodeURIComponent(path.name)}`);
}

/* A button that keeps a call path's curves in the plots of others. */
function pinOf(i) {
  if (!paths[i].curves) return [];
  const button = make("button", { type: "button", class: "save pin", "aria-pressed": String(pinned.has(i)) }, pinned.has(i) ? "Remove from comparison" : "Keep for comparison");
  button.addEventListener("click", () => { pinned.has(i) ? pinned.delete(i) : pinned.add(i); show(i); });
  return [button];
}

function hide() {
  const detail = document.getElementById("detail"), before = chosen;
  if (detail.hidden) return;
  detail.hidden = true;
  chosen = null;
  history.replaceState(null, "", location.pathname + location.search);
  const line = body.querySelector(`[data-path="${before}"]`);
  line?.classList.remove("chosen");
  line?.focus();
}

/* Open the call path that a link names: #path=main->solve */
function followLink() {
  if (!location.hash.startsWith("#path=")) return;
  const name = decodeURIComponent(location.hash.slice(6)), i = paths.findIndex((path) => path.name === name);
  if (i < 0) return;
  sorting = null;
  words = [];
  document.getElementById("search").value = "";
  if (isSmall(i)) withSmall = true;
  for (let at = paths[i].parent; at >= 0; at = paths[at].parent) folded.delete(at);
  draw();
  moreRows(shown.indexOf(i) + ROWS_AT_ONCE);
  body.querySelector(`[data-path="${i}"]`).scrollIntoView({ block: "center" });
  show(i);
}

/* Up and down move from row to row, left and right fold and unfold, Enter opens. */
function onRowKey(event) {
  const line = event.target.closest("tr");
  if (!line || event.target !== line) return;
  const i = Number(line.dataset.path), move = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (move) {
    if (move === "nextElementSibling" && !line.nextElementSibling && made < shown.length) moreRows();
    line[move]?.focus();
  } else if (event.key === "Enter" || event.key === " ") show(i);
  else if (asTree() && children[i].length && event.key === "ArrowLeft") toggle(i, true);
  else if (asTree() && children[i].length && event.key === "ArrowRight") toggle(i, false);
  else return;
  event.preventDefault();
}

function onEscape(event) {
  if (event.key !== "Escape") return;
  if (!document.getElementById("detail").hidden) hide();
  else if (words.length) search("");
}

function search(text) {
  const field = document.getElementById("search"), before = words.join(" ");
  if (field.value !== text) field.value = text;
  words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  draw(before && words.join(" ").startsWith(before) ? [...shown, ...ahead.slice(looked)] : undefined); // a longer text finds fewer
}

function saveTable() {
  look(Infinity);
  const columns = ["name", "now", "share", "inclusive", "at", "low", "high", "grows", "model", "smape", "noise_level"];
  const cell = (value) => value === null || value === undefined ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value;
  const lines = shown.map((i) => columns.map((key) => cell(paths[i][key])).join(","));
  save(`${document.title}.csv`, "text/csv", [columns.join(","), ...lines, ""].join("\n"));
}

function startTable() {
  const field = document.getElementById("search");
  startMetrics();
  field.addEventListener("focus", ranked); // before the first letter
  field.addEventListener("input", (event) => search(event.target.value));
  document.getElementById("tree").addEventListener("click", () => { sorting = null; search(""); });
  document.getElementById("small").addEventListener("click", () => { withSmall = !withSmall; draw(); });
  document.getElementById("csv").addEventListener("click", saveTable);
  document.getElementById("fold").addEventListener("click", () => { paths.forEach((_, i) => children[i].length && folded.add(i)); draw(); });
  document.getElementById("unfold").addEventListener("click", () => { folded.clear(); draw(); });
  for (const head of document.querySelectorAll("#paths th")) head.addEventListener("click", () => {
    descending = sorting === head.dataset.key ? !descending : head.dataset.key !== "name";
    sorting = head.dataset.key;
    draw();
  });
  body.addEventListener("keydown", onRowKey);
  document.addEventListener("keydown", onEscape);
  const more = document.getElementById("more");
  more.addEventListener("click", () => moreRows());
  new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && moreRows(), { rootMargin: "600px" }).observe(more);
  draw();
  followLink();
  window.addEventListener("hashchange", followLink);
}
