// Texts of numbers, and small helpers for elements.

export const number = (value, digits = 4) =>
  value === null || value === undefined ? "–" : Math.abs(value) >= 1e4
    ? Math.round(value).toLocaleString("en")
    : Number(Number(value).toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 9 });

export const counted = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;

export const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : `${(value * 100).toFixed(digits)} %`);

export const words = (name) => String(name).replaceAll("_", " ");

export const time = (us, kind) => {
  if (us === null || us === undefined) return "unknown";
  const text = us >= 1000 ? `${number(us / 1000)} ms` : us < 0.01 ? `${number(us * 1000)} ns` : `${number(us)} us`;
  return kind ? `${text} ${kind}` : text;
};

export const bytes = (value) => {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (value >= size) return `${number(value / size)} ${unit}`;
  return `${number(value)} B`;
};

// element("td", {class: "number"}, "text", child): creates an element; texts are never parsed as HTML.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const shortened = (text, length = 60) => (text.length <= length ? text : `${text.slice(0, length - 1)}…`);

export async function decoded(name) {
  const binary = atob(document.getElementById(name).textContent);
  const content = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const stream = new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
