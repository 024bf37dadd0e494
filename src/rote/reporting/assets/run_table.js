// The table of runs: click a heading to sort, type to search.

function setUpTable() {
  const table = document.getElementById("runs-table");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, index) => {
    head.querySelector("button").addEventListener("click", () => {
      const downwards = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", downwards ? "descending" : "ascending");
      body.append(...sorted([...body.rows], index, downwards ? -1 : 1));
    });
  });
  const search = document.getElementById("search");
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      found += row.hidden ? 0 : 1;
    }
    const total = body.rows.length;
    document.getElementById("found").textContent = `${found.toLocaleString("en")} of ${counted(total, "run")}`;
  });
}

// Sorts numbers by value and text alphabetically; unknown values come last.
function sorted(rows, index, direction) {
  const value = (row) => row.cells[index].dataset.value;
  const numeric = rows.every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
  return rows.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === "" || b === "") return (a === "") - (b === "");
    return direction * (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
  });
}
