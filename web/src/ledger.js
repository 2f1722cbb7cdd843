// Ledger of lost time: a bar from the roof to the measured time, and a table with the evidence.
import { chart, COLOURS } from "./charts.js";
import { element, number, percent, words } from "./format.js";
import { table } from "./tables.js";

const MANY_COLOURS = [...COLOURS.slice(0, -1), "#004d7a", "#8a5f00", "#00543d", "#7a3d5f"];

export function ledgerParts(ledger) {
  const parts = [];
  if (ledger.roof) {
    const share = ledger.roof.time_us !== null && ledger.measured_us ? ledger.roof.time_us / ledger.measured_us : ledger.roof.utilisation;
    parts.push({ name: `${ledger.roof.name} roof`, share, us: ledger.roof.time_us, colour: COLOURS[0], evidence: ledger.roof.evidence, suggestion: ledger.roof.suggestion });
  }
  ledger.losses.forEach((loss, place) => parts.push({
    name: words(loss.cause), share: loss.share, us: loss.amount_us, gain: loss.gain_share, confidence: loss.confidence, location: loss.location,
    evidence: loss.evidence, suggestion: loss.suggestion, colour: COLOURS[1 + (place % (COLOURS.length - 2))],
  }));
  if (ledger.unexplained_share > 0.0005) {
    parts.push({ name: "unexplained", share: ledger.unexplained_share, us: ledger.unexplained_us, colour: COLOURS.at(-1), evidence: [] });
  }
  return parts;
}

// Parts of several ledgers with one colour per cause.
export function ledgerRows(ledgers) {
  const rows = ledgers.map(([label, ledger]) => ({ label, parts: ledgerParts(ledger) })), known = new Map([["unexplained", COLOURS.at(-1)]]);
  for (const part of rows.flatMap(({ parts }) => parts)) {
    if (!known.has(part.name)) known.set(part.name, MANY_COLOURS[(known.size - 1) % MANY_COLOURS.length]);
    part.colour = known.get(part.name);
  }
  return rows;
}

export function ledgerChart(place, rows, height = 150) {
  const timed = rows.length > 1 && rows.every(({ parts }) => parts.every(({ us }) => us != null));
  const names = [...new Set(rows.flatMap(({ parts }) => parts.map(({ name }) => name)))];
  const colour = (name) => rows.flatMap(({ parts }) => parts).find((part) => part.name === name).colour;
  chart(place, {
    grid: { left: 20, right: 30, top: 46, bottom: 26, containLabel: true },
    legend: { type: "scroll", top: 0 },
    tooltip: { trigger: "item", formatter: ({ seriesName, data }) => `${seriesName}<br>${percent(data.share)}${data.us == null ? "" : `, ${number(data.us)} us`}` },
    xAxis: timed ? { type: "value", name: "us", nameGap: 8 } : { type: "value", max: 1, axisLabel: { formatter: (value) => `${Math.round(value * 100)} %` } },
    yAxis: { type: "category", data: rows.map(({ label }) => label), inverse: true },
    series: names.map((name) => ({
      name, type: "bar", stack: "time", barWidth: 34, itemStyle: { color: colour(name), borderColor: "#fff", borderWidth: 0.5 },
      data: rows.map(({ parts }) => { const part = parts.find((one) => one.name === name); return { value: (timed ? part?.us : part?.share) ?? 0, share: part?.share ?? 0, us: part?.us }; }),
    })),
  }, height + 40 * (rows.length - 1));
}

export function ledgerSection(run) {
  const { ledger } = run;
  if (!ledger || !(ledger.losses.length || ledger.roof)) return null;
  return (body) => {
    const parts = ledgerParts(ledger);
    const whole = ledger.measured_us === null ? "no times in the recording" : `${number(ledger.measured_us)} us ${run.time_kind}`;
    body.append(element("p", {}, `Verdict: ${words(ledger.verdict)} (confidence ${percent(ledger.confidence, 0)}). The bar is the whole time: ${whole}.`));
    const place = element("div");
    body.append(place);
    ledgerChart(place, [{ label: "time", parts }]);
    table(body, parts, [
      { title: "part", field: "name", width: 170 },
      { title: "us", field: "us", number: true, text: (value) => number(value) },
      { title: "share", field: "share", number: true, text: (value) => percent(value) },
      { title: "gain at most", field: "gain", number: true, text: (value) => (value == null ? "" : percent(value)), explain: "share of the time that removing the cause can save" },
      { title: "confidence", field: "confidence", number: true, text: (value) => (value == null ? "" : percent(value, 0)) },
      { title: "evidence and suggestion", field: "suggestion", grow: 5, width: 320, node: (part) => element("div", { class: "evidence" },
        ...part.evidence.map(({ source, text }) => element("div", {}, text, " ", element("span", { class: "muted" }, `(${words(source)})`))),
        element("em", {}, part.location ? element("code", {}, part.location) : null, part.location ? " " : "", part.suggestion ?? "")) },
    ]);
    if (ledger.missing.length) {
      body.append(element("p", {}, "Missing evidence:"), element("ul", {}, ...ledger.missing.map((one) => element("li", {}, one))));
    }
  };
}
