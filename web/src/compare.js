// Comparison of runs with the first: metrics, ledgers, rooflines, instructions aligned, differences of source and ISA.
import { instructionRows } from "./code.js";
import { counterTotals } from "./counters.js";
import { difference } from "./editors.js";
import { element, number, shortened, words } from "./format.js";
import { ledgerChart, ledgerRows } from "./ledger.js";
import { rooflineChart } from "./roofline.js";
import { table } from "./tables.js";

const letter = (place) => String.fromCharCode(65 + place);

export function comparisonSections({ runs, alignments }) {
  const sections = [["comparison", "Comparison", (body) => figures(body, runs)]];
  const ledgers = runs.map((run, place) => ({ run, place })).filter(({ run }) => run.ledger);
  if (ledgers.length > 1) {
    sections.push(["comparison-ledger", "Ledgers", (body) => {
      const place = element("div");
      body.append(place);
      ledgerChart(place, ledgerRows(ledgers.map(({ run, place: index }) => [letter(index), run.ledger])), 170);
    }]);
  }
  const roofed = runs.map((run, place) => ({ ...run, label: letter(place) })).filter(({ roofline }) => roofline?.roofline);
  if (roofed.length > 1) {
    sections.push(["comparison-roofline", "Rooflines", (body) => {
      const place = element("div");
      body.append(element("p", { class: "muted" }, "The roofs are those of A."), place);
      rooflineChart(place, roofed);
    }]);
  }
  if (runs.every((run) => counterTotals(run).size)) sections.push(["comparison-counters", "Counters", (body) => counters(body, runs)]);
  alignments.forEach((pairs, index) => {
    if (pairs) sections.push([`comparison-code-${index + 1}`, `Instructions: A and ${letter(index + 1)}`, (body) => aligned(body, runs[0], runs[index + 1], pairs, letter(index + 1))]);
  });
  runs.slice(1).forEach((run, index) => {
    const changed = sourcesOf(runs[0]).filter(([name, text]) => run.sources[name] !== undefined && run.sources[name] !== text).map(([name, text]) => [name, text, run.sources[name]]);
    if (changed.length) {
      sections.push([`comparison-source-${index + 1}`, `Source: A and ${letter(index + 1)}`, (body) => changed.forEach(([name, before, after]) => {
        const place = element("div", { class: "difference" });
        body.append(element("h3", {}, name), place);
        difference(place, name, before, after);
      })]);
    }
  });
  return sections;
}

const sourcesOf = (run) => Object.entries(run.sources);

function figures(body, runs) {
  if (new Set(runs.map(({ time_kind }) => time_kind)).size > 1) body.append(element("p", { class: "banner" }, "Some times are measured and some emulated: do not compare them."));
  const values = runs.map((run) => ({
    "time in us": run.profile?.runtime_ms == null ? null : run.profile.runtime_ms * 1000, VGPR: run.profile?.resources.vgpr_per_thread, SGPR: run.profile?.resources.sgpr_per_wave,
    "LDS in bytes": run.profile?.resources.lds_bytes, "scratch in bytes": run.profile?.resources.scratch_bytes, "waves per SIMD": run.profile?.occupancy.waves_per_simd,
    ...Object.fromEntries(Object.entries(run.analysis?.metrics ?? {}).map(([name, value]) => [words(name), value])),
  }));
  const names = [...new Set(values.flatMap(Object.keys))];
  const rows = names.map((name) => ({ name, ...Object.fromEntries(values.map((one, place) => [letter(place), one[name] ?? null])), ...Object.fromEntries(values.slice(1).map((one, place) => [`ratio${place + 1}`, values[0][name] && one[name] != null ? one[name] / values[0][name] : null])) }))
    .filter((row) => runs.some((_, place) => row[letter(place)]));
  table(body, rows, [
    { title: "figure", field: "name", grow: 2, width: 200 },
    ...runs.map((_, place) => ({ title: letter(place), field: letter(place), number: true, text: (v) => number(v) })),
    ...runs.slice(1).map((_, place) => ({ title: `${letter(place + 1)} / A`, field: `ratio${place + 1}`, number: true, text: (v) => (v === null ? "" : `${number(v, 4)}x`) })),
  ]);
}

