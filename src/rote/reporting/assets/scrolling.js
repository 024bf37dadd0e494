// Tables that are wider than their place say so.

function setUpScrolling() {
  for (const place of document.querySelectorAll(".scroll")) {
    const hint = place.previousElementSibling;
    const watch = new ResizeObserver(() => (hint.hidden = place.scrollWidth <= place.clientWidth + 1));
    watch.observe(place);
    watch.observe(place.firstElementChild);
  }
}
