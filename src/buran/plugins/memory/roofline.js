/* ---- what the machine can, and where call paths stand: from the largest measured point (open) to the target (filled) */

function rooflinePlot() {
  const place = document.getElementById("roofline-plot"), plot = data.roofline;
  if (!place || !plot) return;
  const width = 760, height = 360, left = 70, right = 210, bottom = 40;
  const at = plot.paths.flatMap(([, places]) => places);
  const knees = plot.roofs.map(([, speed]) => plot.peak / speed);
  const x = scale([...knees.map((knee) => knee * 4), ...knees.map((knee) => knee / 30), ...at.map(([intensity]) => intensity)], left, width - right);
  const y = scale([plot.peak * 2, ...at.map(([, speed]) => speed / 2), ...plot.roofs.map(([, speed]) => speed * x.low * 4)], height - bottom, 8);
  const drawing = svg(width, height, "roofline of the machine");
  for (const tick of x.ticks) drawing.append(label(x.at(tick), height - bottom + 15, short(tick)));
  for (const tick of y.ticks) drawing.append(label(left - 6, y.at(tick) + 4, short(tick / 1e9), "end"));
  drawing.append(make("line", { class: "border", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }), make("line", { class: "border", x1: left, x2: left, y1: 8, y2: height - bottom }));
  const labels = [];
  for (const [k, [name, speed]] of plot.roofs.entries()) {
    const from = Math.max(x.low, y.low / speed), knee = Math.min(plot.peak / speed, x.high);
    drawing.append(make("line", { class: "target", x1: x.at(from), y1: y.at(speed * from), x2: x.at(knee), y2: y.at(speed * knee) }, make("title", {}, `${name}: ${short(speed / 1e9)} GB/s for a rank`)));
    const named = from * (knee / from) ** (0.9 - 0.3 * k); // one below the other
    drawing.append(make("text", { x: x.at(named) - 5, y: y.at(speed * named) - 4, "text-anchor": "end" }, name));
  }
  const first = Math.max(Math.min(...knees), x.low);
  drawing.append(make("line", { class: "target", x1: x.at(first), x2: width - right, y1: y.at(plot.peak), y2: y.at(plot.peak) }), label(width - right - 4, y.at(plot.peak) - 5, `${short(plot.peak / 1e9)} GFLOP/s`, "end"));
  for (const [name, places] of plot.paths) {
    const [from, to] = places.map(([intensity, speed]) => [x.at(intensity), y.at(speed)]);
    const said = `${name}: ${places.map(([intensity, speed, , bound], k) => `${k ? "at the target" : "measured"} ${short(speed / 1e9)} GFLOP/s, ${short(intensity)} flops per byte, bound by ${bound}`).join("; ")}`;
    drawing.append(make("line", { class: "curve", x1: from[0], y1: from[1], x2: to[0], y2: to[1] }));
    drawing.append(make("circle", { class: "curve", cx: from[0], cy: from[1], r: 4 }, make("title", {}, said)), make("circle", { class: "measured", cx: to[0], cy: to[1], r: 4 }, make("title", {}, said)));
    labels.push([to[1], to[0], name, said]);
  }
  labels.sort((a, b) => a[0] - b[0]);
  let lowest = 0;
  for (const [height_, from, name, said] of labels) {
    lowest = Math.max(height_ + 4, lowest + 13);
    drawing.append(make("line", { class: "border", x1: from + 5, y1: height_, x2: width - right + 4, y2: lowest - 4 }));
    drawing.append(make("text", { x: width - right + 6, y: lowest, class: "name" }, name.length > 30 ? `…${name.slice(-29)}` : name, make("title", {}, said)));
  }
  drawing.append(label((left + width - right) / 2, height - 4, "flops for each byte from beyond the level that takes longest (logarithmic)"));
  drawing.append(make("text", { x: 12, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${height / 2})` }, "GFLOP/s of a rank"));
  place.append(make("figure", {}, drawing, caption("call paths from the largest measured point (open) to the target (filled), those with a thousandth of the speed at least; dashed: what a rank gets of the machine at the target")));
}

rooflinePlot();
