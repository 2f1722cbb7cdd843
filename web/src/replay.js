// Replays of a capture: time of every replay, error band, check of the memory; and the captured dispatch with its memory.
import { chart, COLOURS } from "./charts.js";
import { bytes, element, number, percent } from "./format.js";
import { table } from "./tables.js";

export function replaySection(run) {
  const { replay } = run;
  if (!replay) return null;
  return (body) => {
    const { replays } = replay;
    if (replay.speedup) {
      body.append(element("p", {}, `The override needs ${number(1 / replay.speedup, 3)} of the captured time (speed-up ${replay.speedup.toFixed(2)}x, ${run.time_kind})`,
        replay.indistinguishable ? ": the two are indistinguishable on the emulator." : "."));
    }
    const place = element("div");
    body.append(element("h3", {}, "Times of the replays"), place);
    times(place, replays, run.time_kind);
    table(body, replays.map((one) => ({ title: one.title, ...one.timing, iterations: one.execution.iterations, mode: one.execution.mode, memory: memory(one), wall: one.wall_time_ms, gpu: one.environment.gpu_agent })), [
      { title: "replay", field: "title", width: 180 }, { title: `median us ${run.time_kind}`, field: "median", number: true, text: (v) => number(v) },
      { title: "least", field: "min", number: true, text: (v) => number(v) }, { title: "most", field: "max", number: true, text: (v) => number(v) },
      { title: "standard deviation", field: "stddev", number: true, text: (v) => number(v) }, { title: "iterations", field: "iterations", number: true },
      { title: "memory", field: "memory", node: (row) => element("span", { class: `outcome ${row.memory === "correct" ? "accepted" : row.memory === "wrong" ? "rejected" : ""}` }, row.memory) },
      { title: "GPU", field: "gpu", grow: 2 }, { title: "wall ms", field: "wall", number: true, text: (v) => number(v) },
    ]);
    for (const one of replays.filter(({ verification }) => verification?.mismatches.length)) {
      body.append(element("p", { class: "banner" }, `Wrong memory after the ${one.title}:`), element("ul", {}, ...one.verification.mismatches.map((text) => element("li", {}, text))));
    }
    const notes = [...new Set(replays.flatMap(({ notes: own }) => own))];
    if (notes.length) body.append(element("ul", { class: "muted" }, ...notes.map((note) => element("li", {}, note))));
  };
}

const memory = ({ verification }) => (verification === null ? "not checked" : verification.passed ? "correct" : "wrong");

function times(place, replays, kind) {
  const last = Math.max(...replays.map(({ timing }) => timing.samples.length));
  chart(place, {
    grid: { left: 20, right: 120, top: 40, bottom: 40, containLabel: true }, legend: { top: 0 }, tooltip: { formatter: ({ seriesName, value }) => `${seriesName}, replay ${value[0]}: ${number(value[1])} us` },
    xAxis: { type: "value", name: "replay", nameLocation: "middle", nameGap: 26, min: 1, max: Math.max(2, last), minInterval: 1 }, yAxis: { type: "value", name: `us ${kind}`, min: 0 },
    series: replays.map((one, index) => ({
      name: one.title, type: "line", symbol: ["circle", "diamond"][index % 2], symbolSize: 8, itemStyle: { color: COLOURS[index] }, lineStyle: { width: 1 },
      data: one.timing.samples.map((us, turn) => [turn + 1, us]),
      markLine: { symbol: "none", lineStyle: { type: "dashed" }, label: { formatter: `median ${number(one.timing.median)}`, color: "inherit" }, data: [{ yAxis: one.timing.median }] },
    })),
  }, 260);
  const { expected } = replays.at(-1).timing;
  if (expected) {
    place.after(element("p", { class: "muted" }, `${number(expected.low, 3)} to ${number(expected.high, 3)} us ${expected.status === "estimated" ? "expected" : "assumed"} on hardware for the ${replays.at(-1).title} (${percent(expected.coverage, 0)}); ` +
      `times that differ by less than ${number(expected.ratio_factor, 3)}x are indistinguishable.`));
  }
}

export function captureSection(run) {
  const { capture } = run;
  if (!capture) return null;
  return (body) => {
    const { dispatch, memory_regions: memory } = capture;
    const { packet } = dispatch, groups = packet.grid_size.map((items, axis) => Math.ceil(items / packet.workgroup_size[axis]));
    const facts = [["kernel", dispatch.kernel.name], ["workgroups", `${groups.join(" x ")} of ${packet.workgroup_size.join(" x ")} work-items`],
      ["LDS", `${number(packet.group_segment_size)} B per workgroup`], ["scratch", `${number(packet.private_segment_size)} B per work-item`], ["arguments", `${number(dispatch.kernel.kernarg_size)} B`],
      ["dispatch", `${dispatch.index.kernel} of this kernel, ${dispatch.index.process} of the process (from 0)`], ["mode", memory.mode]];
    body.append(element("table", { class: "facts" }, element("tbody", {}, ...facts.map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, value))))));
    body.append(element("h3", {}, `Memory: ${bytes(memory.regions.reduce((sum, { size }) => sum + size, 0))} in ${number(memory.regions.length)} ranges`));
    table(body, memory.regions.map((one) => ({ ...one, from: one.reached_from?.join(", ") ?? "" })), [
      { title: "address", field: "base", width: 150 }, { title: "size", field: "size", number: true, text: (v) => bytes(v) }, { title: "kind", field: "kind" }, { title: "location", field: "location" },
      { title: "reached from", field: "from", grow: 3 }, { title: "file", field: "file", grow: 2 },
    ]);
  };
}
