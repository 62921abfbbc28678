/* ---- another target than the campaign's: predicted here from the models; what cannot be computed has no number */

const NOT_COMPUTED = "not computed for another target";
const own = { target: data.target, axes: data.axes, stack: data.stack, runtime: data.runtime, curves: paths.map((path) => path.curves), paths: modelled.map((path) => ({ ...path })) };
const isMoved = () => data.target !== own.target;
const withValue = (target, parameter, value) => target.map((each, i) => i === parameter ? value : each);

/* Covariances of a process at a target with its points, in units of the variance. */
function covariances({ shift, middle, inputs, lengths, trends }, at) {
  const here = at.map((value, i) => Math.log(value + shift[i]) - middle[i]), along = here.flatMap((_, i) => lengths[i] === null ? [] : [i]);
  return inputs.map((there) => {
    const gap = Math.sqrt(3 * along.reduce((sum, i) => sum + ((here[i] - there[i]) / lengths[i]) ** 2, 0));
    return (1 + gap) * Math.exp(-gap) + along.reduce((sum, i) => sum + trends[i] * here[i] * there[i], 0);
  });
}

/* What is no power of a parameter is known at the values of sliders alone. */
function inTable([columns, values], at) {
  let place = 0;
  for (const i of columns) {
    const stops = data.formulas.stops[i] ?? [own.target[i]], here = stops.indexOf(at[i]);
    if (here < 0) return NaN;
    place = place * stops.length + here;
  }
  return values[place] ?? NaN;
}

/* Values of all models at a target; parts of sums stand before these. */
function valuesAt(at) {
  const { terms, tables, processes, models } = data.formulas, values = [], table = tables.map((each) => inTable(each, at));
  const factor = ([i, power, log]) => power === undefined ? table[i] : at[i] ** power * (log ? Math.log2(at[i]) ** log : 1);
  const term = terms.map((factors) => factors.reduce((product, each) => product * factor(each), 1));
  const near = processes.map((process) => covariances(process, at));
  for (const [constant, coefficients, drift, parts, signed] of models) {
    let value = coefficients.reduce((sum, [k, coefficient]) => sum + coefficient * term[k], constant);
    if (drift) value *= Math.exp(drift[2].reduce((sum, pull, k) => sum + pull * near[drift[0]][k], drift[1]));
    if (parts.length) value = parts.reduce((sum, part) => sum + values[part], 0);
    values.push(signed ? value : Math.max(value, 0));
  }
  return values;
}
const valueOf = (values, number) => number === null || !Number.isFinite(values[number]) ? null : values[number];

function axisTo(parameter, value) {
  const last = Math.max(data.formulas.most[parameter], value), stops = data.formulas.stops[parameter] ?? [];
  return [...new Set([...stops.filter((stop) => stop <= last), value])].sort((a, b) => a - b);
}

/* Let tables and plots show the predictions at a target, where `whole` is the run time. */
function moveTo(target) {
  const { rows, total, beyond, total_beyond: lost } = data.formulas, isFar = target.some((value, i) => value > own.target[i]);
  data.target = target.every((value, i) => value === own.target[i]) ? own.target : target;
  Object.assign(data, { axes: own.axes, stack: own.stack, runtime: own.runtime });
  paths.forEach((path, i) => { if (path.curves) path.curves = own.curves[i]; Object.assign(modelled[i], own.paths[i]); });
  if (!isMoved()) return;
  data.axes = target.map((value, i) => axisTo(i, value));
  const unknown = new Set(isFar ? beyond : []), here = valuesAt(target), blank = target.map(() => []);
  const along = data.axes.map((axis, i) => axis.map((value) => valuesAt(withValue(target, i, value))));
  const row = (values, i) => unknown.has(i) ? null : valueOf(values, rows[i]);
  const counted = paths.flatMap((_, i) => own.paths[i].share === null || own.paths[i].at === null || unknown.has(i) ? [] : [i]);
  const added = (values) => counted.reduce((sum, i) => sum + row(values, i), 0), whole = added(here);
  const isWhole = !data.left_out && counted.every((i) => row(here, i) !== null) && whole > 0;
  paths.forEach((path, i) => {
    const at = row(here, i), isKnown = own.paths[i].share !== null && !unknown.has(i);
    Object.assign(modelled[i], { at, low: null, high: null, share: isWhole && isKnown ? (at ?? 0) / whole : null, none: own.paths[i].at === null || unknown.has(i) ? undefined : "not computed" });
    if (path.curves) path.curves = [own.curves[i][0], at === null ? null : [along.map((each) => each.map((values) => row(values, i))), blank, blank]];
  });
  data.stack = isWhole ? { rows: own.stack.rows, values: along.map((each) => own.stack.rows.map((i) => each.map((values) => row(values, i) ?? 0))), total: along.map((each) => each.map(added)) } : { rows: [], values: [], total: [] };
  const seconds = isFar && lost ? null : valueOf(here, total), curves = seconds === null ? null : [along.map((each) => each.map((values) => valueOf(values, total))), blank, blank];
  if (own.runtime.curves.length) data.runtime = { ...own.runtime, curves: [own.runtime.curves[0], curves], at: [seconds, null, null] };
}

