// Interactive rooflines: memory levels and compute peaks, the kernel at each level, and the path of rewrites.
import { chart, COLOURS, style } from "./charts.js";
import { element, number, percent, words } from "./format.js";
import { table } from "./tables.js";

const FROM = 1 / 64, TO = 4096;

// Points of one kernel whose labels would overlap.
const near = (one, other) => Math.abs(Math.log2(one.value[0] / other.value[0])) < 0.6;

function roofs(roofline) {
  const memory = roofline.memory.filter(({ peak_gb_per_s }) => peak_gb_per_s);
  const compute = roofline.compute.filter(({ peak_gflop_per_s }) => peak_gflop_per_s);
  const top = Math.max(roofline.peak_gflop_per_s ?? 0, ...compute.map(({ peak_gflop_per_s }) => peak_gflop_per_s));
  return { memory, compute, top };
}

export function rooflineChart(place, runs, height = 440) {
  const { memory, compute, top } = roofs(runs[0].roofline.roofline);
  const series = memory.map((level, index) => ({
    name: `${level.level} ${number(level.peak_gb_per_s)} GB/s`, type: "line", symbol: "none", lineStyle: { width: 1.5, color: COLOURS[index % COLOURS.length] },
    itemStyle: { color: COLOURS[index % COLOURS.length] },
    data: [[FROM, FROM * level.peak_gb_per_s], [top / level.peak_gb_per_s, top]],
  }));
  const unused = compute.every(({ flops }) => !flops);
  compute.filter(({ flops, peak_gflop_per_s }) => flops || unused || peak_gflop_per_s === top).forEach((unit) => series.push({
    name: `${unit.unit} ${unit.data_type} ${number(unit.peak_gflop_per_s / 1000)} TFLOP/s`, type: "line", symbol: "none",
    lineStyle: { width: 1.5, type: "dashed", color: COLOURS[7] }, itemStyle: { color: COLOURS[7] },
    data: [[FROM, unit.peak_gflop_per_s], [TO, unit.peak_gflop_per_s]],
  }));
  const drawn = [];
  runs.forEach((run, index) => {
    const found = run.roofline.roofline;
    const points = found.memory.filter(({ intensity }) => intensity > 0).map((level) => ({
      value: [level.intensity, found.gflop_per_s], name: level.level, tip: `${level.level}: ${number(level.intensity)} FLOP/B, ${number(level.gb_per_s)} GB/s (${percent(level.utilisation)} of the peak)`,
    }));
    if (found.intensity > 0 && found.gflop_per_s > 0 && !points.some(({ name }) => name === "dram")) points.push({ value: [found.intensity, found.gflop_per_s], name: "dram", tip: "" });
    points.forEach((point) => { point.label = points.find((other) => near(other, point)) === point ? points.filter((other) => near(other, point)).map(({ name }) => name).join(", ") : ""; });
    drawn.push(...points.map(({ value }) => value), ...(run.path ?? []).map(({ intensity, gflop_per_s: speed }) => [intensity, speed]));
    if (run.path?.length) series.push(...pathSeries(run));
    series.push({
      name: run.label ?? (run.optimize ? "unmodified" : "kernel"), type: "scatter", symbol: ["circle", "diamond", "triangle", "rect"][index % 4], symbolSize: 13, data: points.filter(({ value }) => value[1] > 0),
      itemStyle: { color: COLOURS[(5 + index) % COLOURS.length] },
      label: { show: true, position: index % 2 ? "top" : "bottom", formatter: ({ data }) => data.label, color: "inherit", fontSize: 11 },
    });
  });
  const least = Math.min(...drawn.map(([, speed]) => speed).filter((speed) => speed > 0), top);
  chart(place, {
    grid: { left: 20, right: 30, top: 78, bottom: 40, containLabel: true },
    legend: { top: 0, itemWidth: 16, itemGap: 14, textStyle: { fontSize: 11, color: style("--text") } },
    tooltip: { trigger: "item", formatter: (item) => `${item.seriesName}<br>${item.data.tip ?? `${number(item.value[0])} FLOP/B, ${number(item.value[1])} GFLOP/s`}` },
    dataZoom: [{ type: "inside", xAxisIndex: 0, filterMode: "none" }, { type: "inside", yAxisIndex: 0, filterMode: "none" }],
    xAxis: { type: "log", logBase: 2, min: FROM, max: TO, name: "FLOP/B", nameLocation: "middle", nameGap: 28, axisLabel: { formatter: (value) => (value < 1 ? `1/${Math.round(1 / value)}` : value) } },
    yAxis: { type: "log", name: "GFLOP/s", min: 10 ** Math.floor(Math.log10(least / 3)) },
    series,
  }, height);
}

