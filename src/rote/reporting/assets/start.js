// Everything in order; the tables work before, and without, the charts.

async function start() {
  setUpTable();
  await loadVega();
  const payload = await unpacked("payload");
  await draw(payload);
  setUpTheme(payload);
  setUpChoice(payload);
  setUpThresholds(payload);
  // In milliseconds since the page was asked for.
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
