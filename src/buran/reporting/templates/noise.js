/* ---- how much repetitions differ: for each of the largest call paths, and over time */

const MOST_VIOLINS = 12;

function violins() {
  const known = paths.filter((path) => path.noise).sort((a, b) => b.share - a.share).slice(0, MOST_VIOLINS);
  if (!known.length) return "";
  const width = 590, left = 230, line = 26, height = known.length * line + 40;
  const ends = known.flatMap((path) => [Math.abs(path.noise.quantiles[0]), Math.abs(path.noise.quantiles[4])]).sort((a, b) => a - b);
  const reach = Math.max(1.2 * ends[Math.floor(0.9 * (ends.length - 1))], 0.1);
  const x = scale([-reach, reach], left, width - 16), drawing = svg(width, height, "noise of the largest call paths");
  for (const tick of roundTicks(-reach, reach)) drawing.append(make("line", { class: tick ? "axis" : "zero", x1: x.at(tick), x2: x.at(tick), y1: 4, y2: height - 30 }), label(x.at(tick), height - 14, `${short(tick, 2)} %`));
  const names = distinct(known.map((path) => paths.indexOf(path)));
  known.forEach((path, k) => {
    const y = 4 + line * (k + 0.5), text = names[k];
    drawing.append(make("text", { x: left - 10, y: y + 4, "text-anchor": "end", class: "name" }, text.length > 34 ? `…${text.slice(-33)}` : text, make("title", {}, path.name)), violin(path.noise, x, y, line - 5));
  });
  return make("figure", {}, drawing, caption(`${known.length === 1 ? "the largest call path" : `the ${known.length} largest call paths`}; shapes reach beyond the plot where they end at its border`));
}

function overTime() {
  const { runs, left_out: leftOut, drift } = data.over_time;
  if (!runs.length) return "";
  const width = 590, height = 290, left = 62, bottom = 34;
  const sizes = runs.map((run) => Math.abs(run[1])).sort((a, b) => a - b);
  const reach = Math.max(1.2 * sizes[Math.floor(0.98 * (sizes.length - 1))], 0.1);
  const span = Math.max(...runs.map((run) => run[0]), 1), hours = span > 180;
  const x = scale([0, span], left, width - 16), y = scale([-reach, reach], height - bottom, 8), drawing = svg(width, height, "run times over the campaign");
  for (const tick of roundTicks(-reach, reach)) drawing.append(make("line", { class: tick ? "axis" : "zero", x1: left, x2: width - 16, y1: y.at(tick), y2: y.at(tick) }), label(left - 6, y.at(tick) + 4, `${short(tick, 2)} %`, "end"));
  for (const tick of x.ticks) drawing.append(label(x.at(tick), height - bottom + 15, short(hours ? tick / 60 : tick, 2)));
  drawing.append(label((left + width) / 2, height - 4, `${hours ? "hours" : "minutes"} since the first run`));
  const kinds = { vanilla: "baseline", time: "for time", effort: "for counts" };
  const marks = { vanilla: (a, b) => make("circle", { cx: a, cy: b, r: 3.2 }), time: (a, b) => make("rect", { x: a - 2.6, y: b - 2.6, width: 5.2, height: 5.2 }),
    effort: (a, b) => make("path", { d: `M${a} ${b - 3.4}L${a + 3.2} ${b + 2.4}L${a - 3.2} ${b + 2.4}Z` }) };
  for (const [minute, gap, mode, disturbed] of runs) {
    const mark = marks[mode](x.at(minute), y.at(gap));
    mark.setAttribute("class", `run-${mode}${disturbed ? " disturbed" : ""}`);
    mark.append(make("title", {}, `${kinds[mode]}, minute ${short(minute)}: ${gap > 0 ? "+" : ""}${short(gap)} %${disturbed ? "; the machine was not idle" : ""}`));
    drawing.append(mark);
  }
  const list = make("ul", { class: "legend flat" }, ...Object.entries(kinds).filter(([mode]) => runs.some((run) => run[2] === mode)).map(([mode, name]) => {
    const key = svg(12, 12, name), mark = marks[mode](6, 6);
    mark.setAttribute("class", `run-${mode}`);
    key.append(mark);
    return make("li", {}, key, name);
  }));
  const disturbed = runs.filter((run) => run[3]).length;
  if (disturbed) list.append(make("li", {}, `hollow: the machine was not idle (${disturbed} of ${runs.length} runs)`));
  const said = drift ? `From the first to the last repetition of a point, up to ${short(drift.minutes, 2)} minutes apart, baseline runs change by ${drift.percent >= 0 ? "+" : "−"}${short(Math.abs(drift.percent), 2)} ± ${short(drift.error, 2)} %: ${drift.sure ? "the machine drifts." : "no drift that is larger than chance."}`
    : "Too few baseline runs to decide whether the machine drifts.";
  return make("figure", {}, drawing, list, caption(`each run against the median of its build at its point${leftOut ? `; ${leftOut} more runs are not shown` : ""}. ${said}`));
}

function noise() {
  const place = document.getElementById("noise-plots");
  if (place) place.append(make("div", { class: "plots" }, violins(), overTime()));
}
