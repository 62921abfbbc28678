/* ---- how working sets grow along a parameter, and the caches that they leave */

function cachePlot() {
  const place = document.getElementById("cache-plot"), plot = data.caches;
  if (!place || !plot) return;
  const width = 700, height = 320, left = 70, right = 190, bottom = 34;
  const lines = plot.lines.filter(([, sizes]) => sizes.some((size) => size !== null));
  const x = scale(plot.values, left, width - right);
  const y = scale([...plot.caches.map(([, size]) => size / 2), ...plot.caches.map(([, size]) => size * 2), ...lines.flatMap(([, sizes]) => sizes)].filter((size) => size > 0), height - bottom, 8);
  const drawing = svg(width, height, `working sets over ${plot.parameter}`);
  for (const tick of x.ticks) drawing.append(label(x.at(tick), height - bottom + 15, short(tick, 6)));
  for (const [name, size] of plot.caches) drawing.append(make("line", { class: "target", x1: left, x2: width - right, y1: y.at(size), y2: y.at(size) }), label(left + 4, y.at(size) - 4, name, "start"));
  const edge = x.at(plot.largest);
  if (edge < width - right - 1) drawing.append(make("line", { class: "border", x1: edge, x2: edge, y1: 8, y2: height - bottom }), label(edge - 4, height - bottom - 6, "measured up to here", "end"));
  const labels = [];
  for (const [name, sizes] of lines) {
    const known = sizes.flatMap((size, k) => size === null ? [] : [[x.at(plot.values[k]), y.at(size)]]);
    drawing.append(make("path", { class: "curve", d: `M${known.map((at) => at.map((part) => part.toFixed(1)).join(",")).join("L")}` }, make("title", {}, name)));
    labels.push([known[known.length - 1][1], name]);
  }
  labels.sort((a, b) => a[0] - b[0]);
  let lowest = 0;
  for (const [at, name] of labels) {
    lowest = Math.max(at + 4, lowest + 13);
    drawing.append(make("text", { x: width - right + 6, y: lowest, class: "name" }, name.length > 28 ? `…${name.slice(-27)}` : name, make("title", {}, name)));
  }
  drawing.append(label((left + width - right) / 2, height - 4, `${plot.parameter}${x.logarithmic ? " (logarithmic)" : ""}`));
  place.append(make("figure", {}, drawing, caption("largest working set of each call path in the table, in bytes; dashed: the caches")));
}

cachePlot();
