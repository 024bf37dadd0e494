// The charts: one Vega view each, over the same records, with one chosen run and one theme.

const views = new Map();
const MANY_POINTS = 3000;

async function draw(payload) {
  const rows = records(payload);
  const renderer = rows.length > MANY_POINTS ? "canvas" : "svg";
  const names = [["run", "run"], ["step", "step"], ...payload.metrics];
  const tooltip = (_, event, item, value) => showHint(event, hintOf(value, names));
  const options = { mode: "vega", actions: false, defaultStyle: false, renderer, tooltip };
  for (const [name, spec] of Object.entries(payload.charts)) {
    const container = document.getElementById("chart-" + name);
    const data = spec.data.find((entry) => entry.name === "checkpoints");
    // A view marks the records it is given: each gets its own.
    if (data) data.values = rows.map((row) => ({ ...row }));
    const colours = payload.themes[theme()];
    for (const signal of spec.signals) if (signal.name in colours) signal.value = colours[signal.name];
    views.set(name, (await vegaEmbed(container, spec, options)).view);
    container.dataset.drawn = renderer;
  }
}

function paint(view, colours) {
  for (const [name, value] of Object.entries(colours)) view.signal(name, value);
}

function theme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function repaint(payload, name) {
  for (const view of views.values()) {
    paint(view, payload.themes[name]);
    view.run();
  }
}

function setUpTheme(payload) {
  const button = document.getElementById("theme");
  const show = () => {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", "Use " + button.textContent.toLowerCase() + " colours");
    button.setAttribute("aria-pressed", String(theme() === "dark"));
    repaint(payload, theme());
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  matchMedia("print").addEventListener("change", (event) => repaint(payload, event.matches ? "light" : theme()));
  addEventListener("beforeprint", () => repaint(payload, "light"));
  addEventListener("afterprint", () => repaint(payload, theme()));
  show();
}

// Of a checkpoint its run, step and metrics; of anything else what its chart says.
function hintOf(value, names) {
  if (!value || typeof value !== "object") return [];
  const entries = "zeta_alone" in value ? names.map(([field, name]) => [name, String(value[field])]) : Object.entries(value);
  return entries.filter(([, text]) => text !== "null" && text !== "undefined");
}

// Text only: names are not ours.
function showHint(event, entries) {
  const hint = document.getElementById("hint");
  hint.hidden = entries.length === 0;
  if (hint.hidden) return;
  const table = document.createElement("table");
  for (const [name, text] of entries) {
    const row = table.insertRow();
    const head = document.createElement("th");
    head.textContent = name;
    row.append(head);
    row.insertCell().textContent = text;
  }
  hint.replaceChildren(table);
  const { width, height } = hint.getBoundingClientRect();
  const left = event.clientX + 16 + width > innerWidth ? event.clientX - width - 16 : event.clientX + 16;
  const top = Math.min(event.clientY + 12, innerHeight - height - 8);
  hint.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

let chosen = null;

function choose(payload, run) {
  chosen = run;
  const store = run === null ? [] : [{ unit: "", fields: [{ type: "E", field: "run" }], values: [payload.runs[run]] }];
  for (const view of views.values()) {
    if (!hasChoice(view)) continue;
    view.data("chosen_store", store.map((entry) => ({ ...entry })));
    view.run();
  }
  document.getElementById("chosen-run").value = run === null ? "" : String(run);
  for (const row of document.querySelectorAll("tr[data-run]")) {
    row.classList.toggle("chosen", row.dataset.run === String(run));
  }
  for (const button of document.querySelectorAll("button.run")) {
    button.setAttribute("aria-pressed", String(button.dataset.run === String(run)));
  }
}

function hasChoice(view) {
  return "chosen" in view.getState({ signals: (name) => name === "chosen", data: () => false }).signals;
}

function setUpChoice(payload) {
  const codes = new Map(payload.runs.map((name, code) => [name, code]));
  for (const view of views.values()) {
    if (!hasChoice(view)) continue;
    view.addSignalListener("chosen", (_, value) => {
      const names = value && value.run;
      const run = names && names.length ? codes.get(names[names.length - 1]) : null;
      // Views must not be run while one of them is running.
      if (run !== chosen) setTimeout(() => choose(payload, run));
    });
  }
  document.getElementById("chosen-run").addEventListener("change", (event) => {
    choose(payload, event.target.value === "" ? null : Number(event.target.value));
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.run");
    if (!button) return;
    const run = Number(button.dataset.run);
    choose(payload, run === chosen ? null : run);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen !== null) choose(payload, null);
  });
}
