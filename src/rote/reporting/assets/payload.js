// Unpacks what the page carries: the chart library and its data.

async function unpacked(id) {
  const letters = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index += 1) bytes[index] = letters.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream);
}

// In a function of its own, to keep its names separate.
async function loadVega() {
  new Function(await (await unpacked("vega")).json())();
}

async function loadPayload() {
  const [payload, buffer] = await Promise.all([
    unpacked("payload").then((found) => found.json()),
    unpacked("numbers").then((found) => found.arrayBuffer()),
  ]);
  const all = new Float64Array(buffer);
  const size = payload.cells ? payload.columns.run.length : all.length / 3;
  payload.sums = all.subarray(3 * size);
  payload.counted = { zeta: all.subarray(0, size), train: all.subarray(size, 2 * size), test: all.subarray(2 * size, 3 * size) };
  return payload;
}

// Returns a value of a drawn checkpoint; null if unknown.
function valueOf(payload, field, row) {
  const exact = payload.counted[field];
  if (exact) {
    const value = exact[payload.positions ? payload.positions[row] : row];
    return Number.isNaN(value) ? null : value;
  }
  const column = payload.columns[field];
  return typeof column === "string" ? valueOf(payload, column, row) : column[row];
}

// Returns what charts need of every checkpoint; its row identifies the rest.
function records(payload) {
  const value = (field, row) => valueOf(payload, field, row);
  return payload.columns.run.map((run, row) => ({
    row,
    run: payload.runs[run],
    run_key: payload.keys[run],
    step: value("step", row),
    zeta: value("zeta", row),
    train: value("train", row),
    test: value("test", row),
    noisy: value("noisy", row),
    kept: value("kept", row),
    zeta_alone: value("zeta_alone", row),
    noisy_alone: value("noisy_alone", row),
    ...Object.fromEntries(payload.signals.flatMap((field) => [field, field + "_alone"].map((name) => [name, value(name, row)]))),
  }));
}
