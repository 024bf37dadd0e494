// A live page reloads itself and restores the position of its reader.

const KEPT = "rote: " + location.pathname;
const PATIENCE = 600; // seconds without an update of the page, or more if updates are slow

function setUpLive() {
  const kept = takeKept();
  if (kept.theme) document.documentElement.dataset.theme = kept.theme;
  const live = document.getElementById("live");
  if (!live || !live.dataset.reload) return kept;
  const seconds = Number(live.dataset.reload);
  const said = document.getElementById("reloading");
  if (Date.now() - Date.parse(document.lastModified) > 1000 * Math.max(PATIENCE, 10 * seconds)) {
    said.textContent = `Not updated since ${document.lastModified}: this page no longer reloads.`;
    return kept;
  }
  setUpPause(setInterval(() => isBusy() || reload(), 1000 * seconds));
  return kept;
}

function setUpPause(timer) {
  const button = document.getElementById("pause");
  button.hidden = false;
  button.addEventListener("click", () => {
    clearInterval(timer);
    if (button.textContent === "Resume") reload();
    button.textContent = "Resume";
  });
}

// The page is hidden, or its reader is typing or choosing.
function isBusy() {
  return document.hidden || document.activeElement.matches("input, select");
}

function reload() {
  const run = document.querySelector(`#chosen-run option[value="${chosen}"]`)?.textContent;
  const kept = { x: scrollX, y: scrollY, theme: document.documentElement.dataset.theme, run };
  try { sessionStorage.setItem(KEPT, JSON.stringify(kept)); } catch { /* then the page starts at the top */ }
  location.reload();
}

function takeKept() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT)) || {};
    sessionStorage.removeItem(KEPT);
    return kept;
  } catch {
    return {};
  }
}

// Called when the layout is complete.
function putBack(payload, kept) {
  if (kept.run) {
    const option = [...document.querySelectorAll("#chosen-run option")].find((one) => one.value !== "" && one.textContent === kept.run);
    if (option) choose(payload, Number(option.value));
  }
  if (kept.y !== undefined) scrollTo(kept.x, kept.y);
}
