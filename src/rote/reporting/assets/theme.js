// Light or dark colors: those of the system, or of the button.

function theme() {
  const asked = document.documentElement.dataset.theme;
  if (asked) return asked;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function showTheme(payload) {
  const button = document.getElementById("theme");
  button.textContent = theme() === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", "Use " + button.textContent.toLowerCase() + " colors");
  follow(payload.themes[theme()]);
}

function setUpTheme(payload) {
  document.getElementById("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    showTheme(payload);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => showTheme(payload));
  showTheme(payload);
}
