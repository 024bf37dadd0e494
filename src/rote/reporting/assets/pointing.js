// Finds the checkpoint nearest to a mouse pointer or finger.

const FIELDS = {
  regions: ["zeta", "train"], zeta: ["step", "zeta"], noisy: ["step", "noisy"], before: ["train", "test"], after: ["train", "test"],
};
const REACH = { mouse: 10, touch: 28 };
let pointer = "mouse";

function setUpPointing(payload, name, view) {
  const container = document.getElementById("chart-" + name);
  container.addEventListener("pointerdown", (event) => { pointer = event.pointerType === "mouse" ? "mouse" : "touch"; });
  if (!Object.hasOwn(FIELDS, name)) {
    // On touch screens a tap shows the tooltip.
    view.addEventListener("click", (event, item) => showHint(event, item && item.tooltip ? Object.entries(item.tooltip) : []));
    return;
  }
  const hintAt = (event, record) => (record ? showHint(event, hintOf(payload, record, name), record.run) : hideHint());
  container.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse" || event.buttons) return;
    const record = nearest(container, name, view, event, REACH.mouse);
    container.classList.toggle("pointed", record !== null);
    hintAt(event, record);
  });
  container.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hideHint());
  container.addEventListener("click", (event) => {
    const record = nearest(container, name, view, event, REACH[pointer]);
    choose(payload, record ? payload.columns.run[record.row] : null);
    hintAt(event, record);
  });
}

function setUpHiding() {
  document.addEventListener("pointerdown", (event) => event.target.closest(".chart") || hideHint());
  document.addEventListener("scroll", hideHint, { passive: true, capture: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideHint());
}

// A tooltip has five lines: the step, the drawn value, and the most informative metrics.
const LINES = 5;

function hintOf(payload, record, chart) {
  const own = payload.own[FIELDS[chart][1]];
  const others = payload.metrics.filter(([field]) => !own || field !== own[0]);
  const metrics = (own ? [own, ...others] : others).map(([field, label, unit]) => [label, valueOf(payload, field, record.row), unit]);
  const known = metrics.filter(([, value]) => value !== null);
  const lines = known.map(([label, value, unit]) => [label, unit === "share" ? percents(value) : digits(value)]);
  return [["step", record.step.toLocaleString("en")], ...lines].slice(0, LINES);
}

function nearest(container, name, view, event, reach) {
  const [across, upwards] = FIELDS[name];
  const [x, y] = [view.scale("x"), view.scale("y")];
  const corner = container.querySelector("svg, canvas").getBoundingClientRect();
  const { left, top } = view.padding();
  const [shiftX, shiftY] = view.origin();
  const atX = event.clientX - corner.left - left - shiftX;
  const atY = event.clientY - corner.top - top - shiftY;
  let [found, least] = [null, reach * reach];
  for (const record of view.data("checkpoints")) {
    if (!isDrawn(name, record)) continue;
    const distance = (x(record[across]) - atX) ** 2 + (y(record[upwards]) - atY) ** 2;
    if (distance <= least) [found, least] = [record, distance];
  }
  return found;
}

function isDrawn(name, record) {
  if (FIELDS[name].some((field) => record[field] === null)) return false;
  if (name === "before") return record.zeta !== null;
  return name !== "after" || Boolean(record.kept);
}
