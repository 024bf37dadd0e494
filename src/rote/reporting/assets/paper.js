// Paper: light colours, every chart, nothing folded, and widths at which letters keep their size.

const PAPER = { whole: 688, half: 328 }; // A4 between its margins, and half of it

function setUpPaper(payload) {
  let folded = [];
  const begin = async () => {
    folded.push(...document.querySelectorAll("details:not([open])"));
    for (const details of folded) details.open = true;
    follow(payload.themes.light);
    // None of this waits for an event: it is done before the page is printed.
    await drawRest(payload);
    for (const [name, view] of views) {
      const isHalf = document.getElementById("chart-" + name).closest(".pair") !== null;
      view.width(isHalf ? PAPER.half : PAPER.whole).run();
    }
  };
  const end = () => {
    for (const details of folded) details.open = false;
    folded = [];
    showTheme(payload);
    dispatchEvent(new Event("resize")); // charts take the width of the page again
  };
  addEventListener("beforeprint", begin);
  addEventListener("afterprint", end);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? begin() : end()));
}