// Hardware counters of all runs, those that changed most first.
function counters(body, runs) {
  const totals = runs.map(counterTotals), names = [...new Set(totals.flatMap((one) => [...one.keys()]))];
  const ratio = (name, place) => (totals[0].get(name) && totals[place].has(name) ? totals[place].get(name) / totals[0].get(name) : null);
  const distance = (name) => Math.max(0, ...runs.slice(1).map((_, place) => Math.abs(Math.log(ratio(name, place + 1) || 1))));
  const rows = names.sort((a, b) => distance(b) - distance(a)).map((name) => ({ name, ...Object.fromEntries(runs.map((_, place) => [letter(place), totals[place].get(name) ?? null])), ...Object.fromEntries(runs.slice(1).map((_, place) => [`ratio${place + 1}`, ratio(name, place + 1)])) }))
    .filter((row) => runs.some((_, place) => row[letter(place)]));
  table(body, rows, [
    { title: "counter", field: "name", grow: 2, width: 200 }, ...runs.map((_, place) => ({ title: letter(place), field: letter(place), number: true, text: (v) => number(v) })),
    ...runs.slice(1).map((_, place) => ({ title: `${letter(place + 1)} / A`, field: `ratio${place + 1}`, number: true, text: (v) => (v === null ? "" : `${number(v, 4)}x`) })),
  ]);
}

function aligned(body, base, other, pairs, name) {
  const [left, right] = [instructionRows(base.code), instructionRows(other.code)];
  const timed = base.code.kind === "trace" && other.code.kind === "trace", unit = timed ? "cycles" : "executions";
  // Traces have different numbers of wavefronts, so cycles are compared per wavefront.
  const counts = [base, other].map((run) => (timed && run.waves ? run.waves.waves.length : 1));
  const weight = (row, side) => (row ? (timed ? row.cycles : row.hits) / counts[side] : null);
  const rows = pairs.map(([first, second], place) => {
    const [a, b] = [first === null ? null : left[first], second === null ? null : right[second]];
    return { place, a: a?.text ?? "", b: b?.text ?? "", before: weight(a, 0), after: weight(b, 1), change: (weight(b, 1) ?? 0) - (weight(a, 0) ?? 0), source: (b ?? a).line ? `${(b ?? a).file}:${(b ?? a).line}` : "" };
  });
  const equal = pairs.filter(([first, second]) => first !== null && second !== null).length;
  body.append(element("p", { class: "muted" }, `${number(equal)} instructions are aligned (register numbers are ignored), ${number(left.length - equal)} only in A, ${number(right.length - equal)} only in ${name}; ${timed ? "cycles per traced wavefront" : "executions of all wavefronts"}.`));
  table(body, rows, [
    { title: "#", field: "place", number: true, width: 60 }, { title: "A", field: "a", grow: 3, width: 200, text: (v) => shortened(v, 70) }, { title: name, field: "b", grow: 3, width: 200, text: (v) => shortened(v, 70) },
    { title: `${unit} A`, field: "before", number: true, text: (v) => (v === null ? "" : number(v)) }, { title: `${unit} ${name}`, field: "after", number: true, text: (v) => (v === null ? "" : number(v)) },
    { title: "change", field: "change", number: true, text: (v) => (v ? `${v > 0 ? "+" : ""}${number(v)}` : "") }, { title: "source", field: "source" },
  ], { height: 480 });
  const isa = element("div", { class: "difference" });
  body.append(element("details", {}, element("summary", {}, "difference of the ISA"), isa));
  body.querySelector("details").addEventListener("toggle", () => { if (!isa.childElementCount) difference(isa, "kernel.s", left.map(({ text }) => text).join("\n"), right.map(({ text }) => text).join("\n")); });
}
