// Document of `rocm-perf compare`: change of each kernel with its interval, and the verdicts.
import { chart, COLOURS } from "./charts.js";
import { element, number, percent } from "./format.js";
import { table } from "./tables.js";

const SHADES = { slower: COLOURS[5], faster: COLOURS[2] };

export function changesSection(run) {
  const { compare } = run;
  if (!compare) return null;
  return (body) => {
    const { base, new: other, kernels } = compare;
    const counts = Object.entries(compare.verdicts).filter(([, count]) => count).map(([verdict, count]) => `${number(count)} ${verdict}`);
    body.append(element("p", {}, `${base.path} (${base.gpu ?? "unknown GPU"}, ${base.time_kind}) and ${other.path} (${other.gpu ?? "unknown GPU"}, ${other.time_kind}): ${counts.join(", ")}.`));
    for (const text of compare.differences) body.append(element("p", { class: "banner" }, text));
    const known = kernels.filter(({ change }) => change !== null).sort((a, b) => b.change - a.change).slice(0, 40);
    if (known.length) {
      const place = element("div");
      body.append(element("h3", {}, "Change of the time"), place);
      chart(place, {
        grid: { left: 20, right: 40, top: 10, bottom: 40, containLabel: true },
        tooltip: { formatter: ({ dataIndex }) => { const one = known[dataIndex]; return `${one.verdict}<br>${percent(one.change)}${one.interval ? ` (${percent(one.interval[0])} to ${percent(one.interval[1])})` : ""}`; } },
        xAxis: { type: "value", axisLabel: { formatter: (value) => percent(value, 0) } }, yAxis: { type: "category", data: known.map(({ name }) => (name.length > 40 ? `${name.slice(0, 39)}…` : name)), inverse: true },
        series: [
          { type: "bar", barMaxWidth: 22, data: known.map(({ change, verdict }) => ({ value: change, itemStyle: { color: SHADES[verdict] ?? COLOURS[7] } })) },
          { type: "custom", silent: true, data: known.map(({ interval }, row) => [...(interval ?? [NaN, NaN]), row]), encode: { x: [0, 1], y: 2 }, renderItem: (_, api) => {
            const [x, y] = api.coord([api.value(0), api.value(2)]), [end] = api.coord([api.value(1), api.value(2)]);
            return Number.isFinite(x) && Number.isFinite(end) ? { type: "path", shape: { pathData: `M${x} ${y - 5}V${y + 5}M${x} ${y}H${end}M${end} ${y - 5}V${y + 5}` }, style: { stroke: api.visual("color") && "#555", fill: "none", lineWidth: 1.5 } } : null;
          } },
        ],
      }, 70 + 30 * known.length);
    }
    table(body, kernels, [
      { title: "kernel", field: "name", grow: 3, width: 200, tooltip: ({ name }) => name }, { title: "verdict", field: "verdict", node: ({ verdict, regression }) => element("span", { class: `outcome ${regression ? "rejected" : verdict === "faster" ? "accepted" : ""}` }, verdict) },
      { title: "before ms", field: "base_ms", number: true, text: (v) => (v === null ? "" : number(v)) }, { title: "after ms", field: "new_ms", number: true, text: (v) => (v === null ? "" : number(v)) },
      { title: "change", field: "change", number: true, text: (v) => (v === null ? "" : `${v > 0 ? "+" : ""}${percent(v)}`) }, { title: "p", field: "p_value", number: true, text: (v) => (v === null ? "" : number(v, 2)) },
      { title: "reason", field: "reason", grow: 5, width: 260, node: ({ reason, note }) => element("div", { class: "evidence" }, reason, note ? element("div", { class: "muted" }, note) : null) },
    ]);
    if (compare.remarks.length) body.append(element("ul", { class: "muted" }, ...compare.remarks.map((text) => element("li", {}, text))));
  };
}
