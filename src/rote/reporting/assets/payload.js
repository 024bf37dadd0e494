// What the page carries packed: the library that draws, and the data for it to draw.

async function unpacked(id) {
  const letters = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

// In a function of its own, so that its names do not meet ours.
async function loadVega() {
  new Function(await unpacked("vega"))();
}

function column(payload, name) {
  const values = payload.columns[name];
  return typeof values === "string" ? payload.columns[values] : values;
}

// Grid steps become numbers again; what is null stays null, and is not drawn.
function records(payload) {
  const names = Object.keys(payload.columns);
  const columns = names.map((name) => column(payload, name));
  return columns[0].map((_, row) => {
    const record = {};
    names.forEach((name, index) => {
      const value = columns[index][row];
      const axis = payload.axes[name];
      record[name] = axis && value !== null ? value / axis.unit : value;
    });
    record.run = payload.runs[record.run];
    return record;
  });
}
