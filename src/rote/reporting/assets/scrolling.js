// Marks tables that are wider than the page, and the edge beyond which they continue.

function setUpScrolling() {
  for (const place of document.querySelectorAll(".scroll")) {
    const hint = place.previousElementSibling;
    const show = () => {
      const more = place.scrollWidth - place.clientWidth;
      hint.hidden = more <= 1;
      place.classList.toggle("before", place.scrollLeft > 1);
      place.classList.toggle("beyond", place.scrollLeft < more - 1);
    };
    const watch = new ResizeObserver(show);
    watch.observe(place);
    watch.observe(place.firstElementChild);
    place.addEventListener("scroll", show, { passive: true });
  }
}
