// Wavefronts: states over time, resident wavefronts per SIMD, exposed time, and a time line per wavefront, decoded on demand.
import { chart, COLOURS, echarts, STATE_COLOURS } from "./charts.js";
import { decoded, element, number, percent } from "./format.js";

const MOST_LANES = 48;
const STATES = ["empty", "idle", "exec", "wait", "stall"], DRAWN = [1, 2, 3, 4];

export function wavesSection(run) {
  const { waves } = run;
  if (!waves) return null;
  return (body) => {
    const kind = run.code?.emulated ? "emulated" : "measured";
    body.append(element("p", { class: "muted" }, `${number(waves.waves.length)} wavefronts in ${number(waves.end - waves.start)} cycles (${kind}). Scroll to zoom, drag to move.`));
    overview(body, waves);
    perSimd(body, run);
    timelines(body, waves);
  };
}

function axis(waves) {
  const bins = waves.overview[0].length;
  return Array.from({ length: bins }, (_, place) => Math.round(waves.start + ((waves.end - waves.start) * place) / bins));
}

function overview(body, waves) {
  const times = axis(waves), place = element("div");
  body.append(element("h3", {}, "States of the wavefronts over time"), place);
  chart(place, {
    grid: { left: 20, right: 20, top: 40, bottom: 40, containLabel: true }, legend: { top: 0 }, tooltip: { trigger: "axis", valueFormatter: (value) => number(value) },
    dataZoom: [{ type: "inside" }], xAxis: { type: "category", data: times, boundaryGap: false, name: "cycle", nameLocation: "middle", nameGap: 24 }, yAxis: { type: "value", name: "wavefronts" },
    series: waves.states.map((state, index) => ({
      name: state, type: "line", stack: "states", step: "middle", symbol: "none", lineStyle: { width: 0 }, areaStyle: { color: STATE_COLOURS[state], opacity: 0.9 }, itemStyle: { color: STATE_COLOURS[state] }, data: waves.overview[index],
    })),
  }, 240);
}

function perSimd(body, run) {
  const { waves } = run, times = axis(waves);
  const names = waves.simds.map(({ engine, compute_unit, simd }) => `SE${engine} CU${compute_unit} SIMD${simd}`);
  const place = element("div");
  body.append(element("h3", {}, "Occupancy over time"), place);
  chart(place, {
    grid: { left: 20, right: 90, top: 10, bottom: 30, containLabel: true }, tooltip: { formatter: ({ value }) => `${names[value[1]]}, cycle ${number(times[value[0]], 9)}: ${number(value[2])} wavefronts` },
    xAxis: { type: "category", data: times, name: "cycle" }, yAxis: { type: "category", data: names, inverse: true },
    visualMap: { min: 0, max: Math.max(1, ...waves.simds.flatMap(({ waves: one }) => one)), calculable: true, right: 0, top: "center", inRange: { color: ["#f4f4f4", "#56b4e9", "#0072b2", "#00304d"] }, textStyle: { color: COLOURS[7] } },
    series: [{ type: "heatmap", data: waves.simds.flatMap(({ waves: one }, row) => one.map((value, column) => [column, row, value])), progressive: 4000 }],
  }, 70 + 26 * Math.min(40, names.length));
  const simds = run.thread_trace?.simd_time?.simds ?? [];
  if (!simds.length) return;
  const parts = ["binding", "beside", "exposed", "empty"], explained = { binding: "busiest unit works", beside: "other instructions issue (hidden)", exposed: "all wavefronts wait (exposed)", empty: "no wavefront" };
  const bars = element("div");
  body.append(element("h3", {}, "Hidden and exposed time per SIMD"), bars);
  chart(bars, {
    grid: { left: 20, right: 20, top: 40, bottom: 30, containLabel: true }, legend: { top: 0 }, tooltip: { trigger: "item", formatter: ({ seriesName, name, value }) => `${name}<br>${seriesName}: ${percent(value)}` },
    xAxis: { type: "value", max: 1, axisLabel: { formatter: (value) => percent(value, 0) } }, yAxis: { type: "category", inverse: true, data: simds.map(({ engine, compute_unit, simd }) => `SE${engine} CU${compute_unit} SIMD${simd}`) },
    series: parts.map((part, index) => ({ name: explained[part], type: "bar", stack: "time", itemStyle: { color: [COLOURS[2], COLOURS[4], COLOURS[5], COLOURS[7]][index] }, data: simds.map((one) => one[part] / one.span) })),
  }, 90 + 26 * Math.min(40, simds.length));
}

