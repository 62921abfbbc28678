/* ---- the call tree at the target: a box is as wide as its call path with all that it calls */

const MOST_LEVELS = 24, LEAST_BOX = 0.002; // of the width: less is not seen

function icicle() {
  const place = document.getElementById("icicle"), whole = roots.reduce((sum, i) => sum + shareBelow[i], 0);
  place?.replaceChildren();
  if (!place || !(whole > 0)) return;
  const width = 1180, line = 21, boxes = [], stack = [];
  let left = 0;
  for (const i of largestFirst(roots)) { stack.push([i, 0, left]); left += shareBelow[i] / whole; }
  while (stack.length) {
    const [i, level, start] = stack.pop(), part = shareBelow[i] / whole;
    if (part < LEAST_BOX || level >= MOST_LEVELS) continue;
    boxes.push([i, level, start, part]);
    let at = start;
    for (const child of largestFirst(children[i])) { stack.push([child, level + 1, at]); at += shareBelow[child] / whole; }
  }
  if (!boxes.length) return;
  const levels = 1 + Math.max(...boxes.map(([, level]) => level)), drawing = svg(width, levels * line, "call tree at the target");
  for (const [i, level, start, part] of boxes) {
    const path = paths[i], box = make("g", { class: "box", "data-path": i }), x = start * width, wide = Math.max(part * width - 1, 1), y = level * line;
    const itself = Math.min((path.share || 0) / shareBelow[i], 1);
    box.append(make("rect", { class: "callees", x, y, width: wide, height: line - 2 }), make("rect", { class: "itself", x, y: y + line - 6, width: wide * itself, height: 4 }),
      make("title", {}, `${path.name}\ninclusive ${percent(shareBelow[i])}, ${short(valueBelow[i])} ${unitShown()}\nexclusive ${percent(path.share)}, ${short(path.at)} ${unitShown()}`));
    const room = Math.floor((wide - 8) / 6.2);
    if (room > 3) box.append(make("text", { x: x + 4, y: y + 12, class: "name" }, path.short.length > room ? `${path.short.slice(0, room - 1)}…` : path.short));
    box.addEventListener("click", () => show(i));
    drawing.append(box);
  }
  place.append(make("figure", {}, make("div", { class: "wide", tabindex: 0 }, drawing),
    caption(`the call tree at ${nameOf(data.target)}: a box is as wide as the ${shownMetric.replaceAll("_", " ")} of its call path with all that it calls, the strip at its foot is its own`)));
}
