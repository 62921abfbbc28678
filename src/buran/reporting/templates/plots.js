/* ---- plots of one call path, or of the whole program */

const DOTS = ["point", "point tests", "point estimated"];

/* Where along a line through one point a parameter alone differs. */
const onCut = (point, through, free) => point.every((value, i) => free.includes(i) || value === through[i]);

/* The plots along one parameter: the cut through the most measured points, and where this one misses the target, the cut
   through the target. `curves` are by cut, band and parameter, `goal` is the prediction at the target with its interval. */
function cuts(curves, measured, parameter, what, goal, ...size) {
  const through = data.cuts[parameter], [width, height, others = []] = size;
  const drawn = (cut, at, to) => curve(curves[cut], measured, parameter, at, what, to, width, height, [], others.map((row) => [row, paths[row].curves[cut][0][parameter]]));
  const atTarget = drawn(1, data.target, goal);
  return onCut(data.target, through, [parameter]) ? [atTarget] : [drawn(0, through, []), atTarget];
}

/* Call paths whose curves are drawn in the plots of others, too; each keeps its colour. */
const pinned = new Set();
const MOST_PINNED = 6;

/* A curve with its interval along one parameter through a point; `measured` has a point, median, least, most and a kind. */
function curve(curves, measured, parameter, through, what, goal, width = 340, height = 220, ideal = [], compared = []) {
  const left = 62, bottom = 34;
  const axis = data.axes[parameter], [middle, lower, upper] = curves.map((each) => each[parameter]);
  const on = measured.filter(([point]) => onCut(point, through, [parameter]));
  const heights = [...middle, ...lower, ...upper, ...goal, ...ideal, ...compared.flatMap(([, values]) => values), ...on.flatMap((each) => each.slice(1, 4))].filter((value) => value !== null);
  const x = scale([...axis, ...on.map(([point]) => point[parameter])], left, width - 12);
  const y = scale(heights.map((value) => Math.max(value, 0)), height - bottom, 20);
  const drawing = svg(width, height, `${what} over ${data.parameters[parameter]}`);
  for (const tick of measuredTicks(parameter, x)) drawing.append(label(x.at(tick), height - bottom + 15, coordinate(tick)));
  for (const tick of y.ticks) drawing.append(make("line", { class: "axis", x1: left, x2: width - 12, y1: y.at(tick), y2: y.at(tick) }), label(left - 6, y.at(tick) + 4, short(tick), "end"));
  const line = (values, missing) => values.map((value, k) => `${x.at(axis[k]).toFixed(1)},${y.at(value ?? missing).toFixed(1)}`);
  if (lower.length) drawing.append(make("path", { class: "band", d: `M${line(lower, y.low).join("L")}L${line(upper, y.high).reverse().join("L")}Z` }));
  if (ideal.length) drawing.append(make("path", { class: "ideal", d: `M${line(ideal, 0).join("L")}` }, make("title", {}, "ideal")));
  compared.forEach(([row, values], kind) => drawing.append(make("path", { class: `compared line-${kind + 1}`, d: `M${line(values, 0).join("L")}` }, make("title", {}, paths[row].name))));
  drawing.append(make("path", { class: "curve", d: `M${line(middle, 0).join("L")}` }));
  const [at, least, most] = goal, right = x.at(data.target[parameter]);
  if (goal.length) drawing.append(make("line", { class: "target", x1: right, x2: right, y1: 20, y2: height - bottom }));
  if (at !== null && at !== undefined) {
    if (least !== null && most !== null) drawing.append(make("line", { class: "reach", x1: right, x2: right, y1: y.at(least), y2: y.at(most) }));
    drawing.append(make("path", { class: "goal", d: `M${right - 5},${y.at(at)}l5,-5l5,5l-5,5Z` },
      make("title", {}, `${nameOf(data.target)}: ${short(at, 4)}${least === null || most === null ? "" : ` (${short(least)} … ${short(most)})`}, predicted`)));
  }
  for (const [point, median, least, most, kind] of on) {
    const at = x.at(point[parameter]);
    drawing.append(make("line", { class: "reach", x1: at, x2: at, y1: y.at(least), y2: y.at(most) }),
      make("circle", { class: DOTS[kind], cx: at, cy: y.at(median), r: 3.5 },
        make("title", {}, `${nameOf(point)}: ${short(median, 4)} (${short(least, 4)} … ${short(most, 4)})${kind === 2 ? ", from instrumented runs" : ""}`)));
  }
  drawing.append(label((left + width) / 2, height - 4, `${data.parameters[parameter]}${x.logarithmic ? " (logarithmic)" : ""}`));
  if (y.logarithmic) drawing.append(label(left, 12, "logarithmic", "start"));
  const others = fixed(through, parameter), points = on.length ? "" : "; nothing was measured there";
  return make("figure", {}, drawing, caption(`${what}${others ? ` at ${others}` : ", all measured points"}${goal.length ? "; diamond: at the target" : ""}${ideal.length ? "; dashed: ideal" : ""}${points}`, ...compared.map(([row], kind) => make("span", { class: `key line-${kind + 1}` }, paths[row].short))));
}