function timelines(body, waves) {
  body.append(element("h3", {}, "Time lines"));
  const choices = [...new Set(waves.waves.map(([engine, simd, , , unit]) => `SE${engine} CU${unit} SIMD${simd}`))];
  const select = element("select", { "aria-label": "SIMD" }, ...["first wavefronts of each SIMD", ...choices].map((name) => element("option", {}, name)));
  const place = element("div"), note = element("p", { class: "muted", role: "status" });
  body.append(element("div", { class: "toolbar" }, select), element("div", { class: "lanes" }, place), note);
  const cache = new Map();
  const load = (name) => { if (!cache.has(name)) cache.set(name, decoded(name)); return cache.get(name); };
  let drawn = null, lanes = [];
  const draw = async () => {
    const wanted = select.selectedIndex === 0 ? spread(waves.waves, choices.length) : waves.waves.filter(([engine, simd, , , unit]) => `SE${engine} CU${unit} SIMD${simd}` === select.value);
    const shown = wanted.slice(0, MOST_LANES), left = wanted.length - shown.length;
    lanes = await Promise.all(shown.map(async ([engine, simd, slot, count, unit, begin, , , chunk, position]) => new Lane(`SE${engine} CU${unit} SIMD${simd} slot ${slot}.${count}`, begin, (await load(chunk))[position])));
    note.textContent = `${number(shown.length)} wavefronts, ${number(lanes.reduce((sum, { states }) => sum + states.length, 0))} states${left ? `; ${number(left)} more wavefronts of this SIMD are not drawn` : ""}. States shorter than a pixel have the colour of the longest among them. Barriers and s_waitcnt are wait states.`;
    const options = {
      grid: { left: 20, right: 20, top: 10, bottom: 60, containLabel: true }, aria: { enabled: false },
      dataZoom: [{ type: "inside", filterMode: "none" }, { type: "slider", filterMode: "none", height: 18, showDataShadow: false }],
      xAxis: { type: "value", min: waves.start, max: waves.end, name: "cycle", nameLocation: "middle", nameGap: 24 }, yAxis: { type: "category", data: lanes.map(({ name }) => name), inverse: true },
      series: [{
        type: "custom", silent: true, clip: false, encode: { x: [1, 2], y: 0 },
        data: lanes.flatMap((_, lane) => DRAWN.map((state) => [lane, waves.start, waves.end, state])),
        renderItem: ({ coordSys, dataIndex }, api) => {
          const lane = Math.floor(dataIndex / DRAWN.length), state = DRAWN[dataIndex % DRAWN.length];
          const [from, y] = api.coord([waves.start, lane]), [to] = api.coord([waves.end, lane]), height = api.size([0, 1])[1] * 0.8;
          const cells = lanes[lane].cells(coordSys.x, coordSys.x + coordSys.width, from, (to - from) / (waves.end - waves.start || 1), waves.start)[state];
          return { type: "laneStates", shape: { cells, y: y - height / 2, height }, style: { fill: STATE_COLOURS[STATES[state]] } };
        },
      }],
    };
    place.style.height = `${100 + 22 * lanes.length}px`;
    if (drawn) { drawn.update(options); drawn.chart.resize(); } else { drawn = chart(place, options, 100 + 22 * lanes.length); follow(place, drawn.chart, () => lanes); }
  };
  select.addEventListener("change", draw);
  draw();
}

