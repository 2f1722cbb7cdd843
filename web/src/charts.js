// Charts of ECharts with the colours of the page. All charts follow its theme and size.
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, TreeChart } from "echarts/charts";
import {
  AriaComponent, DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent, VisualMapComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

echarts.use([
  BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart, TreeChart, AriaComponent, DataZoomComponent, GridComponent,
  LegendComponent, MarkLineComponent, TooltipComponent, VisualMapComponent, CanvasRenderer,
]);

// Okabe and Ito: distinguishable with all common kinds of colour blindness.
export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7f7f7f"];
export const STATE_COLOURS = { exec: "#009e73", wait: "#e69f00", stall: "#d55e00", idle: "#9aa0a8" };

const charts = [];

export const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function chart(place, options, height = 320) {
  place.classList.add("chart");
  place.style.height = `${height}px`;
  const made = echarts.init(place);
  const entry = { made, options };
  charts.push(entry);
  apply(entry);
  new ResizeObserver(() => made.resize()).observe(place);
  return { chart: made, update: (changed) => { entry.options = changed; apply(entry); } };
}

export function redrawAll() {
  charts.forEach(apply);
}

export function resizeAll() {
  charts.forEach(({ made }) => made.resize());
}

function apply({ made, options }) {
  const given = typeof options === "function" ? options() : options;
  const text = style("--text"), line = style("--line"), muted = style("--muted");
  const axis = (one) => ({
    axisLine: { lineStyle: { color: line } }, splitLine: { lineStyle: { color: line, opacity: 0.6 } },
    nameTextStyle: { color: muted }, ...one, axisLabel: { color: muted, ...(one.axisLabel ?? {}) },
  });
  const axes = (given) => (given === undefined ? undefined : [given].flat().map(axis));
  made.setOption({
    color: COLOURS, animation: false, textStyle: { color: text, fontFamily: "inherit" },
    aria: { enabled: true },
    ...given,
    ...(given.xAxis ? { xAxis: axes(given.xAxis), yAxis: axes(given.yAxis) } : {}),
    legend: given.legend ? { textStyle: { color: text }, inactiveColor: muted, ...given.legend } : undefined,
    tooltip: given.tooltip
      ? { backgroundColor: style("--card"), borderColor: line, textStyle: { color: text, fontSize: 12 }, confine: true, ...given.tooltip }
      : undefined,
  }, true);
}

// An axis for times: logarithmic only if they differ by more than a factor of 20, and without empty space.
export function timeAxis(values, name) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (least > 0 && most / least > 20) return { type: "log", name };
  const margin = (most - least || most || 1) * 0.08, step = 10 ** Math.floor(Math.log10(Math.max(margin, 1e-9)));
  return { type: "value", name, min: Math.max(0, Math.floor((least - margin) / step) * step), max: Math.ceil((most + margin) / step) * step, axisLabel: { hideOverlap: true, showMinLabel: false, showMaxLabel: false, formatter: (value) => String(Number(value.toPrecision(4))) } };
}

export { echarts };
