// Search: best time so far, predictions, slices and importance of parameters, failures by reason, all trials.
import { chart, COLOURS, echarts, timeAxis } from "./charts.js";
import { element, number, percent } from "./format.js";
import { table } from "./tables.js";

export function autotuneSection(run) {
  const { autotune } = run;
  if (!autotune) return null;
  return (body) => {
    const trials = autotune.trials.map((trial) => ({ ...trial, us: trial.runtime_ms === null ? null : trial.runtime_ms * 1000, guess: trial.predicted_ms === null ? null : trial.predicted_ms * 1000 }));
    const ran = trials.filter(({ us }) => us !== null);
    if (autotune.warning) body.append(element("p", { class: "banner" }, `Warning: ${autotune.warning.replaceAll("_", " ")}: the model explains little of the times.`));
    if (autotune.remaining?.length) {
      body.append(element("h3", {}, "Left to find"), element("div", { class: "cards" }, ...autotune.remaining.map(({ better_than: share, probability }) => element("div", { class: "card" },
        element("div", { class: "title" }, `at least ${percent(share, 0)} faster`), element("div", { class: "value" }, percent(probability, 0)), element("div", { class: "meter" }, element("div", { style: `width:${probability * 100}%` }))))),
      element("p", { class: "muted" }, "Probability that the space has a configuration that is faster than the best one by this share."));
    }
    const [first, second] = [element("div"), element("div")];
    body.append(element("div", { class: "twice" }, element("div", {}, element("h3", {}, "Best time so far"), first), element("div", {}, element("h3", {}, "Importance of parameters"), second)));
    progress(first, ran, autotune);
    importances(second, autotune);
    slices(body, ran, autotune);
    if (ran.some(({ guess }) => guess)) predictions(body, ran, autotune);
    failures(body, autotune);
    const names = Object.keys(trials[0]?.parameters ?? {});
    body.append(element("h3", {}, "Trials"));
    table(body, trials.map(({ parameters, ...trial }) => ({ ...Object.fromEntries(names.map((name) => [`p_${name}`, parameters[name]])), ...trial, failed: autotune.failures.find((row) => row.trial === trial.trial)?.reason ?? "" })), [
      { title: "trial", field: "trial", number: true, width: 70 }, { title: "phase", field: "phase", width: 90 },
      ...names.map((name) => ({ title: name, field: `p_${name}`, number: typeof trials[0].parameters[name] === "number" })),
      { title: `us ${autotune.time_kind}`, field: "us", number: true, text: (v) => (v === null ? "" : number(v)) }, { title: "predicted us", field: "guess", number: true, text: (v) => (v === null ? "" : number(v)) },
      { title: "failure", field: "failed", grow: 2, tooltip: ({ failed }) => failed },
    ]);
  };
}

function progress(place, ran, { time_kind: kind }) {
  let least = Infinity;
  const best = ran.map(({ trial, us }) => { least = Math.min(least, us); return [trial, least]; });
  chart(place, {
    grid: { left: 20, right: 20, top: 40, bottom: 40, containLabel: true }, legend: { top: 0 }, tooltip: { formatter: ({ data, seriesName }) => `${seriesName}, trial ${(data.value ?? data)[0]}: ${number((data.value ?? data)[1])} us<br>${echarts.format.encodeHTML(data.name ?? "")}` },
    xAxis: { type: "value", name: "trial", nameLocation: "middle", nameGap: 26, minInterval: 1 }, yAxis: timeAxis(ran.map(({ us }) => us), `us ${kind}`),
    series: [...new Set(ran.map(({ phase }) => phase))].map((phase, index) => ({
      name: phase, type: "scatter", symbol: ["circle", "diamond", "triangle", "rect"][index % 4], symbolSize: 8, itemStyle: { color: COLOURS[(index + 1) % COLOURS.length] },
      data: ran.filter((trial) => trial.phase === phase).map(({ trial, us, parameters }) => ({ value: [trial, us], name: Object.entries(parameters).map(([n, v]) => `${n}=${v}`).join(", ") })),
    })).concat({ name: "best so far", type: "line", step: "end", symbol: "none", data: best, lineStyle: { color: COLOURS[0], width: 2 }, itemStyle: { color: COLOURS[0] } }),
  });
}