function showTarget() {
  const [seconds, low, high] = data.runtime.at, where = isMoved() ? nameOf(data.target) : `${nameOf(data.target)}, the campaign's target`;
  const reach = isMoved() ? `; intervals are ${NOT_COMPUTED}` : low === null || high === null || low === undefined ? "" : `, interval ${short(low)} … ${short(high)} s`;
  const time = own.runtime.at.length ? `predicted run time ${seconds === null ? NOT_COMPUTED : `${short(seconds, 4)} s`}` : "";
  const missing = modelled.filter((path) => path.at === null && path.none).length, shares = modelled.some((path) => path.share !== null) ? "" : `; shares are ${NOT_COMPUTED}`;
  document.getElementById("aimed").textContent = `At ${where}: ${time || "no run time is predicted"}${reach}${missing ? `; ${missing} call path${missing === 1 ? " is" : "s are"} ${NOT_COMPUTED}${data.formulas.tables.length ? ", or only at values of the sliders" : ""}` : ""}${shares}.`;
  document.getElementById("shown-target").textContent = nameOf(data.target);
  for (const each of document.querySelectorAll("#aim .slider")) each.update();
}

function aim(target) {
  const detail = document.getElementById("detail"), top = detail.scrollTop;
  moveTo(target);
  showMetric(shownMetric);
  overview();
  showTarget();
  if (chosen !== null) { show(chosen); detail.scrollTop = top; }
}

/* A slider along the values of a parameter, with a box for any value between its ends. */
function slider(parameter) {
  const stops = data.formulas.stops[parameter], name = data.parameters[parameter], last = stops[stops.length - 1];
  const range = make("input", { type: "range", min: 0, max: stops.length - 1 });
  const box = make("input", { type: "number", min: stops[0], max: last, step: "any", "aria-label": `${name} as a number` });
  const to = (value) => aim(withValue(data.target, parameter, Math.min(Math.max(value, stops[0]), last)));
  range.addEventListener("input", () => to(stops[range.value]));
  box.addEventListener("change", () => to(Number.isFinite(box.valueAsNumber) ? box.valueAsNumber : own.target[parameter]));
  const both = make("span", { class: "slider" }, make("label", {}, `${name} `, range), " ", box);
  both.update = () => {
    const value = data.target[parameter];
    range.value = stops.reduce((best, stop, k) => Math.abs(stop - value) < Math.abs(stops[best] - value) ? k : best, 0);
    range.setAttribute("aria-valuetext", `${name}=${short(value, 6)}`);
    box.value = value;
  };
  return both;
}

function startTarget() {
  const place = document.getElementById("aim"), varied = data.parameters.flatMap((_, i) => data.formulas.stops[i] ? [i] : []);
  if (!varied.length) return;
  const reset = make("button", { type: "button", title: "back to the campaign's target" }, "Reset");
  reset.addEventListener("click", () => aim(own.target));
  place.append(...varied.map(slider), reset, make("span", { id: "aimed", role: "status" }));
  place.hidden = false;
  showTarget();
}
