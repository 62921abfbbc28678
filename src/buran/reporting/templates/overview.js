/* ---- at first sight: what the time is made of on the way to the target, and the run time with what was measured */

const KINDS = 7; // colours of the largest call paths, the last one for all others

function stacked(parameter) {
  const { rows, values, total } = data.stack, axis = data.axes[parameter], sums = total[parameter];
  const width = 460, height = 240, left = 44, bottom = 34;
  const x = scale(axis, left, width - 12), y = (share) => height - bottom - share * (height - bottom - 8);
  const drawing = svg(width, height, `shares over ${data.parameters[parameter]}`);
  let floor = axis.map(() => 0);
  const layers = rows.map((row, k) => [row, values[parameter][k]]);
  layers.push([null, axis.map((_, k) => sums[k] - values[parameter].reduce((sum, each) => sum + each[k], 0))]);
  layers.forEach(([row, own], kind) => {
    const roof = floor.map((share, k) => Math.min(share + (sums[k] > 0 ? Math.max(own[k], 0) / sums[k] : 0), 1));
    const line = (shares) => shares.map((share, k) => `${x.at(axis[k]).toFixed(1)},${y(share).toFixed(1)}`);
    const area = make("path", { class: `kind-${row === null ? KINDS : kind + 1}`, d: `M${line(floor).join("L")}L${line(roof).reverse().join("L")}Z` },
      make("title", {}, row === null ? "all others" : paths[row].name));
    if (row !== null) area.addEventListener("click", () => show(row));
    drawing.append(area);
    floor = roof;
  });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) drawing.append(make("line", { class: "grid", x1: left, x2: width - 12, y1: y(share), y2: y(share) }), label(left - 6, y(share) + 4, `${100 * share} %`, "end"));
  const measured = x.at(data.largest[parameter]);
  if (data.target[parameter] > data.largest[parameter]) drawing.append(make("line", { class: "border", x1: measured, x2: measured, y1: 8, y2: height - bottom }, make("title", {}, "largest measured value")));
  for (const tick of measuredTicks(parameter, x)) drawing.append(label(x.at(tick), height - bottom + 15, coordinate(tick)));
  drawing.append(label((left + width) / 2, height - 4, `${data.parameters[parameter]}${x.logarithmic ? " (logarithmic)" : ""}`));
  const others = fixed(data.target, parameter);
  return make("figure", {}, drawing, caption(`share of the predicted ${data.metric}${others ? ` at ${others}` : ""}` +
    (data.target[parameter] > data.largest[parameter] ? "; dashed: largest measured value" : "")));
}

function legend(parameter) {
  const { rows, values, total } = data.stack, list = make("ul", { class: "legend" }), sums = total[parameter], last = sums.length - 1;
  const share = (own, k) => sums[k] > 0 ? `${Math.round(100 * Math.max(own[k], 0) / sums[k])} %` : "–";
  const entry = (kind, name, title, own, action) => {
    const line = make("li", { title }, make("span", { class: `mark kind-${kind}` }), make(action ? "button" : "span", action ? { type: "button", class: "link" } : {}, name),
      make("span", { class: "shift" }, `${share(own, 0)} → ${share(own, last)}`));
    if (action) line.querySelector("button").addEventListener("click", action);
    list.prepend(line);
  };
  const names = distinct(rows);
  rows.forEach((row, kind) => entry(kind + 1, names[kind], paths[row].name, values[parameter][kind], () => show(row)));
  entry(KINDS, "all others", "", sums.map((sum, k) => sum - values[parameter].reduce((all, each) => all + each[k], 0)), null);
  return list;
}

/* The name of a row with some of its callers, those between left out. Many call the same MPI operation: one caller tells which one is meant. */
function named(row, callers) {
  const names = [];
  for (let at = row, left = callers + (paths[row].short.startsWith("MPI_") ? 1 : 0); at >= 0 && left >= 0; at = paths[at].parent, left -= 1) names.unshift(paths[at].short);
  if (names.length > 3) names.splice(1, names.length - 2, "…");
  return names.join(" → ");
}

/* Names of rows, with as many callers as tell equal names apart. */
function distinct(rows) {
  const callers = rows.map(() => 0), deep = Math.max(...rows.map((row) => paths[row].name.split("->").length));
  let names = rows.map((row) => named(row, 0));
  for (let round = 0; round < deep && new Set(names).size < names.length; round += 1) {
    const same = names.map((name) => names.indexOf(name) !== names.lastIndexOf(name));
    names = rows.map((row, k) => named(row, callers[k] += same[k] ? 1 : 0));
  }
  return names;
}

function overview() {
  const place = document.getElementById("overview"), varied = data.parameters.map((_, i) => i).filter((i) => data.axes[i].length > 1);
  if (!varied.length || !data.stack.rows.length) return;
  const tools = make("div", { class: "tools" }), plots = make("div", { class: "plots" });
  const choose = (parameter) => {
    for (const button of tools.children) button.setAttribute("aria-pressed", String(Number(button.dataset.parameter) === parameter));
    plots.replaceChildren(stacked(parameter), legend(parameter),
      ...(data.runtime.curves.length ? cuts(data.runtime.curves, data.runtime.measured, parameter, "run time in s", data.runtime.at, 400, 240) : []),
      ...(data.runtime.curves.length ? speedups(data.runtime.curves, data.runtime.measured, parameter, data.runtime.at, 400, 240) : []));
  };
  for (const parameter of varied) {
    const button = make("button", { type: "button", "data-parameter": parameter }, `along ${data.parameters[parameter]}`);
    button.addEventListener("click", () => choose(parameter));
    tools.append(button);
  }
  place.replaceChildren(tools, plots);
  choose(varied[0]);
}