/* Speed-up over the fewest ranks and threads, S(p) = T(p_0) / T(p), next to the ideal p / p_0; where each rank has work of its
   own the same ratio is the efficiency, whose ideal is 1. T(p_0) is the model's, for measurements too. */
function speedups(curves, measured, parameter, goal, ...size) {
  if (!data.parallel.includes(parameter)) return [];
  const divided = !data.efficiency || data.efficiency.divided, name = divided ? "speed-up" : "efficiency (weak scaling)";
  const drawn = (of, through, at) => {
    const axis = data.axes[parameter], first = of[0][parameter][0], faster = (time) => time > 0 ? first / time : null;
    if (!(first > 0) || !(axis[0] > 0)) return "";
    const [middle, lower, upper] = of.map((each) => ({ [parameter]: each[parameter].map(faster) }));
    const points = measured.filter(([, median]) => median > 0).map(([point, median, least, most, kind]) => [point, faster(median), faster(most), faster(least), kind]);
    const ideal = axis.map((value) => divided ? value / axis[0] : 1);
    return curve([middle, upper, lower], points, parameter, through, name, at.length ? [faster(at[0]), faster(at[2]), faster(at[1])] : [], ...size, ideal);
  };
  const through = data.cuts[parameter], atTarget = drawn(curves[1], data.target, goal);
  return onCut(data.target, through, [parameter]) ? [atTarget] : [drawn(curves[0], through, []), atTarget];
}

const measuredOf = (path) => path.measured.length ? data.points.flatMap((point, k) => path.measured[0][k] === null ? [] : [[point, ...path.measured.map((each) => each[k]), 0]]) : [];

function residuals(path) {
  const width = 340, height = 220, left = 62, bottom = 34;
  const known = data.points.flatMap((point, k) => path.residuals[k] === null || path.measured[0][k] === null ? [] : [[point, path.measured[0][k], path.residuals[k]]]);
  if (!known.length) return "";
  const reach = Math.max(...known.map((each) => Math.abs(each[2])), 1);
  const x = scale(known.map((each) => each[1]), left, width - 12), y = scale([-reach, reach], height - bottom, 8);
  const drawing = svg(width, height, "residuals");
  for (const tick of roundTicks(-reach, reach)) drawing.append(make("line", { class: tick ? "axis" : "zero", x1: left, x2: width - 12, y1: y.at(tick), y2: y.at(tick) }), label(left - 6, y.at(tick) + 4, `${short(tick, 2)} %`, "end"));
  for (const tick of x.ticks) drawing.append(label(x.at(tick), height - bottom + 15, short(tick)));
  for (const [point, value, gap] of known) drawing.append(make("circle", { class: "residual", cx: x.at(value), cy: y.at(gap), r: 3 },
    make("title", {}, `${nameOf(point)}: measured ${short(value, 4)}, ${gap > 0 ? "+" : ""}${short(gap, 3)} % of the model`)));
  drawing.append(label((left + width) / 2, height - 4, `measured, ${unit}${x.logarithmic ? " (logarithmic)" : ""}`));
  return make("figure", {}, drawing, caption("residuals: measured against the model, all points"));
}

function factsOf(path) {
  const facts = make("dl");
  const say = (name, text) => text && facts.append(make("dt", {}, name), make("dd", {}, text));
  say("source", path.source.startsWith("/") ? make("a", { href: encodeURI(`vscode://file${path.source}`), title: "open in VS Code" }, path.source) : path.source);
  say("model", path.model || "none: too few measurements, or only zeros");
  say(`at ${nameOf(data.target)}`, path.at === null ? path.model && "not known: its model says far more than counts allow" : `${short(path.at, 4)} ${unit}, ${path.share === null ? "in no share, as it starts or ends MPI" : `${percent(path.share)} of all`}; ` +
    (path.low === null || path.high === null ? "no interval: too few points" : `interval ${short(path.low)} … ${short(path.high)}`));
  say("dominant term", path.grows);
  say("prior from counts", path.prior);
  say("from times alone", path.times_alone);
  say("waiting", path.waiting);
  for (const [metric, model] of Object.entries(path.others)) say(metric.replaceAll("_", " "), model);
  for (const note of path.notes) say("note", note);
  if (!path.curves && path.model) say("plots", "only of the largest call paths, to keep this page small");
  return facts;
}

function plotsOf(path) {
  const plots = make("div", { class: "plots" });
  if (!path.curves) return plots;
  const measured = measuredOf(path), others = [...pinned].filter((row) => paths[row].name !== path.name).slice(0, MOST_PINNED);
  data.parameters.forEach((_, k) => data.axes[k].length > 1 && plots.append(...cuts(path.curves, measured, k, data.metric, [path.at, path.low, path.high], 340, 220, others),
    ...(data.metric === "time" ? speedups(path.curves, measured, k, [path.at, path.low, path.high], 340, 220) : [])));
  if (path.residuals.length) plots.append(residuals(path));
  return plots;
}
