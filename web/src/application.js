// Application: kernels, queues on a time line, copies, communication, idle gaps, critical path.
import { chart, COLOURS, echarts } from "./charts.js";
import { element, number, percent, shortened } from "./format.js";
import { table } from "./tables.js";

export function applicationSection(run) {
  const { application, dag, profile } = run;
  const kernels = application?.kernels ?? profile?.kernels ?? [];
  if (!application && (dag?.nodes.length ?? 0) < 2) return null;
  return (body) => {
    const facts = application ? [
      `${number(application.dispatches)} dispatches`, application.wall_ms === null ? null : `${number(application.wall_ms)} ms ${run.time_kind}`,
      application.idle_share === null ? null : `idle ${percent(application.idle_share)}`, application.critical_path_ms === null ? null : `critical path ${number(application.critical_path_ms)} ms`,
      ...application.gpus.map((gpu) => `${gpu.name}: busy ${number(gpu.busy_ms)} ms`),
    ] : [`critical path ${number(dag.critical_path_ns / 1e6)} of ${number(dag.wall_ns / 1e6)} ms ${run.time_kind}`];
    body.append(element("p", {}, facts.filter(Boolean).join("; ")));
    table(body, kernels, [
      { title: "kernel", field: "name", grow: 4, width: 200, text: (v) => shortened(v, 110), tooltip: ({ name }) => name },
      { title: "kind", field: "kind", text: (v) => v ?? "compute", width: 115 },
      { title: "calls", field: "calls", number: true, text: (v) => number(v) },
      { title: "total ms", field: "total_ms", number: true, text: (v) => number(v) },
      { title: "median ms", field: "median_ms", number: true, text: (v) => number(v) },
      { title: "share", field: "share", number: true, text: (v) => percent(v) },
      { title: "exposed ms", field: "exposed_ms", number: true, text: (v) => (v == null ? "" : number(v)) },
      { title: "critical path", field: "critical_path_share", number: true, text: (v) => percent(v) },
    ]);
    groupRows(body, application);
    if (dag?.nodes.length > 1) queues(body, dag, run.time_kind);
    if (dag?.longest_gaps.length) {
      body.append(element("h3", {}, "Idle gaps"));
      table(body, dag.longest_gaps, [
        { title: "start ms", field: "start_ns", number: true, text: (v) => number(v / 1e6, 7) },
        { title: "ms", field: "duration_ns", number: true, text: (v) => number(v / 1e6) },
        { title: "after", field: "before", grow: 3, text: (v) => shortened(v ?? "", 90), tooltip: ({ before }) => before },
        { title: "before", field: "after", grow: 3, text: (v) => shortened(v ?? "", 90), tooltip: ({ after }) => after },
      ]);
    }
  };
}

function groupRows(body, application) {
  const rows = ["communication", "copies"].filter((name) => application?.[name]).map((name) => ({ name, ...application[name] }));
  if (!rows.length) return;
  body.append(element("h3", {}, "Copies and communication"));
  table(body, rows, [
    { title: "work", field: "name" }, { title: "count", field: "count", number: true, text: (v) => number(v) },
    { title: "total ms", field: "total_ms", number: true, text: (v) => number(v) },
    { title: "not hidden by kernels, ms", field: "exposed_ms", number: true, width: 190, text: (v) => number(v) },
    { title: "MB", field: "size_bytes", number: true, text: (v) => (v == null ? "–" : number(v / 1e6)) },
  ]);
}

function queues(body, dag, kind) {
  const laneOf = (node) => `GPU ${node.agent} ${node.kind === "dispatch" ? `queue ${node.queue}` : "copies"}, stream ${node.stream}`;
  const lanes = [...new Set(dag.nodes.map(laneOf))].sort();
  const names = [...new Set(dag.nodes.map(({ kernel }) => kernel))];
  const left = dag.nodes_left_out ? ` The ${number(dag.nodes.length)} longest of ${number(dag.nodes_total)} are shown.` : "";
  body.append(element("h3", {}, "Queues"), element("p", { class: "muted" }, `Times ${kind}; dark outlines are the critical path. Scroll to zoom, drag to move.${left}`));
  const place = element("div");
  body.append(place);
  chart(place, {
    grid: { left: 20, right: 30, top: 10, bottom: 60, containLabel: true },
    tooltip: { formatter: ({ data }) => `${echarts.format.encodeHTML(shortened(data.name, 120))}<br>${number(data.value[1], 7)} ms, ${number(data.value[2] - data.value[1])} ms${data.critical ? ", on the critical path" : ""}` },
    dataZoom: [{ type: "inside", filterMode: "weakFilter" }, { type: "slider", filterMode: "weakFilter", height: 18 }],
    xAxis: { type: "value", name: "ms", scale: true }, yAxis: { type: "category", data: lanes, inverse: true },
    series: [{
      type: "custom", encode: { x: [1, 2], y: 0 }, data: dag.nodes.map((node) => ({
        value: [lanes.indexOf(laneOf(node)), node.start_ns / 1e6, (node.start_ns + node.duration_ns) / 1e6, node.critical ? 1 : 0], name: node.kernel, critical: node.critical,
        itemStyle: { color: COLOURS[names.indexOf(node.kernel) % COLOURS.length] },
      })),
      renderItem: (parameters, api) => {
        const [x, y] = api.coord([api.value(1), api.value(0)]), [end] = api.coord([api.value(2), api.value(0)]);
        const height = Math.min(26, api.size([0, 1])[1] * 0.7);
        const shape = echarts.graphic.clipRectByRect({ x, y: y - height / 2, width: Math.max(end - x, 1), height },
          { x: parameters.coordSys.x, y: parameters.coordSys.y, width: parameters.coordSys.width, height: parameters.coordSys.height });
        return shape && { type: "rect", shape, style: { fill: api.visual("color"), stroke: api.value(3) && end - x > 4 ? "#111" : "none", lineWidth: 1.5 } };
      },
    }],
  }, 120 + 44 * lanes.length);
}
