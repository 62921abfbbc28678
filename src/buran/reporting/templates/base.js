"use strict";
const data = unpacked(JSON.parse(document.getElementById("data").textContent));
const paths = data.paths, unit = data.unit === "sec" ? "s" : data.unit;
const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "path", "line", "circle", "rect", "text", "title"]);

/* Call paths come as columns, and each name of a region once. */
function unpacked(packed) {
  const { regions, region, plots, ...columns } = Array.isArray(packed.paths) ? { regions: [], region: [], plots: {} } : packed.paths;
  const rows = region.map((number, i) => {
    const row = { own: regions[number][0], short: regions[number][1], source: regions[number][2], ...plots[i] };
    for (const key in columns) row[key] = columns[key][i];
    return row;
  });
  for (const row of rows) { // callers that are not named yet first, without recursion: trees may be deep
    const open = [];
    for (let at = row; at && at.name === undefined; at = rows[at.parent]) open.push(at);
    for (const at of open.reverse()) at.name = at.parent < 0 ? at.own : `${rows[at.parent].name}->${at.own}`;
  }
  return { ...packed, paths: rows };
}

/* Give the reader a file. */
function save(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/* A drawing as a file of its own: what the page's style says stands in each element. */
const PAINTED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-family"];
function svgText(drawing) {
  const copy = drawing.cloneNode(true), parts = drawing.querySelectorAll("*");
  copy.setAttribute("xmlns", SVG);
  copy.querySelectorAll("*").forEach((part, k) => {
    const style = getComputedStyle(parts[k]);
    for (const key of PAINTED) part.style.setProperty(key, style.getPropertyValue(key));
  });
  return new XMLSerializer().serializeToString(copy);
}

/* What stands below a figure, and a button that saves its drawing. */
function caption(text, ...keys) {
  const button = make("button", { type: "button", class: "save screen", title: "save this drawing" }, "SVG");
  button.addEventListener("click", () => save(`${document.title}.svg`, "image/svg+xml", svgText(button.closest("figure").querySelector("svg"))));
  return make("figcaption", {}, `${text} `, ...keys.flatMap((key) => [key, " "]), button);
}

function make(tag, attributes = {}, ...children) {
  const node = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
  node.append(...children); // texts become text, never markup
  return node;
}
function short(value, digits = 3) {
  if (data.words?.[value]) return data.words[value];
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 1).replace(/\.?0+e/, "e") : String(Number(value.toPrecision(digits)));
}
const percent = (share) => share === null ? "–" : `${(100 * share).toFixed(1)} %`;
const coordinate = (value) => Number.isInteger(value) && Math.abs(value) < 1e9 && !data.words?.[value] ? String(value) : short(value, 6);
const nameOf = (values) => data.parameters.map((name, i) => `${name}=${coordinate(values[i])}`).join(", ");
const fixed = (values, parameter) => data.parameters.flatMap((name, i) => i === parameter ? [] : [`${name}=${coordinate(values[i])}`]).join(", ");
const label = (x, y, text, anchor = "middle") => make("text", { x, y, "text-anchor": anchor }, text);
const svg = (width, height, what) => make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": what },
  ...(data.simulated && width > 100 ? [label(width - 12, 12, "simulated machine", "end")] : []));

function scale(values, from, to) {
  const finite = values.filter((value) => value !== null && Number.isFinite(value));
  let low = Math.min(...finite), high = Math.max(...finite);
  const logarithmic = low > 0 && high / low > 8;
  if (low === high) { low -= Math.abs(low) / 2 || 0.5; high += Math.abs(high) / 2 || 0.5; }
  const unit = (value) => logarithmic ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  const at = (value) => from + (to - from) * Math.min(Math.max(unit(value), 0), 1);
  const ticks = logarithmic ? logarithmicTicks(low, high) : roundTicks(low, high);
  return { at, ticks, logarithmic, low, high };
}
/* Three to six round numbers between the ends. */
function roundTicks(low, high) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5].find((each) => each * power >= rough) ?? 10), ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k += 1) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}
/* Powers of ten, every so many that at most six are left; 1, 2 and 5 times them where there are few. */
function logarithmicTicks(low, high) {
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high)), step = Math.ceil((to - from) / 6), ticks = [];
  for (let power = from; power <= to; power += step) for (const each of to - from > 2 ? [1] : [1, 2, 5]) ticks.push(Number((each * 10 ** power).toPrecision(3)));
  return ticks.filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
}
/* Ticks at values that were measured, if they do not crowd; else evenly. */
function measuredTicks(parameter, x) {
  const values = [...new Set(data.points.map((point) => point[parameter]).concat(data.target[parameter]))].filter((value) => value >= x.low - Math.abs(x.low) / 1000 && value <= x.high + Math.abs(x.high) / 1000).sort((a, b) => a - b);
  const kept = [];
  for (const value of values) if (!kept.length || Math.abs(x.at(value) - x.at(kept[kept.length - 1])) > 34) kept.push(value);
  return kept.length > 1 ? kept : x.ticks;
}