function importances(place, { parameter_importances: shares }) {
  const rows = Object.entries(shares ?? {}).sort((a, b) => a[1] - b[1]);
  if (!rows.length) { place.append("Too few trials."); return; }
  chart(place, {
    grid: { left: 20, right: 40, top: 10, bottom: 30, containLabel: true }, tooltip: { formatter: ({ name, value }) => `${name}: ${percent(value)}` },
    xAxis: { type: "value", axisLabel: { formatter: (value) => percent(value, 0) } }, yAxis: { type: "category", data: rows.map(([name]) => name) },
    series: [{ type: "bar", data: rows.map(([, share]) => share), label: { show: true, position: "right", formatter: ({ value }) => percent(value, 0) } }],
  }, Math.max(160, 34 * rows.length + 60));
}

function slices(body, ran, autotune) {
  const names = Object.keys(ran[0]?.parameters ?? {});
  if (!names.length) return;
  const panels = element("div", { class: "slices" });
  body.append(element("h3", {}, "Slices: time by value of each parameter"), panels);
  for (const name of names) {
    const values = [...new Set(ran.map(({ parameters }) => parameters[name]))].sort((a, b) => (a > b ? 1 : -1)), place = element("div");
    panels.append(element("div", {}, element("h4", {}, name), place));
    const least = values.map((value) => Math.min(...ran.filter(({ parameters }) => parameters[name] === value).map(({ us }) => us)));
    chart(place, {
      grid: { left: 10, right: 10, top: 30, bottom: 24, containLabel: true }, tooltip: { formatter: ({ value }) => `${name}=${values[value[0]]}: ${number(value[1])} us` },
      xAxis: { type: "category", data: values.map(String) }, yAxis: { ...timeAxis(ran.map(({ us }) => us), `us ${autotune.time_kind}`), nameGap: 8, nameTextStyle: { fontSize: 10, align: "left" } },
      series: [{ type: "scatter", symbolSize: 7, data: ran.map(({ parameters, us }) => [values.indexOf(parameters[name]), us]) }, { type: "line", data: least.map((us, place) => [place, us]), symbol: "none" }],
    }, 190);
  }
}

function predictions(body, ran, autotune) {
  const rows = ran.filter(({ guess }) => guess > 0), all = rows.flatMap(({ us, guess }) => [us, guess]), place = element("div");
  body.append(element("h3", {}, "Predicted and actual times"), place);
  chart(place, {
    grid: { left: 20, right: 40, top: 34, bottom: 40, containLabel: true }, tooltip: { formatter: ({ data }) => `predicted ${number(data[0])} us, ${autotune.time_kind} ${number(data[1])} us` },
    xAxis: { ...timeAxis(all, "predicted us"), nameLocation: "middle", nameGap: 26 }, yAxis: timeAxis(all, `us ${autotune.time_kind}`),
    series: [{ type: "scatter", symbolSize: 9, data: rows.map(({ us, guess }) => [guess, us]) }, { type: "line", symbol: "none", lineStyle: { type: "dashed", color: COLOURS[7] }, data: [Math.min(...all), Math.max(...all)].map((end) => [end, end]) }],
  });
}

function failures(body, autotune) {
  const reasons = new Map();
  for (const { stage, reason } of autotune.failures) reasons.set(`${stage}: ${reason.split("\n")[0]}`, (reasons.get(`${stage}: ${reason.split("\n")[0]}`) ?? 0) + 1);
  for (const row of autotune.discarded ?? []) reasons.set(`${row.stage}: ${row.reason} (before any run)`, row.configurations);
  if (!reasons.size) return;
  body.append(element("h3", {}, "Failures by reason"));
  table(body, [...reasons].map(([reason, count]) => ({ reason, count })), [{ title: "reason", field: "reason", grow: 5 }, { title: "configurations", field: "count", number: true, text: (v) => number(v) }]);
}
