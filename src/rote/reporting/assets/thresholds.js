// The two thresholds: sliders move the lines, and the regions are counted anew.

const percents = (value) => (value === null ? "–" : (100 * value).toFixed(1).replace("-", "−") + "%");
const digits = (value) => (value === null ? "–" : String(Number(value.toPrecision(4))).replace("-", "−"));

// Comparisons are between whole steps of a grid: as exact as Python's.
function summarise(payload, zetaAt, trainAt) {
  const { zeta, train, test } = payload.counted || {
    zeta: column(payload, "zeta"), train: column(payload, "train"), test: column(payload, "test"),
  };
  const sums = [1, 2, 3, 4].map(() => ({ count: 0, zeta: 0, train: 0, test: 0, tested: 0 }));
  for (let row = 0; row < zeta.length; row += 1) {
    if (zeta[row] === null || train[row] === null) continue;
    const sum = sums[(zeta[row] > zetaAt ? 1 : 0) + (train[row] < trainAt ? 2 : 0)];
    sum.count += 1;
    sum.zeta += zeta[row];
    sum.train += train[row];
    if (test[row] !== null) {
      sum.test += test[row];
      sum.tested += 1;
    }
  }
  const mean = (total, count, axis) => (count ? (total / count - axis.bias) / axis.unit : null);
  return sums.map((sum) => ({
    count: sum.count,
    zeta: mean(sum.zeta, sum.count, payload.axes.zeta),
    train: mean(sum.train, sum.count, payload.axes.train),
    test: sum.tested ? sum.test / sum.tested : null,
  }));
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

function setThreshold(key, value) {
  const text = key === "train" ? percents(value) : digits(value);
  document.getElementById(key + "-value").textContent = text;
  document.getElementById(key + "-slider").setAttribute("aria-valuetext", text);
  const view = views.get("regions");
  view.signal(key + "_threshold", value);
}

function setUpThresholds(payload) {
  const zeta = document.getElementById("zeta-slider");
  const train = document.getElementById("train-slider");
  if (!zeta) return;
  const buttons = [...document.querySelectorAll("[data-preset]")];
  const press = (name) => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.preset === name)));
  const exact = { zeta: null, train: null };
  const move = (key, slider) => {
    exact[key] = Number(slider.value);
    setThreshold(key, exact[key] / payload.axes[key].unit);
    // The other one may still be a rule's, which lies between two stops.
    for (const [name, other] of [["zeta", zeta], ["train", train]]) {
      if (exact[name] === null) {
        exact[name] = Number(other.value);
        setThreshold(name, exact[name] / payload.axes[name].unit);
      }
    }
    views.get("regions").run();
    const regions = summarise(payload, exact.zeta, exact.train);
    showRegions(regions);
    press(null);
    document.getElementById("region-news").textContent = `Region 1 holds ${regions[0].count} checkpoints.`;
  };
  const preset = (name) => {
    const found = payload.presets[name];
    for (const [key, slider] of [["zeta", zeta], ["train", train]]) {
      slider.value = Math.round(found[key] * payload.axes[key].unit);
      setThreshold(key, found[key]);
      exact[key] = null;
    }
    views.get("regions").run();
    showRegions(found.regions);
    press(name);
  };
  zeta.addEventListener("input", () => move("zeta", zeta));
  train.addEventListener("input", () => move("train", train));
  for (const button of buttons) button.addEventListener("click", () => preset(button.dataset.preset));
  preset(payload.leading);
}
