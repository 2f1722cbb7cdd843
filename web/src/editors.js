// Read-only source views and side-by-side differences with CodeMirror.
import { cpp } from "@codemirror/lang-cpp";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { MergeView } from "@codemirror/merge";
import { EditorState, RangeSetBuilder } from "@codemirror/state";
import { Decoration, EditorView, GutterMarker, gutter, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { element } from "./format.js";

// Colours of both themes are in report.css.
const highlighting = HighlightStyle.define([
  { tag: [tags.comment, tags.meta], color: "var(--code-comment)" },
  { tag: [tags.keyword, tags.processingInstruction, tags.operatorKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.character], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.typeName, tags.className, tags.namespace, tags.modifier], color: "var(--code-type)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName)), tags.definition(tags.function(tags.variableName))], color: "var(--code-function)" },
]);

const base = (name) => [
  EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ tabindex: "0", "aria-label": name || "source" }),
  lineNumbers(), syntaxHighlighting(highlighting), name.endsWith(".py") ? python() : cpp(), EditorView.theme({ "&": { fontSize: "12px" } }),
];

export function difference(place, name, before, after) {
  place.replaceChildren();
  new MergeView({ a: { doc: before, extensions: base(name) }, b: { doc: after, extensions: base(name) }, parent: place, collapseUnchanged: { margin: 4, minSize: 6 }, gutter: true });
}

class Heat extends GutterMarker {
  constructor(share, text) { super(); this.share = share; this.text = text; }
  toDOM() {
    return element("span", { class: "heat", title: this.text, style: `--share:${Math.min(1, this.share)}` }, this.share >= 0.001 ? `${(this.share * 100).toFixed(1)} %` : "");
  }
}

// heat: line number -> {share, text}; online(line): called when a line is clicked.
export function source(place, name, text, heat, online) {
  const view = new EditorView({
    doc: text, parent: place,
    extensions: [
      gutter({
        class: "heat-gutter",
        lineMarker: (view, block) => { const line = view.state.doc.lineAt(block.from).number; const one = heat.get(line); return one ? new Heat(one.share, one.text) : null; },
      }),
      ...base(name),
      EditorView.decorations.compute([], (state) => {
        const marks = new RangeSetBuilder();
        for (let line = 1; line <= state.doc.lines; line += 1) if (heat.has(line)) marks.add(state.doc.line(line).from, state.doc.line(line).from, Decoration.line({ class: "executed" }));
        return marks.finish();
      }),
      EditorView.domEventHandlers({ click: (event, view) => { const at = view.posAtCoords(event); if (at !== null) online(view.state.doc.lineAt(at).number); } }),
    ],
  });
  return { show: (line) => { if (line >= 1 && line <= view.state.doc.lines) { const at = view.state.doc.line(line).from; view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) }); } } };
}
