// The highlighted run: the same in all charts, tables and the list at the top.

let chosen = null;

function choiceOf(payload, run) {
  return run === null ? [] : [{ unit: "", fields: [{ type: "E", field: "run_key" }], values: [payload.keys[run]] }];
}

function choose(payload, run) {
  if (run === chosen) return;
  chosen = run;
  for (const [name, view] of views) {
    if (!Object.hasOwn(FIELDS, name)) continue;
    view.data("chosen_store", choiceOf(payload, run));
    view.run();
  }
  const list = document.getElementById("chosen-run");
  if (list) list.value = run === null ? "" : String(run);
  for (const row of document.querySelectorAll("tr[data-run]")) {
    row.classList.toggle("chosen", row.dataset.run === String(run));
  }
  for (const button of document.querySelectorAll("button.run")) {
    button.setAttribute("aria-pressed", String(button.dataset.run === String(run)));
  }
}

function setUpChoice(payload) {
  const list = document.getElementById("chosen-run"); // absent if there is only one run
  if (list) list.addEventListener("change", () => choose(payload, list.value === "" ? null : Number(list.value)));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.run");
    if (!button) return;
    const run = Number(button.dataset.run);
    choose(payload, run === chosen ? null : run);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") choose(payload, null);
  });
}
