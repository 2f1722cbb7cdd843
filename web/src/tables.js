// Tables that sort and filter.
import { FilterModule, FormatModule, InteractionModule, KeybindingsModule, ResizeColumnsModule, SortModule, Tabulator, TooltipModule } from "tabulator-tables";

import { element } from "./format.js";

Tabulator.registerModule([FilterModule, FormatModule, InteractionModule, KeybindingsModule, ResizeColumnsModule, SortModule, TooltipModule]);

const FEW_ROWS = 12;
const HEADER_LETTER = 8.4, HEADER_EXTRA = 44; // pixels: a letter of a heading, and its margins with the arrow for sorting

// columns: [{title, field, text?: value -> string, number?: true, width?, grow?}]
export function table(place, rows, columns, { height, onselect } = {}) {
  const holder = element("div");
  const made = new Tabulator(holder, {
    data: rows,
    layout: "fitColumns",
    height: height ?? (rows.length > FEW_ROWS ? 420 : undefined),
    renderVertical: rows.length > FEW_ROWS || height ? "virtual" : "basic",
    columns: columns.map((column) => ({
      title: column.title,
      field: column.field,
      sorter: column.number ? "number" : "string",
      sorterParams: { alignEmptyValues: "bottom" },
      hozAlign: column.number ? "right" : "left",
      headerHozAlign: column.number ? "right" : "left",
      widthGrow: column.grow ?? 1,
      minWidth: Math.max(column.width ?? (column.number ? 80 : 110), HEADER_EXTRA + HEADER_LETTER * column.title.length),
      headerTooltip: column.explain ?? false,
      tooltip: column.tooltip ? (_, cell) => column.tooltip(cell.getRow().getData()) : false,
      formatter: (cell) => {
        const value = cell.getValue();
        if (column.node) return column.node(cell.getRow().getData());
        const text = column.text ? column.text(value, cell.getRow().getData()) : value ?? "";
        return document.createTextNode(String(text)).textContent === "" ? "" : element("span", {}, String(text));
      },
    })),
  });
  if (onselect) made.on("rowClick", (_, row) => onselect(row.getData()));
  const filter = element("input", {
    type: "search", placeholder: "filter rows", "aria-label": "filter rows", class: "filter",
    oninput: (event) => {
      const wanted = event.target.value.toLowerCase();
      made.setFilter((row) => columns.some(({ field }) => String(row[field] ?? "").toLowerCase().includes(wanted)));
    },
  });
  place.append(...(rows.length > 5 ? [filter] : []), holder);
  return made;
}
