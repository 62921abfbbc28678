/* ---- on paper: what is folded is open, and the largest call paths show their plots */

const MOST_PRINTED = 5;
const opened = new Set();

function beforePrint() {
  for (const each of document.querySelectorAll("details:not([open])")) { each.open = true; opened.add(each); }
  const place = document.getElementById("printed");
  if (!place || place.children.length || document.body.classList.contains("one-page")) return;
  const largest = paths.filter((path) => path.curves).sort((a, b) => b.share - a.share).slice(0, MOST_PRINTED);
  for (const path of largest) place.append(make("section", {}, make("h3", {}, path.name), factsOf(path), plotsOf(path)));
}

function afterPrint() {
  for (const each of opened) each.open = false;
  opened.clear();
  document.getElementById("printed")?.replaceChildren();
}

window.addEventListener("beforeprint", beforePrint);
window.addEventListener("afterprint", afterPrint);
document.getElementById("one-page").addEventListener("click", () => {
  document.body.classList.add("one-page");
  window.print();
  document.body.classList.remove("one-page");
});
matrix();
if (body) {
  startTable();
  icicle();
  overview();
}