// Shows the state under the pointer.
function follow(place, made, lanes) {
  const tip = element("div", { class: "tip", hidden: true });
  place.parentElement.insertBefore(tip, place);
  made.getZr().on("mousemove", ({ offsetX, offsetY }) => {
    const inside = made.containPixel("grid", [offsetX, offsetY]);
    const [cycle, row] = inside ? made.convertFromPixel("grid", [offsetX, offsetY]) : [0, -1];
    const lane = lanes()[row], at = lane?.at(cycle) ?? -1;
    tip.hidden = at < 0;
    if (at < 0) return;
    tip.textContent = `${lane.name}: ${STATES[lane.states[at]]}, ${number(lane.ends[at] - lane.begins[at])} cycles from ${number(lane.begins[at], 9)}`;
    tip.style.transform = `translate(${Math.min(offsetX + 14, place.clientWidth - 330)}px, ${offsetY + 14}px)`;
  });
  made.getZr().on("globalout", () => { tip.hidden = true; });
}

// One path for all intervals of a state in a lane: a thousand shapes would take too long to draw while the page scrolls or zooms.
echarts.graphic.registerShape("laneStates", echarts.graphic.extendShape({
  shape: { cells: [], y: 0, height: 0 },
  buildPath: (context, { cells, y, height }) => { for (let index = 0; index < cells.length; index += 2) context.rect(cells[index], y, cells[index + 1], height); },
}));

// States of one wavefront, and their place on the screen.
class Lane {
  constructor(name, begin, timeline) {
    this.name = name;
    this.states = Uint8Array.from(timeline, ([state]) => state);
    this.ends = new Float64Array(timeline.length);
    this.begins = new Float64Array(timeline.length);
    let at = begin;
    timeline.forEach(([, cycles], index) => { this.begins[index] = at; at += cycles; this.ends[index] = at; });
    this.key = "";
  }

  // Index of the first state that ends after a cycle.
  first(cycle) {
    let low = 0, high = this.ends.length;
    while (low < high) { const middle = (low + high) >> 1; if (this.ends[middle] > cycle) high = middle; else low = middle + 1; }
    return low;
  }

  at(cycle) {
    const found = this.first(cycle);
    return found < this.ends.length && this.begins[found] <= cycle && this.states[found] ? found : -1;
  }

  // Left edges and widths in pixels per state, between two edges; `from` is the pixel of the cycle `start`.
  cells(left, right, from, scale, start) {
    const key = `${left} ${right} ${from} ${scale}`;
    if (key === this.key) return this.found;
    const found = STATES.map(() => []), sums = new Float64Array(STATES.length);
    let column = NaN, last = 0;
    // Intervals of one state that touch are one rectangle.
    const add = (state, begin, width) => {
      const cells = found[state], previous = cells.length - 2;
      if (state === last && previous >= 0 && begin - cells[previous] - cells[previous + 1] < 0.01) cells[previous + 1] = begin + width - cells[previous];
      else cells.push(begin, width);
      last = state;
    };
    const flush = () => {
      let longest = 0;
      for (let state = 1; state < sums.length; state += 1) if (sums[state] > sums[longest]) longest = state;
      if (longest) add(longest, column, 1);
      sums.fill(0);
    };
    for (let index = this.first(start + (left - from) / scale); index < this.states.length; index += 1) {
      const begin = Math.max(left, from + (this.begins[index] - start) * scale), end = Math.min(right, from + (this.ends[index] - start) * scale);
      if (begin >= right) break;
      if (end - begin >= 1) {
        flush();
        column = NaN;
        const edge = Math.floor(begin);
        if (this.states[index]) add(this.states[index], edge, Math.floor(end) - edge);
        continue;
      }
      if (Math.floor(begin) !== column) { flush(); column = Math.floor(begin); }
      if (this.states[index]) sums[this.states[index]] += end - begin;
    }
    flush();
    this.key = key;
    this.found = found;
    return found;
  }
}

// The first wavefronts of every SIMD, in order.
function spread(waves, simds) {
  const each = Math.max(1, Math.floor(MOST_LANES / simds)), counts = new Map();
  return waves.filter(([engine, simd, , , unit]) => {
    const key = `${engine} ${unit} ${simd}`, count = counts.get(key) ?? 0;
    counts.set(key, count + 1);
    return count < each;
  });
}