// The rewrites of an optimization at the DRAM level, and the path of those that were kept, from the unmodified kernel.
function pathSeries(run) {
  const verdicts = new Map(run.optimize.verdicts.map((verdict) => [verdict.proposal, verdict]));
  const places = new Map(run.path.map(({ proposal, intensity, gflop_per_s: speed }) => [proposal, [intensity, speed]]));
  const found = run.roofline.roofline, kept = [];
  for (let id = run.optimize.best.proposal; verdicts.has(id) && kept.length <= verdicts.size; id = verdicts.get(id).parent) kept.unshift(id);
  const line = [[found.intensity, found.gflop_per_s], ...kept.map((id) => places.get(id))].filter((one) => one?.every((value) => value > 0));
  const point = ([id, value]) => ({ value, tip: `${verdicts.get(id).description}<br>${number(value[0])} FLOP/B, ${number(value[1])} GFLOP/s` });
  const [accepted, others] = [true, false].map((wanted) => [...places].filter(([id]) => kept.includes(id) === wanted).map(point));
  return [
    { name: "path of kept rewrites", type: "line", symbol: "none", data: line, z: 4, lineStyle: { color: COLOURS[2], width: 2.5 }, itemStyle: { color: COLOURS[2] } },
    { name: "kept rewrite", type: "scatter", symbol: "diamond", symbolSize: 15, z: 5, data: accepted, itemStyle: { color: COLOURS[2] } },
    { name: "other rewrite", type: "scatter", symbol: "triangle", symbolSize: 9, z: 3, data: others, itemStyle: { color: COLOURS[1], opacity: 0.8 } },
  ].filter(({ data }) => data.length);
}

export function rooflineSection(run) {
  if (!run.roofline?.roofline) {
    return run.roofline?.reason ? (body) => body.append(element("p", {}, run.roofline.reason)) : null;
  }
  return (body) => {
    const found = run.roofline.roofline;
    body.append(element("p", {}, `${words(found.position)}: ${number(found.intensity)} FLOP/B, ${number(found.gb_per_s)} of ${number(found.peak_gb_per_s)} GB/s` +
      (found.gflop_per_s === null ? "" : `, ${number(found.gflop_per_s)} of ${number(found.peak_gflop_per_s)} GFLOP/s`) + ` (${found.peaks} peaks, times ${run.time_kind}). Scroll to zoom.`));
    const place = element("div");
    body.append(place);
    rooflineChart(place, [{ ...run }]);
    table(body, found.memory, [
      { title: "level", field: "level" },
      { title: "GB/s", field: "gb_per_s", number: true, text: (v) => number(v) },
      { title: "peak GB/s", field: "peak_gb_per_s", number: true, text: (v) => number(v) },
      { title: "utilisation", field: "utilisation", number: true, text: (v) => percent(v) },
      { title: "FLOP/B", field: "intensity", number: true, text: (v) => number(v) },
      { title: "if missing", field: "reason", grow: 2 },
    ]);
    if (found.notes.length) body.append(element("ul", { class: "muted" }, ...found.notes.map((note) => element("li", {}, note))));
  };
}
