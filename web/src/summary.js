// Header of a run: cards with its main figures, and how to repeat it.
import { counted, element, number, percent, time, words } from "./format.js";

function card(title, value, detail, kind) {
  return element("div", { class: `card ${kind ?? ""}` },
    element("div", { class: "title" }, title), element("div", { class: "value" }, value),
    detail ? element("div", { class: "detail" }, detail) : null);
}

// Emulated times that differ by less than the error band of the model are not ordered.
function ratioCard(profile, base, sameKind) {
  if (!sameKind) return card("compared with A", "not comparable", "one time is measured, one emulated", "bad");
  const ratio = profile.runtime_ms / base.runtime_ms, band = Math.max(...[profile, base].map((one) => one.error_bands?.ratio?.at(-1)?.factor ?? 1));
  if (band > 1 && Math.max(ratio, 1 / ratio) <= band) return card("compared with A", "indistinguishable", `${ratio.toFixed(2)}x the time; the emulator resolves ${number(band, 3)}x`);
  return card("compared with A", `${(ratio < 1 ? 1 / ratio : ratio).toFixed(2)}x ${ratio < 1 ? "faster" : "slower"}`, "ratio of the medians; rocm-perf compare tests it", ratio < 1 ? "good" : ratio > 1 ? "bad" : "");
}

const best = (document) => (document.best_config ? Object.entries(document.best_config.parameters).map(([n, v]) => `${n}=${v}`).join(" ") : "");

