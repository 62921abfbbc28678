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
    const table = make("table"), head = make("tr", {}, make("td"), ...values[across].map((value) => make("th", { class: "number" }, `${data.parameters[across]}=${coordinate(value)}`)));
    table.append(head);
    for (const value of down === undefined ? [null] : values[down]) {
      const line = make("tr", {}, make(down === undefined ? "td" : "th", {}, down === undefined ? "" : `${data.parameters[down]}=${coordinate(value)}`));
      for (const other of values[across]) {
        const point = Object.fromEntries([...layer, [across, other], ...(down === undefined ? [] : [[down, value]])].map(([i, own]) => [data.parameters[i], own]));
        const found = state.get(own(point));
        line.append(found ? make("td", { class: `${found.state} ${found.purpose}`, title: `iteration ${found.number}, ${found.purpose}, ${found.state}` }, found.state === "failed" ? "✕" : `it. ${found.number}`) : make("td", { title: "never chosen" }, "·"));
      }
      table.append(line);
    }
    if (layer.length) place.append(make("h4", {}, layer.map(([i, value]) => `${data.parameters[i]}=${coordinate(value)}`).join(", ")));
    place.append(make("div", { class: "wide", tabindex: 0 }, table));
  }
  place.append(make("p", {}, "it. 0 is the first iteration; a dashed frame is a point that only tests predictions; ✕ failed; hatched was planned and not measured; · was never chosen."));
}

