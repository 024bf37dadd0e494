// The two thresholds: sliders move the lines and recount the regions.

function summarize(payload, zetaAt, trainAt) {
  const sums = [1, 2, 3, 4].map(() => ({ count: 0, zeta: 0, train: 0, test: 0, tested: 0 }));
  (payload.cells ? addCells : addEach)(payload, zetaAt, trainAt, sums);
  const mean = (total, count) => (count ? total / count : null);
  return sums.map((sum) => ({
    count: sum.count, zeta: mean(sum.zeta, sum.count), train: mean(sum.train, sum.count), test: mean(sum.test, sum.tested),
  }));
}

// Adds numbers in the order of Python's sums, for the same digits.
function addEach(payload, zetaAt, trainAt, sums) {
  const { zeta, train, test } = payload.counted;
  for (let row = 0; row < zeta.length; row += 1) {
    if (Number.isNaN(zeta[row]) || Number.isNaN(train[row])) continue;
    const sum = sums[(zeta[row] > zetaAt ? 1 : 0) + (train[row] < trainAt ? 2 : 0)];
    sum.count += 1;
    sum.zeta += zeta[row];
    sum.train += train[row];
    if (!Number.isNaN(test[row])) {
      sum.test += test[row];
      sum.tested += 1;
    }
  }
}

// For pages with too many checkpoints: uses the sums between slider positions.
function addCells(payload, zetaAt, trainAt, sums) {
  const [zetas, trains] = payload.cells;
  const width = trains.length + 1;
  const size = (zetas.length + 1) * width;
  for (let cell = 0; cell < size; cell += 1) {
    const isResistant = zetas[Math.floor(cell / width)] <= zetaAt;
    const isTrainable = trains[(cell % width) - 1] >= trainAt;
    const sum = sums[(isResistant ? 0 : 1) + (isTrainable ? 0 : 2)];
    ["count", "zeta", "train", "test", "tested"].forEach((key, index) => { sum[key] += payload.sums[index * size + cell]; });
  }
}

function showRegions(regions) {
  const rows = document.querySelectorAll("#region-table tbody tr");
  regions.forEach((region, index) => {
    const shown = {
      count: region.count.toLocaleString("en"), train: percents(region.train), zeta: digits(region.zeta), test: percents(region.test),
    };
    for (const cell of rows[index].querySelectorAll("[data-key]")) cell.textContent = shown[cell.dataset.key];
  });
}

function showThresholds(at) {
  for (const key of ["zeta", "train"]) {
    const text = key === "train" ? percents(at[key]) : digits(at[key]);
    document.getElementById(key + "-value").textContent = text;
    document.getElementById(key + "-slider").setAttribute("aria-valuetext", text);
  }
  follow({ zeta_threshold: at.zeta, train_threshold: at.train });
}

function setUpThresholds(payload) {
  const sliders = { zeta: document.getElementById("zeta-slider"), train: document.getElementById("train-slider") };
  if (!sliders.zeta) return;
  const buttons = [...document.querySelectorAll("[data-preset]")];
  const press = (name) => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.preset === name)));
  const at = { zeta: null, train: null };
  // The other threshold stays, even if it is a rule's and lies between two slider positions.
  const move = (key) => {
    at[key] = Number(sliders[key].value) / payload.units[key];
    showThresholds(at);
    const regions = summarize(payload, at.zeta, at.train);
    showRegions(regions);
    press(null);
    document.getElementById("region-news").textContent = `Region 1 holds ${counted(regions[0].count, "checkpoint")}.`;
  };
  const preset = (name) => {
    const found = payload.presets[name];
    for (const key of ["zeta", "train"]) {
      at[key] = found[key];
      sliders[key].value = Math.round(found[key] * payload.units[key]);
    }
    showThresholds(at);
    showRegions(found.regions);
    press(name);
  };
  for (const key of ["zeta", "train"]) sliders[key].addEventListener("input", () => move(key));
  for (const button of buttons) button.addEventListener("click", () => preset(button.dataset.preset));
  preset(payload.leading);
}
