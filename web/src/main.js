// The page: header, navigation, and one section per component that has data. Sections are drawn when they come into view.
import "tabulator-tables/dist/css/tabulator_simple.min.css";
import "./report.css"; // after the styles of the tables, whose colours it replaces

import { applicationSection } from "./application.js";
import { autotuneSection } from "./autotune.js";
import { changesSection } from "./changes.js";
import { redrawAll, resizeAll } from "./charts.js";
import { codeSection } from "./code.js";
import { comparisonSections } from "./compare.js";
import { countersSection } from "./counters.js";
import { findingsSection, verdictsSection } from "./findings.js";
import { element } from "./format.js";
import { ledgerSection } from "./ledger.js";
import { optimizeSection } from "./optimize.js";
import { captureSection, replaySection } from "./replay.js";
import { rooflineSection } from "./roofline.js";
import { summaryCards, reproduction } from "./summary.js";
import { wavesSection } from "./waves.js";

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("app");
page.replaceChildren();

const THEME = "rocm-perf-lab-theme";

function storedTheme() {
  try { return localStorage.getItem(THEME); } catch { return null; } // files may have no storage
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem(THEME, theme); } catch { /* not stored */ }
  redrawAll();
}

const preferred = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.documentElement.dataset.theme = storedTheme() ?? preferred();

// The results of the job come first, then the profile that they began with.
const COMPONENTS = [
  ["changes", "Kernels", changesSection],
  ["verdicts", "Candidates", verdictsSection],
  ["replay", "Replays", replaySection],
  ["capture", "Capture", captureSection],
  ["findings", "Defects", findingsSection],
  ["rewrites", "Rewrites", optimizeSection],
  ["search", "Search", autotuneSection],
  ["ledger", "Lost time", ledgerSection],
  ["roofline", "Roofline", rooflineSection],
  ["application", "Application", applicationSection],
  ["code", "Instructions", codeSection],
  ["waves", "Wavefronts", wavesSection],
  ["counters", "Counters", countersSection],
];

const sections = [];

function addSection(id, title, draw) {
  const body = element("div", { class: "body" });
  const place = element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), body);
  sections.push({ id, title, place, drawn: false, draw: () => draw(body) });
}

function drawSection(section) {
  if (section.drawn) return;
  section.drawn = true;
  section.draw();
}

if (data.runs.length > 1) {
  for (const [id, title, draw] of comparisonSections(data)) addSection(id, title, draw);
}
for (const [place, run] of data.runs.entries()) {
  for (const [id, title, component] of COMPONENTS) {
    const draw = component(run, data);
    const several = data.runs.length > 1;
    if (draw) addSection(several ? `${id}-${place}` : id, several ? `${String.fromCharCode(65 + place)}: ${title}` : title, draw);
  }
}
addSection("reproduce", "Reproduce", (body) => data.runs.forEach((run) => body.append(reproduction(run))));

const themeButton = element("button", {
  type: "button", id: "theme", title: "Change colours (t)", "aria-label": "change between dark and light",
  onclick: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
}, "◐");
const links = sections.map(({ id, title }) => element("a", { href: `#${id}` }, title));
const navigation = element("nav", { "aria-label": "sections" }, ...links);
const emulated = data.runs.some((run) => run.time_kind === "emulated");
const header = element(
  "header", {},
  element("div", { class: "heading" }, element("h1", {}, data.title), themeButton),
  emulated ? element("p", { class: "banner" }, "Every time on this page", data.runs.every((r) => r.time_kind === "emulated") ? "" : " of an emulated run",
    " is emulated: a model estimate, not a measurement.") : null,
  ...data.runs.map((run, place) => summaryCards(run, data.runs.length > 1 ? String.fromCharCode(65 + place) : null, place ? data.runs[0] : null)),
);
page.append(header, element("div", { class: "columns" }, navigation, element("main", {}, ...sections.map(({ place }) => place))));

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const section = sections.find(({ place }) => place === entry.target);
    if (entry.isIntersecting) drawSection(section);
  }
}, { rootMargin: "400px" });
const current = new IntersectionObserver((entries) => {
  for (const entry of entries.filter(({ isIntersecting }) => isIntersecting)) {
    links.forEach((link) => link.classList.toggle("current", link.hash === `#${entry.target.id}`));
  }
}, { rootMargin: "-20% 0px -70% 0px" });
sections.forEach(({ place }) => { seen.observe(place); current.observe(place); });

addEventListener("beforeprint", () => { sections.forEach(drawSection); resizeAll(); });
addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, [contenteditable], .cm-editor") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "t") themeButton.click();
  else if (event.key >= "1" && event.key <= "9" && links[event.key - 1]) links[event.key - 1].click();
  else if (event.key === "/") {
    const filter = [...document.querySelectorAll("input.filter")].find((input) => input.getBoundingClientRect().bottom > 0);
    if (filter) { event.preventDefault(); filter.focus(); }
  }
});
document.documentElement.dataset.ready = "true";
window.rocmPerfLab = { drawAll: () => sections.forEach(drawSection), data };
