// Instruction view: source and ISA side by side with cycles, arrows from waits to their causes, loops with their turns.
import { chart, COLOURS } from "./charts.js";
import { source } from "./editors.js";
import { element, number, percent } from "./format.js";

const ROW = 20, EXTRA = 40; // pixels, and rows above and below those in view, which scrolling does not draw again

const hex = (address) => `0x${address.toString(16)}`;

export function instructionRows(code) {
  const name = Object.fromEntries(code.columns.map((column, place) => [column, place]));
  return code.rows.map((row, index) => ({ index, ...Object.fromEntries(Object.entries(name).map(([column, place]) => [column, row[place]])) }))
    .map((row) => ({ ...row, cycles: row.latency + row.idle }));
}

export function codeSection(run) {
  const { code } = run;
  if (!code?.rows.length) return null;
  return (body) => new InstructionView(body, run);
}

class InstructionView {
  constructor(body, run) {
    this.run = run;
    this.code = run.code;
    this.all = instructionRows(run.code);
    this.timed = run.code.kind === "trace";
    this.total = this.all.reduce((sum, row) => sum + this.weight(row), 0) || 1;
    this.hottest = Math.max(...this.all.map((row) => this.weight(row)), 1);
    this.byAddress = new Map(this.all.map((row) => [row.address, row.index]));
    this.first = 0;
    this.rows = this.all;
    this.selected = null;
    const what = this.timed ? `cycles of the traced wavefronts, ${this.code.emulated ? "emulated" : "measured"}: time = latency + idle, stall is part of the latency`
      : "executions of each instruction (exact); a thread trace adds cycles: --deep-analysis";
    body.append(element("p", { class: "muted" }, `${number(this.all.length)} instructions; ${what}.`));
    this.toolbar(body);
    const files = [...new Set(this.all.map(({ file }) => file))].filter((file) => this.run.sources[file] !== undefined);
    this.left = element("div", { class: "source-pane" });
    this.right = element("div", { class: "isa-pane", tabindex: "0", role: "grid", "aria-label": "instructions" });
    body.append(element("div", { class: files.length ? "panes" : "panes alone" }, ...(files.length ? [this.left] : []), this.right));
    this.editors = new Map();
    files.forEach((file) => this.addSource(file));
    this.spacer = element("div", { class: "isa-rows" });
    this.head = element("div", { class: "isa-row head" }, ...["address", "instruction", "hits", ...(this.timed ? ["time", "stall", "idle"] : []), "line"].map((title, place) =>
      element("span", { class: ["address", "text", "count", "count", "count", "count", "line"][this.timed || place < 3 ? place : 6] }, title)));
    this.right.append(this.head, this.spacer);
    this.right.addEventListener("scroll", () => this.scrolled());
    this.right.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.right);
    this.charges = this.code.charges.map(([wait, cause, cycles, counter]) => ({ wait: this.byAddress.get(wait), cause: this.byAddress.get(cause), cycles, counter }))
      .filter(({ wait, cause }) => wait !== undefined && cause !== undefined);
    this.longest = Math.max(...this.charges.map(({ cycles }) => cycles), 1);
    this.causes = new Map();
    for (const charge of this.charges) this.causes.set(charge.wait, [...(this.causes.get(charge.wait) ?? []), charge]);
    this.loopPlace = element("div");
    body.append(this.loopPlace);
    this.located();
    this.draw();
  }

  weight(row) { return this.timed ? row.cycles : row.hits; }

  toolbar(body) {
    const button = (text, action, title) => element("button", { type: "button", title, onclick: action }, text);
    const ranked = [...this.all].sort((a, b) => this.weight(b) - this.weight(a)).slice(0, 50);
    let place = -1;
    body.append(element("div", { class: "toolbar" },
      button("hottest", () => { place = (place + 1) % ranked.length; this.select(ranked[place].index); }, "Go to the next instruction by time"),
      button("all code", () => this.zoom(null), "Show all instructions"),
      ...this.code.loops.map((loop, index) => button(`loop ${index + 1}: ${loop.source} ${percent(loop.share, 0)}`, () => this.zoom(loop), `${hex(loop.first_address)} to ${hex(loop.last_address)}`)),
      element("input", { type: "search", class: "filter", placeholder: "find instruction", "aria-label": "find instruction", onchange: (event) => this.find(event.target.value) })));
  }

  addSource(file) {
    const lines = new Map();
    for (const row of this.all.filter((one) => one.file === file && one.line)) {
      const found = lines.get(row.line) ?? { cycles: 0, hits: 0, stall: 0, first: row.index };
      found.cycles += this.weight(row); found.hits += row.hits; found.stall += row.stall;
      lines.set(row.line, found);
    }
    const heat = new Map([...lines].map(([line, { cycles, hits, stall }]) => [line, {
      share: cycles / this.total, text: this.timed ? `${number(cycles)} cycles, ${number(stall)} of them stalled; ${number(hits)} instructions issued` : `${number(hits)} instructions issued`,
    }]));
    const place = element("div", { class: "source-file" }, element("h4", {}, file));
    this.left.append(place);
    this.editors.set(file, source(place, file, this.run.sources[file], heat, (line) => { const found = lines.get(line); if (found) this.select(found.first, false); }));
  }

  zoom(loop) {
    this.rows = loop ? this.all.filter(({ address }) => address >= loop.first_address && address <= loop.last_address) : this.all;
    this.right.scrollTop = 0;
    this.located();
    this.loopPlace.replaceChildren();
    if (loop) this.turns(loop);
    this.draw();
  }

  turns(loop) {
    const place = element("div");
    const left = loop.left_out ? ` ${number(loop.left_out)} turns are left out.` : "";
    this.loopPlace.append(element("h3", {}, `Turns of the loop at ${loop.source}`),
      element("p", { class: "muted" }, `${number(loop.turns)} turns, ${number(loop.turns_per_entry)} per entry, ${number(loop.cycles_per_turn)} cycles each on average.${left}`), place);
    if (!loop.durations.length) { place.append("The trace has no turns of one wavefront after another."); return; }
    chart(place, {
      grid: { left: 20, right: 20, top: 20, bottom: 40, containLabel: true }, tooltip: { trigger: "axis" },
      xAxis: { type: "category", name: "turn", nameLocation: "middle", nameGap: 26, data: loop.durations.map((_, index) => index + 1) }, yAxis: { type: "value", name: "cycles" },
      series: [{ type: "bar", data: loop.durations, itemStyle: { color: COLOURS[1] } }],
    }, 220);
  }

  find(text) {
    const start = (this.selected ?? -1) + 1, wanted = text.toLowerCase();
    const found = [...this.all.slice(start), ...this.all.slice(0, start)].find((row) => row.text.toLowerCase().includes(wanted) || hex(row.address) === wanted);
    if (found) this.select(found.index);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const place = this.rows.findIndex(({ index }) => index === this.selected);
    this.select(this.rows[Math.max(0, Math.min(this.rows.length - 1, place + step))].index);
  }

  select(index, withSource = true) {
    if (!this.rows.some((row) => row.index === index)) this.zoom(null);
    this.selected = index;
    const place = this.rows.findIndex((row) => row.index === index), row = this.all[index];
    const top = place * ROW, height = this.right.clientHeight - ROW;
    if (top < this.right.scrollTop || top > this.right.scrollTop + height - ROW) this.right.scrollTop = Math.max(0, top - height / 2);
    if (withSource) this.editors.get(row.file)?.show(row.line);
    this.draw();
  }

  // Place of each instruction among the shown rows.
  located() {
    this.places = new Map(this.rows.map((row, place) => [row.index, place]));
    this.drawn = [-1, -1];
  }

  scrolled() {
    const first = Math.floor(this.right.scrollTop / ROW), last = first + Math.ceil(this.right.clientHeight / ROW);
    if ((first < this.drawn[0] && this.drawn[0] > 0) || (last > this.drawn[1] && this.drawn[1] < this.rows.length)) this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.right.scrollTop / ROW) - EXTRA);
    const shown = this.rows.slice(first, first + Math.ceil(this.right.clientHeight / ROW) + 2 * EXTRA);
    this.drawn = [first, first + shown.length];
    this.spacer.style.height = `${this.rows.length * ROW}px`;
    this.spacer.replaceChildren(this.arrows(first, shown), ...shown.map((row, place) => this.row(row, first + place)));
  }

  row(row, place) {
    const share = this.weight(row) / this.hottest;
    const causes = (this.causes.get(row.index) ?? []).map(({ cause, cycles, counter }) => `${number(cycles)} cycles for ${hex(this.all[cause].address)} ${this.all[cause].text} (${counter})`);
    return element("div", {
      class: `isa-row${row.index === this.selected ? " selected" : ""}${row.hits ? "" : " unused"}`, style: `top:${place * ROW}px;--share:${share}`, role: "row", title: [row.frames && `inlined into ${row.frames}`, ...causes].filter(Boolean).join("\n") || null,
      onclick: () => this.select(row.index),
    }, element("span", { class: "address" }, hex(row.address)), element("span", { class: "text" }, row.text), element("span", { class: "count" }, number(row.hits)),
    ...(this.timed ? [row.cycles, row.stall, row.idle].map((value) => element("span", { class: "count" }, value ? number(value) : "")) : []),
    element("span", { class: "line", title: row.file || null }, row.line ? element("span", { class: "file" }, row.file) : null, row.line ? element("span", {}, `:${row.line}`) : null));
  }

  // Arrows from waits to the operations that they waited for, if one end is visible; the width is the share of the longest wait.
  arrows(first, shown) {
    const made = (name, values) => { const one = document.createElementNS("http://www.w3.org/2000/svg", name); for (const [key, value] of Object.entries(values)) one.setAttribute(key, value); return one; };
    const end = first + shown.length, isShown = (place) => place >= first && place < end;
    const visible = this.charges.map((charge) => ({ ...charge, to: this.places.get(charge.cause), from: this.places.get(charge.wait) }))
      .filter(({ from, to }) => from !== undefined && to !== undefined && (isShown(from) || isShown(to)));
    // The drawing covers the shown rows only: one of all rows of a long kernel is slow to paint.
    const drawing = made("svg", { class: "arrows", height: shown.length * ROW, style: `top:${first * ROW}px` });
    for (const { wait, cause, cycles, ...ends } of visible) {
      const [from, to] = [ends.from, ends.to].map((place) => (place - first) * ROW + ROW / 2), bend = 34 - Math.min(28, 4 + Math.abs(from - to) / 12);
      drawing.append(made("path", { d: `M38 ${from} C${bend} ${from}, ${bend} ${to}, 38 ${to}`, "stroke-width": 1 + (3 * cycles) / this.longest, class: wait === this.selected || cause === this.selected ? "selected" : "" }),
        made("path", { d: `M40 ${to} l-7 -3.5 v7 z`, class: "head" }));
    }
    return drawing;
  }
}
