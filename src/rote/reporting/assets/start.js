// Everything in order; the tables work before, and without, the charts.

async function start() {
  const kept = setUpLive();
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
  putBack(payload, kept);
  // In milliseconds since the page was asked for.
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  await drawWhenIdle(payload);
  document.documentElement.dataset.complete = String(Math.round(performance.now()));
}

start().catch((error) => {
  for (const chart of document.querySelectorAll(".chart:not([data-drawn])")) {
    chart.textContent = "This browser cannot draw the chart; one of 2023 or later can.";
  }
  throw error;
});
