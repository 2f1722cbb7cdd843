// Optimization: tree of rewrites, gains, reasons, and the source before and after each rewrite side by side.
import { chart, COLOURS, echarts } from "./charts.js";
import { difference } from "./editors.js";
import { element, number, percent, shortened, words } from "./format.js";
import { ledgerChart, ledgerRows } from "./ledger.js";
import { table } from "./tables.js";

const outcome = (verdict) => (verdict.accepted ? "accepted" : verdict.indistinguishable ? "indistinguishable" : verdict.runtime_ms !== null ? "rolled back" : "rejected");
const SHADES = { accepted: COLOURS[2], indistinguishable: COLOURS[1], "rolled back": COLOURS[5], rejected: COLOURS[7], baseline: COLOURS[0] };

export function optimizeSection(run) {
  const { optimize, proposals } = run;
  if (!optimize) return null;
  return (body) => {
    if (optimize.final?.confirmed === false) body.append(element("p", { class: "banner" }, `The result is the unmodified kernel: ${optimize.final.reason}.`));
    if (!optimize.verdicts.length) { body.append(element("p", {}, `No rewrite was evaluated: ${optimize.stop_reason}.`)); return; }
    const place = element("div"), gains = element("div");
    body.append(element("div", { class: "twice" }, element("div", {}, element("h3", {}, "Tree of rewrites"), place), element("div", {}, element("h3", {}, "Time of each rewrite"), gains)));
    if (run.ledger && run.best_ledger) {
      const bars = element("div");
      body.append(element("h3", {}, "Lost time before and after"), bars);
      ledgerChart(bars, ledgerRows([["unmodified", run.ledger], ["best", run.best_ledger]]), 170);
    }
    const side = element("div", { class: "difference" }), title = element("h3", {}, "Difference");
    const show = (id) => {
      const verdict = optimize.verdicts.find(({ proposal }) => proposal === id);
      if (!verdict) return;
      const [before, after] = [proposals[verdict.parent ?? optimize.baseline.proposal], proposals[id]];
      title.textContent = `Difference: ${verdict.description} (${outcome(verdict)}: ${verdict.reason})`;
      if (before === undefined || after === undefined) side.replaceChildren("The sources of this rewrite are not in the directory of the run.");
      else difference(side, optimize.best.source, before, after);
    };
    tree(place, optimize, show);
    times(gains, optimize, show);
    table(body, optimize.verdicts.map((verdict, index) => ({ ...verdict, number: index + 1, outcome: outcome(verdict), us: verdict.runtime_ms === null ? null : verdict.runtime_ms * 1000 })), [
      { title: "#", field: "number", number: true, width: 45 }, { title: "rewrite", field: "description", grow: 3, width: 150, tooltip: ({ description }) => description },
      { title: "outcome", field: "outcome", width: 125, node: (row) => element("span", { class: `outcome ${row.outcome.replaceAll(" ", "-")}` }, row.outcome) },
      { title: "stage", field: "stage" }, { title: "reason", field: "reason", grow: 4, width: 160, tooltip: ({ reason }) => reason },
      { title: `us ${optimize.time_kind}`, field: "us", number: true, text: (v) => (v === null ? "" : number(v)) },
      { title: "gain", field: "improvement", number: true, text: (v) => (v == null ? "" : percent(v)) }, { title: "VGPR", field: "vgpr", number: true, width: 70 },
      { title: "waves", field: "waves_per_simd", number: true, explain: "wavefronts per SIMD" },
    ], { onselect: ({ proposal }) => { show(proposal); title.scrollIntoView({ block: "nearest" }); } });
    body.append(element("p", { class: "muted" }, "Select a row or a node to see the difference from its parent."), title, side);
    show((optimize.verdicts.find(({ accepted }) => accepted) ?? optimize.verdicts[0]).proposal);
    cost(body, optimize);
  };
}

function tree(place, optimize, show) {
  const node = (id, name, kind, tip) => ({
    id, name: shortened(name, 34), tip, itemStyle: { color: SHADES[kind], borderColor: SHADES[kind] }, children: optimize.verdicts.filter(({ parent }) => (parent ?? optimize.baseline.proposal) === id && parent !== undefined)
      .filter(({ proposal }) => proposal !== id).map((verdict) => node(verdict.proposal, verdict.description, outcome(verdict), `${outcome(verdict)} at ${verdict.stage}: ${verdict.reason}`)),
  });
  const root = node(optimize.baseline.proposal, "unmodified", "baseline", "the unmodified source");
  const made = chart(place, () => ({
    tooltip: { formatter: ({ data }) => echarts.format.encodeHTML(shortened(data.tip ?? "", 160)) },
    series: [{ type: "tree", data: [root], left: 90, right: 220, top: 10, bottom: 10, symbol: "circle", symbolSize: 11, initialTreeDepth: -1, roam: true, expandAndCollapse: false,
      label: { position: "left", align: "right", fontSize: 11, color: getComputedStyle(document.documentElement).getPropertyValue("--text").trim() }, leaves: { label: { position: "right", align: "left" } } }],
  }), Math.max(220, 26 * optimize.verdicts.length));
  made.chart.on("click", ({ data }) => show(data.id));
}