// Cards of a run; beside a base run, its time has the ratio to that of the base.
export function summaryCards(run, letter, base) {
  const { profile, optimize, autotune, analysis } = run;
  const cards = [];
  if (optimize) {
    const tied = optimize.final?.by_counters;
    const [from, to] = [optimize.baseline.runtime_ms, optimize.best.runtime_ms];
    const change = from === null ? "decided by counters" : `${time(from * 1000)} to ${time(to * 1000, optimize.time_kind)}`;
    cards.push(card("speed-up", from === null ? "–" : tied ? "indistinguishable" : `${optimize.speedup.toFixed(2)}x`, change, optimize.speedup > 1 ? "good" : ""));
    const accepted = optimize.verdicts.filter((verdict) => verdict.accepted).length;
    cards.push(card("rewrites", `${accepted} of ${optimize.verdicts.length} accepted`, `stopped: ${optimize.stop_reason}`));
  }
  if (autotune) {
    const runtime = autotune.best_config ? autotune.best_config.runtime_ms * 1000 : null;
    cards.push(card("best configuration", time(runtime, autotune.time_kind), best(autotune), "good"));
    cards.push(card("search", `${number(autotune.evaluated_configs)} of ${number(autotune.search_space_size)}`, `evaluated; stopped: ${autotune.stop_reason}`));
  }
  for (const { title, timing, verification } of run.replay?.replays ?? []) {
    const checked = verification === null ? "memory not checked" : verification.passed ? "memory correct" : "memory wrong";
    cards.push(card(title, time(timing.median, timing.kind), `median of ${number(timing.samples.length)}; ${checked}`, verification === null ? "" : verification.passed ? "good" : "bad"));
  }
  if (run.replay?.speedup) cards.push(card("speed-up", `${run.replay.speedup.toFixed(2)}x`, run.replay.indistinguishable ? "indistinguishable on the emulator" : run.time_kind));
  if (run.replay) cards.push(card("kernel", run.replay.replays[0].kernel.name.replace(/\(.*/, ""), run.replay.replays[0].environment.gpu_agent));
  if (run.capture) cards.push(card("captured kernel", run.capture.dispatch.kernel.name.replace(/\(.*/, ""), `${number(run.capture.memory_regions.regions.length)} ranges of memory`));
  if (run.run) {
    const { findings, exit_code: code, command } = run.run;
    cards.push(card("application", command[0].split("/").at(-1), command.slice(1).join(" ")), card("exit code", String(code), code > 128 ? `signal ${code - 128}` : "of the application", code ? "bad" : "good"));
    cards.push(card("defects", number(findings.length), findings.length ? [...new Set(findings.map(({ check }) => check))].join(", ") : "none found", findings.length ? "bad" : "good"));
    cards.push(card("GPU", `${number(run.run.gpus)} x ${run.run.target}`, `${run.run.architecture}, ${run.run.time_kind}; HIP runtime: ${run.run.runtime}`));
    cards.push(card("time of kernels", time(run.run.kernel_time_ns / 1e3, run.run.time_kind), counted(run.run.dispatches, "dispatch", "dispatches")), card("wall-clock time", `${number(run.run.wall_time_s)} s`, "of the application on this machine"));
  }
  if (run.compare) {
    const { verdicts, regressions, fail_over: least } = run.compare;
    cards.push(card("regressions", number(regressions.length), `slower by more than ${percent(least, 0)}, significantly`, regressions.length ? "bad" : "good"));
    for (const [verdict, count] of Object.entries(verdicts)) if (count) cards.push(card(verdict, number(count), count === 1 ? "kernel" : "kernels"));
  }
  for (const kind of run.verify ? ["correct", "wrong", "refused"] : []) {
    const count = run.verify.filter(({ verdict }) => verdict === kind).length;
    if (count) cards.push(card(kind, number(count), count === 1 ? "candidate" : "candidates", kind === "correct" ? "good" : "bad"));
  }
  if (base?.profile?.runtime_ms && profile?.runtime_ms) cards.push(ratioCard(profile, base.profile, run.time_kind === base.time_kind));
  if (profile) {
    const us = profile.runtime_ms === null ? null : profile.runtime_ms * 1000;
    const band = profile.error_bands?.time?.[0];
    const expected = band ? `${number(band.low_ms * 1000, 3)} to ${number(band.high_ms * 1000, 3)} us ${
      profile.error_bands.status === "estimated" ? "expected" : "assumed"} (${percent(band.coverage, 0)})` : profile.stability.classification;
    cards.push(card(optimize ? "time of the unmodified kernel" : "time", us === null ? "no emulated time for this architecture" : time(us, run.time_kind), expected));
    cards.push(card("kernel", element("span", { title: profile.kernel.name }, profile.kernel.name.replace(/\(.*/, "")),
      `grid ${profile.kernel.grid.join(" x ")}, block ${profile.kernel.block.join(" x ")}`));
    cards.push(card("GPU", profile.gpu.name, `${profile.gpu.architecture}; ${profile.provenance.note}`));
    const wrong = /wrong|differ/i.test(profile.result ?? "");
    cards.push(card("result", words(profile.result ?? "not checked"), profile.result_evidence ?? (profile.result && profile.result !== "not checked" ? "compared with the reference" : "without a reference"), wrong ? "bad" : profile.result === "correct" ? "good" : ""));
    cards.push(card("occupancy", `${number(profile.occupancy.waves_per_simd)} of ${profile.occupancy.max_waves_per_simd}`,
      `wavefronts per SIMD, limited by ${profile.occupancy.limiter}`));
    cards.push(card("registers", `${profile.resources.vgpr_per_thread} VGPR`, `${profile.resources.agpr_per_thread} AGPR, ${
      profile.resources.sgpr_per_wave} SGPR, ${number(profile.resources.lds_bytes)} B LDS, ${number(profile.resources.scratch_bytes)} B scratch`));
  } else if (autotune) {
    cards.push(card("kernel", autotune.kernel.name, `${autotune.gpu.name} (${autotune.gpu.architecture})`));
  }
  if (analysis?.bottleneck) cards.push(card("bottleneck", words(analysis.bottleneck), `confidence ${percent(analysis.confidence, 0)}`));
  return element("div", { class: "run" }, letter ? element("h2", { class: "letter" }, `${letter}: ${run.name}`) : null,
    element("div", { class: "cards" }, ...cards));
}

export function reproduction(run) {
  const { profile, reproduce } = run;
  const rows = [["files", run.directory], ["command", reproduce.command], ["commit", reproduce.commit]];
  for (const [name, version] of Object.entries(profile?.provenance.versions ?? {})) rows.push([name, version]);
  for (const [name, hash] of Object.entries(profile?.provenance.hashes ?? {})) rows.push([`${words(name)} SHA-256`, hash]);
  if (profile?.provenance.sample_seed) rows.push(["sample seed", String(profile.provenance.sample_seed)]);
  const shown = rows.filter(([, value]) => value).map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, hashed(value))));
  const notes = [...new Set([...(profile?.notes ?? []), ...run.notes])].map((note) => element("li", {}, note));
  return element("div", {}, element("table", { class: "facts" }, element("tbody", {}, ...shown)),
    notes.length ? element("details", { open: true }, element("summary", {}, `${notes.length} notes`), element("ul", {}, ...notes)) : null,
    Object.keys(reproduce.config).length ? element("details", {}, element("summary", {}, "configuration"), element("pre", {}, JSON.stringify(reproduce.config, null, 2))) : null);
}

// A long hash is folded: its first characters are shown, all of them after a click.
function hashed(value) {
  if (!/^[0-9a-f]{40,}$/.test(value)) return element("code", {}, value);
  return element("details", { class: "hash" }, element("summary", {}, element("code", {}, value.slice(0, 12))), element("code", {}, value));
}
