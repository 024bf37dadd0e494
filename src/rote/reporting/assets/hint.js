// The tooltip of charts.

const EDGE = 8;

// Text only, because names come from users.
function showHint(event, entries, title = null) {
  const hint = document.getElementById("hint");
  hint.hidden = entries.length === 0;
  if (hint.hidden) return;
  const table = document.createElement("table");
  if (title !== null) table.createCaption().append(wordsOf(title));
  for (const [name, text] of entries) {
    const head = document.createElement("th");
    head.append(wordsOf(name));
    const row = table.insertRow();
    row.append(head);
    row.insertCell().append(wordsOf(text));
  }
  hint.replaceChildren(table);
  place(hint, event);
}

function wordsOf(text) {
  const words = document.createElement("bdi");
  words.textContent = visible(String(text));
  return words;
}

function place(hint, event) {
  const { offsetWidth: width, offsetHeight: height } = hint;
  const isRight = event.clientX + 16 + width <= innerWidth - EDGE;
  const left = isRight ? event.clientX + 16 : Math.min(event.clientX - 16, innerWidth - EDGE) - width;
  const top = Math.min(event.clientY + 12, innerHeight - height - EDGE);
  hint.style.transform = `translate(${Math.max(EDGE, left)}px, ${Math.max(EDGE, top)}px)`;
}

function hideHint() {
  document.getElementById("hint").hidden = true;
}
