// Defects: findings of the checks of an application or a kernel, and verdicts on candidates.
import { counted, element, number } from "./format.js";
import { table } from "./tables.js";

export function findingsSection(run) {
  const found = run.run?.findings ?? run.checks?.findings;
  if (!found) return null;
  return (body) => {
    if (run.run) {
      body.append(element("p", {}, `${counted(run.run.dispatches, "dispatch", "dispatches")}, ${number(run.run.instructions)} instructions, ${number(run.run.kernel_time_ns / 1e3)} us of kernels (${run.run.time_kind}).`));
    }
    if (!found.length) { body.append(element("p", {}, "The checks found no defect.")); return; }
    const rows = found.map((one) => ({ ...one, name: String(one.check ?? one.kind ?? "").replaceAll("_", " ") }));
    table(body, rows, [
      { title: "check", field: "name", width: 110 }, { title: "defect", field: "message", grow: 5, width: 320, node: ({ message, instruction }) => element("div", { class: "evidence" }, element("div", {}, message), instruction ? element("code", { class: "muted" }, instruction) : null) },
      { title: "times", field: "count", number: true, text: (v) => number(v ?? 1) }, { title: "kernel", field: "kernel", grow: 2, node: ({ kernel }) => element("div", { class: "evidence" }, kernel ?? "") },
      { title: "source", field: "source", grow: 2, node: ({ source }) => element("div", { class: "evidence" }, short(source)), tooltip: ({ source }) => source ?? "" }, { title: "call", field: "call_site", grow: 2, node: ({ call_site: call }) => element("div", { class: "evidence" }, short(call)), tooltip: ({ call_site: call }) => call ?? "" },
    ]);
  };
}

const short = (place) => (place ? place.split("/").at(-1) : "");

export function verdictsSection(run) {
  const { verify } = run;
  if (!verify?.length) return null;
  return (body) => {
    const rows = verify.map((one) => ({ ...one, file: short(one.candidate), line: one.evidence.source_line, untaken: one.uncovered.length }));
    table(body, rows, [
      { title: "candidate", field: "file", width: 150, tooltip: ({ candidate }) => candidate }, { title: "verdict", field: "verdict", node: ({ verdict }) => element("span", { class: `outcome ${verdict === "correct" ? "accepted" : "rejected"}` }, verdict) },
      { title: "stage", field: "stage" }, { title: "reason", field: "reason", grow: 5, width: 300, node: ({ reason }) => element("div", { class: "evidence" }, reason) },
      { title: "line", field: "line", number: true, text: (v) => v ?? "" }, { title: "trials", field: "trials", number: true }, { title: "branches not taken", field: "untaken", number: true },
    ]);
    const limits = [...new Set(verify.flatMap((one) => [...one.assumptions, ...one.not_checked, ...one.notes]))];
    if (limits.length) body.append(element("details", {}, element("summary", {}, `${limits.length} limits and notes`), element("ul", {}, ...limits.map((text) => element("li", {}, text)))));
  };
}