function times(place, optimize, show) {
  const rows = optimize.verdicts.map((verdict, index) => ({ verdict, index })).filter(({ verdict }) => verdict.runtime_ms !== null);
  const best = [];
  let least = optimize.baseline.runtime_ms === null ? null : optimize.baseline.runtime_ms * 1000;
  if (least !== null) best.push([0, least]);
  for (const { verdict, index } of rows) {
    if (verdict.accepted) least = verdict.runtime_ms * 1000;
    if (least !== null) best.push([index + 1, least]);
  }
  const made = chart(place, {
    grid: { left: 20, right: 20, top: 40, bottom: 40, containLabel: true }, legend: { top: 0 },
    tooltip: { formatter: ({ data, seriesName }) => `${echarts.format.encodeHTML(data.name ?? seriesName)}: ${number((data.value ?? data)[1])} us` },
    xAxis: { type: "value", name: "evaluation", nameLocation: "middle", nameGap: 26, minInterval: 1 }, yAxis: { type: "value", name: `us ${optimize.time_kind}`, scale: true },
    series: [
      ...["accepted", "indistinguishable", "rolled back"].map((kind, place) => ({
        name: kind, type: "scatter", symbol: ["circle", "diamond", "triangle"][place], itemStyle: { color: SHADES[kind] }, symbolSize: 11,
        data: rows.filter(({ verdict }) => outcome(verdict) === kind).map(({ verdict, index }) => ({ value: [index + 1, verdict.runtime_ms * 1000], name: verdict.description, id: verdict.proposal })),
      })).filter(({ data }) => data.length),
      { name: "best so far", type: "line", step: "end", symbol: "none", data: best, lineStyle: { color: SHADES.baseline }, itemStyle: { color: SHADES.baseline } },
    ],
  }, 320);
  made.chart.on("click", ({ data }) => data.id && show(data.id));
}

// Where the proposals ended, and the spending on models.
function cost(body, optimize) {
  const { verdicts, spending } = optimize, place = element("div"), facts = element("div");
  body.append(element("div", { class: "twice" }, element("div", {}, element("h3", {}, "Stage at which the evaluation ended"), place), element("div", {}, element("h3", {}, "Cost"), facts)));
  const stages = [...new Set(verdicts.map(({ stage }) => stage))], kinds = Object.keys(SHADES).filter((kind) => verdicts.some((verdict) => outcome(verdict) === kind));
  chart(place, {
    grid: { left: 20, right: 30, top: 36, bottom: 30, containLabel: true }, legend: { top: 0 }, tooltip: { formatter: ({ seriesName, name, value }) => `${name}: ${number(value)} ${seriesName}` },
    xAxis: { type: "value", minInterval: 1 }, yAxis: { type: "category", data: stages.map(words), inverse: true },
    series: kinds.map((kind) => ({ name: kind, type: "bar", stack: "all", barMaxWidth: 26, itemStyle: { color: SHADES[kind] }, data: stages.map((stage) => verdicts.filter((verdict) => verdict.stage === stage && outcome(verdict) === kind).length) })),
  }, 90 + 36 * stages.length);
  const accepted = verdicts.filter((verdict) => verdict.accepted).length;
  const rows = [["evaluated rewrites", number(verdicts.length)], ["compiled", number(verdicts.filter(({ vgpr, compile_cached: cached }) => vgpr !== null && !cached).length)],
    ["from the compile cache", number(verdicts.filter(({ compile_cached: cached }) => cached).length)], ["run and timed", number(verdicts.filter(({ runtime_ms: time }) => time !== null).length)]];
  if (spending) {
    rows.push(["calls of models", number(spending.calls)], ["tokens read", number(spending.read)], ["tokens written", number(spending.written)], ["cost", spending.cost ? number(spending.cost) : "no prices configured"]);
    if (spending.cost && accepted) rows.push(["cost per accepted rewrite", number(spending.cost / accepted)]);
  } else rows.push(["models", "none were called"]);
  facts.append(element("table", { class: "facts" }, element("tbody", {}, ...rows.map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, value))))));
}
