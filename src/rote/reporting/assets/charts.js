// The charts: one Vega view each, in the order of the page. Those further down wait for an idle moment.

const views = new Map();
const waiting = [];
const settings = {}; // signals that every view follows
const MANY_POINTS = 3000;

function prepare(payload) {
  const containers = [...document.querySelectorAll(".chart")];
  waiting.push(...containers.map((container) => container.id.replace("chart-", "")));
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

// Nothing in here waits for an event: what is asked for before printing is there on paper.
async function drawRest(payload) {
  while (waiting.length) await draw(payload, waiting.shift());
}

async function draw(payload, name) {
  const container = document.getElementById("chart-" + name);
  const spec = payload.charts[name];
  const renderer = payload.columns.run.length > MANY_POINTS ? "canvas" : "svg";
  for (const entry of spec.data) {
    // A view marks the records it is given: each gets its own.
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

// Signals of those that are drawn, and of those to come.
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
