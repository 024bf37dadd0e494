// Starts the page; tables work before and without the charts.

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
  setUpUnfolding();
  putBack(payload, kept);
  // In milliseconds since navigation started.
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  await drawWhenIdle(payload);
  document.documentElement.dataset.complete = String(Math.round(performance.now()));
}

// A link to a word of the glossary opens it.
function setUpUnfolding() {
  const open = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const fold = target && target.closest("details");
    if (fold && !fold.open) {
      fold.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
}

start().catch((error) => {
  for (const chart of document.querySelectorAll(".chart:not([data-drawn])")) {
    chart.textContent = "This browser cannot draw the chart. Use a version from 2023 or later.";
  }
  throw error;
});
