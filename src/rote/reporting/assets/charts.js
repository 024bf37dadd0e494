// The charts: one Vega view each, in the order of the page. Charts below the fold wait until the browser is idle,
// charts in folded sections until they are opened.

const views = new Map();
const waiting = [];
const folded = new Map(); // names of charts, by their folded section
const settings = {}; // signals shared by all views
const MANY_POINTS = 3000;

function prepare(payload) {
  const containers = [...document.querySelectorAll(".chart")];
  for (const container of containers) {
    const name = container.id.replace("chart-", "");
    const fold = container.closest("details:not([open])");
    if (fold) folded.set(fold, [...(folded.get(fold) || []), name]);
    else waiting.push(name);
  }
  for (const fold of folded.keys()) fold.addEventListener("toggle", () => drawFolded(payload, fold));
  Object.assign(settings, payload.themes[theme()]);
  for (const field of payload.signals) FIELDS[field] = ["step", field];
}

async function drawInSight(payload) {
  const isSeen = (name) => document.getElementById("chart-" + name).getBoundingClientRect().top < 2 * innerHeight;
  while (waiting.length && isSeen(waiting[0])) await draw(payload, waiting.shift());
}

async function drawWhenIdle(payload) {
  const idle = () => new Promise((resolve) => (window.requestIdleCallback || setTimeout)(resolve, { timeout: 200 }));
  while (waiting.length) {
    await idle();
    if (waiting.length) await draw(payload, waiting.shift());
  }
}

async function drawFolded(payload, fold) {
  const names = folded.get(fold) || [];
  folded.delete(fold);
  for (const name of names) await draw(payload, name);
}

// Nothing in here waits for an event, so that all charts are drawn before printing.
async function drawRest(payload) {
  while (waiting.length) await draw(payload, waiting.shift());
  for (const fold of [...folded.keys()]) await drawFolded(payload, fold);
}

async function draw(payload, name) {
  const container = document.getElementById("chart-" + name);
  const spec = payload.charts[name];
  const renderer = payload.columns.run.length > MANY_POINTS ? "canvas" : "svg";
  for (const entry of spec.data) {
    // A view modifies its records, so each gets a copy.
    if (entry.name === "checkpoints") entry.values = records(payload);
    if (entry.name === "chosen_store") entry.values = choiceOf(payload, chosen);
  }
  for (const signal of spec.signals) if (signal.name in settings) signal.value = settings[signal.name];
  const tooltip = (_, event, item, value) => showHint(event, value ? Object.entries(value) : []);
  const options = { mode: "vega", actions: false, defaultStyle: false, renderer, tooltip };
  const { view } = await vegaEmbed(container, spec, options);
  views.set(name, view);
  setUpPointing(payload, name, view);
  container.dataset.drawn = renderer;
}

// Sets signals of drawn charts, and of those drawn later.
function follow(changes) {
  Object.assign(settings, changes);
  for (const view of views.values()) {
    const known = view.getState({ signals: (name) => name in changes, data: () => false }).signals;
    const names = Object.keys(known);
    if (!names.length) continue;
    for (const name of names) view.signal(name, changes[name]);
    view.run();
  }
}
