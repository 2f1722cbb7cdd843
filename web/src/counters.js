// Counters and metrics as panels, one per block of the hardware, with formulas, and the first run beside it.
import { element, number, percent, words } from "./format.js";
import { table } from "./tables.js";

const BLOCKS = [
  ["SQC", "Instruction and scalar caches"], ["SQ", "Wavefronts and instruction issue (SQ)"], ["TCP", "Vector L1 cache (TCP)"], ["TCC", "L2 cache (TCC)"],
  ["TA", "Address unit (TA)"], ["TD", "Data return (TD)"], ["SPI", "Launch of workgroups (SPI)"], ["GRBM", "Whole GPU (GRBM)"], ["CP", "Command processor (CP)"], ["GL", "Graphics L1 and L2"],
];

const blockOf = (counter) => BLOCKS.find(([prefix]) => counter.startsWith(prefix))?.[1] ?? "Other counters";

export function counterTotals(run) {
  const totals = new Map();
  for (const dispatch of run.profile?.counters ?? []) for (const [name, value] of Object.entries(dispatch)) totals.set(name, value);
  return totals;
}

const shownMetric = (value, unit) => (unit === "share" || unit === "fraction" || unit === "1" || unit === "ratio" ? percent(value, 2) : number(value));

export function countersSection(run, data) {
  const totals = counterTotals(run), metrics = run.analysis?.metrics ?? {};
  if (!totals.size && !Object.keys(metrics).length) return null;
  const base = data.runs[0] === run ? null : data.runs[0];
  return (body) => {
    const panels = element("div", { class: "panels" });
    body.append(panels);
    const known = Object.entries(metrics).filter(([, value]) => value !== null).map(([name, value]) => ({
      name: words(name), key: name, value, base: base?.analysis?.metrics?.[name] ?? null, unit: run.metrics[name]?.unit ?? "",
      certificate: run.analysis.metric_certificates?.[name] ?? "", formula: run.metrics[name]?.formula ?? "", description: run.metrics[name]?.description ?? "",
    }));
    if (known.length) panels.append(panel("Metrics", known, base, true));
    const groups = Map.groupBy ? Map.groupBy(totals.keys(), blockOf) : grouped([...totals.keys()], blockOf);
    const baseTotals = base ? counterTotals(base) : null;
    for (const [block, names] of [...groups].sort()) {
      const rows = names.sort().map((name) => ({
        name, value: totals.get(name), base: baseTotals?.get(name) ?? null, unit: "", certificate: run.profile.counter_certificates?.[name]?.certificate ?? "",
        formula: users(run, name), description: run.profile.counter_certificates?.[name]?.scope ?? "",
      }));
      panels.append(panel(block, rows, base, false));
    }
    const reasons = Object.entries(run.analysis?.metric_reasons ?? {});
    if (reasons.length) {
      body.append(element("details", {}, element("summary", {}, `${reasons.length} metrics are not available`),
        element("ul", {}, ...reasons.map(([name, reason]) => element("li", {}, `${words(name)}: ${reason}`)))));
    }
  };
}

function grouped(values, keyOf) {
  const groups = new Map();
  for (const value of values) groups.set(keyOf(value), [...(groups.get(keyOf(value)) ?? []), value]);
  return groups;
}

const users = (run, counter) => Object.entries(run.metrics).filter(([, { formula }]) => new RegExp(`\\b${counter}\\b`).test(formula)).map(([name]) => words(name)).join(", ");

function panel(title, rows, base, areMetrics) {
  const place = element("div", { class: "panel" }, element("h3", {}, title));
  const explained = (row) => [row.description, row.formula && (areMetrics ? `= ${row.formula}` : `used by ${row.formula}`)].filter(Boolean).join("\n");
  table(place, rows, [
    { title: areMetrics ? "metric" : "counter", field: "name", width: 190, grow: 2, tooltip: explained },
    ...(base ? [{ title: "A", field: "base", number: true, text: (v, row) => (v == null ? "–" : shownMetric(v, row.unit)) }] : []),
    { title: base ? "this run" : "value", field: "value", number: true, text: (v, row) => shownMetric(v, row.unit), tooltip: explained },
    ...(base ? [{ title: "ratio", field: "ratio", number: true, text: (_, row) => (row.base ? `${number(row.value / row.base, 3)}x` : "–") }] : []),
    { title: "unit", field: "unit", width: 70, text: (v) => v },
    ...(rows.some(({ certificate }) => certificate) ? [{ title: "certainty", field: "certificate", width: 90 }] : []),
  ]);
  return place;
}
