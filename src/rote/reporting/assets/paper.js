// Printing: light colors, every chart, nothing folded, and widths at which text keeps its size.

const PAPER = { whole: 688, half: 328, height: 0.6 }; // A4 without margins, half of it, and a lower height

function setUpPaper(payload) {
  let folded = [];
  const heights = new Map();
  const begin = async () => {
    folded.push(...document.querySelectorAll("details:not([open])"));
    for (const details of folded) details.open = true;
    follow(payload.themes.light);
    // Nothing here waits for an event, so that it is done before printing.
    await drawRest(payload);
    for (const [name, view] of views) {
      const isHalf = document.getElementById("chart-" + name).closest(".pair") !== null;
      if (!heights.has(view)) heights.set(view, view.height());
      view.width(isHalf ? PAPER.half : PAPER.whole).height(PAPER.height * heights.get(view)).run();
    }
  };
  const end = () => {
    for (const details of folded) details.open = false;
    folded = [];
    for (const [view, height] of heights) view.height(height).run();
    showTheme(payload);
    dispatchEvent(new Event("resize")); // charts return to the width of the page
  };
  addEventListener("beforeprint", begin);
  addEventListener("afterprint", end);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? begin() : end()));
}
