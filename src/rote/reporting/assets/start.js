// Everything in order; the tables work before, and without, the charts.

async function start() {
  setUpTable();
  setUpScrolling();
  await loadVega();
  const payload = await loadPayload();
  prepare(payload);
  await drawInSight(payload);
  setUpTheme(payload);
  setUpPaper(payload);
  setUpChoice(payload);
  setUpHiding();
  setUpThresholds(payload);
  // In milliseconds since the page was asked for.
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  await drawWhenIdle(payload);
  document.documentElement.dataset.complete = String(Math.round(performance.now()));
}

start();
