// The numbers behind a drawn figure: the rows of its marks as tables, as a file and under the pointer.
// Nothing is computed here; headings are the titles of axes.
(() => {
  "use strict";
  // The rows behind each drawn mark, by the name that Vega-Lite gave the mark.
  const drawnRows = (mark, found = {}) => {
    if (mark.marktype === "group") mark.items.forEach((item) => item.items.forEach((child) => drawnRows(child, found)));
    else if (mark.role === "mark") (found[mark.name] ??= []).push(...mark.items.map(({ datum }) => datum));
    return found;
  };

  // Views with one mark each: its channels, the start of its name, and the view of a row or column that it lies in.
  const layersOf = (spec, name = "", place = { title: "" }, shared = {}) => {
    const encoding = { ...shared, ...spec.encoding };
    const below = (kind, index) => `${name && `${name}_`}${kind}_${index}`;
    if (spec.layer) return spec.layer.flatMap((layer, i) => layersOf(layer, below("layer", i), place, encoding));
    const views = spec.hconcat ?? spec.vconcat ?? spec.concat;
    if (views) return views.flatMap((view, i) => layersOf(view, below("concat", i), { title: [view.title?.text ?? view.title ?? ""].flat().join(" ") }));
    return [{ name, place, encoding, mark: spec.mark.type ?? spec.mark }];
  };

  const isText = (value) => typeof value === "string";
  const heading = (words) => (words === "label" ? "Name" : words[0].toUpperCase() + words.slice(1).replaceAll("_", " "));

  // Columns of one layer: the channels that carry a value, an axis as place from and place to where a mark has two ends.
  const columnsOf = ({ encoding, mark }) => {
    const shown = encoding.tooltip ? [encoding.tooltip].flat().map((def) => ["", def]) : Object.entries(encoding);
    return shown.filter(([channel, def]) => def?.field && channel !== "order" && channel !== "text").map(([channel, def]) => {
      const axis = /^[xy]/.test(channel) ? channel[0] : "";
      const range = channel.endsWith("2") ? ", to" : encoding[`${channel}2`]?.field && mark !== "rule" ? ", from" : "";
      const onPaper = axis && (encoding[axis]?.axis === null || encoding[axis]?.scale === null); // a place, not a value
      return { key: axis ? axis + range : def.field, field: def.field, title: [def.axis?.description ?? def.title ?? def.legend?.title ?? ""].flat().join(" "), axis, range, onPaper, format: def.axis?.format };
    });
  };

  // What one view shows now: headings, and rows without repetition. Words beside a mark become a note on its row.
  const tableOf = (layers, rowsOf) => {
    const hasLine = layers.some(({ mark }) => mark === "line");
    const isBackground = ({ mark, encoding }) => (mark === "area" && hasLine) || (mark === "rect" && !encoding.color);
    const all = layers.filter((layer) => !isBackground(layer)).map((layer) => ({ ...layer, columns: columnsOf(layer), rows: rowsOf(layer.name) }));
    const marks = all.filter(({ mark }) => mark !== "text");
    const isName = (field) => marks.some(({ rows }) => rows.some((row) => isText(row[field])));
    const titles = {}; // an axis is named by one layer and used by all
    const columns = [];
    for (const { columns: own } of all) for (const column of own) if (column.title) titles[column.axis || column.field] ??= column.title;
    for (const { columns: own, rows } of marks) {
      for (const column of rows.length ? own : []) {
        const known = columns.some(({ key }) => key === column.key);
        const speaks = column.axis ? !column.onPaper : column.title; // a name always does
        if (!known && (speaks || isName(column.field))) columns.push(column);
      }
    }
    const rank = ({ axis, field }) => (isName(field) ? "" : axis || "z"); // names, then x, then y, then the rest
    columns.sort((a, b) => rank(a).localeCompare(rank(b)));
    const headings = columns.map(({ field, axis, range }) => heading(titles[axis || field] ?? field) + range);
    const lines = [];
    const known = new Set();
    for (const { columns: own, rows, mark } of marks) {
      for (const row of rows) {
        const cells = columns.map(({ key }) => row[own.find((column) => column.key === key)?.field] ?? "");
        if (mark === "rule" && rank(columns[0] ?? {}) === "" && cells.every((cell) => cell === "" || !isText(cell))) cells[0] = "reference line";
        const words = JSON.stringify(cells);
        if (!known.has(words) && cells.some((cell) => cell !== "")) lines.push({ cells, row });
        known.add(words);
      }
    }
    const within = (a, b) => a !== b && a.every((cell, i) => cell === "" || cell === "reference line" || cell === b[i]);
    const kept = lines.filter(({ cells }) => !cells.some((cell) => cell === "" || cell === "reference line") || !lines.some((other) => within(cells, other.cells)));
    const notes = new Map();
    for (const { encoding, columns: own, rows } of all.filter(({ mark }) => mark === "text")) {
      const at = own.filter(({ axis }) => axis);
      for (const row of rows) {
        const note = `${row[encoding.text?.field] ?? ""}`.replaceAll("\n", " ");
        if (!/\p{L}{2}/u.test(note) || kept.some(({ cells }) => cells.some((cell) => `${cell}`.includes(note)))) continue;
        const isHere = ({ row: other, cells }) => at.every(({ key, field }) => {
          const index = columns.findIndex((column) => column.key === key);
          return (index < 0 ? other[field] : cells[index]) === row[field];
        });
        const here = kept.filter(isHere).slice(0, at.every(({ onPaper }) => onPaper) ? Infinity : 1); // a label of a whole row, or of a mark
        if (at.length) here.forEach((line) => notes.set(line, [notes.get(line), note].filter(Boolean).join("; ")));
      }
    }
    const formats = columns.map(({ format }) => format ?? "");
    if (notes.size) headings.push("Note");
    return { headings, formats, rows: kept.map((line) => (notes.size ? [...line.cells, notes.get(line) ?? ""] : line.cells)) };
  };

  // A number for reading: four digits, thousands separated, large ones with the prefix that the axis uses.
  const written = (value, format = "") => {
    if (typeof value !== "number") return `${value}`;
    if (format.endsWith("%")) return `${written(100 * value)} %`;
    const step = format.endsWith("s") && Math.abs(value) >= 1e6 ? Math.min(5, Math.floor(Math.log10(Math.abs(value)) / 3)) : 0;
    if (value && Math.abs(value) < 1e-4) return value.toPrecision(3);
    const short = (value / 1000 ** step).toLocaleString("en", Number.isInteger(value) && !step ? {} : { maximumSignificantDigits: 4 });
    return step ? `${short} ${" kMGTP"[step]}` : short;
  };

  const csvOf = (tables) => {
    const quoted = (cell) => (/[",\n]/.test(`${cell}`) ? `"${`${cell}`.replaceAll('"', '""')}"` : `${cell}`);
    const parts = tables.map(({ headings, rows }) => [headings, ...rows].map((row) => row.map(quoted).join(",")).join("\n"));
    return `${parts.join("\n\n")}\n`; // one table after the other, an empty line between
  };

  // Where each mark with a place of its own is drawn, in px of the drawing, with its row.
  const placesOf = (mark, x = 0, y = 0, found = []) => {
    if (mark.marktype === "group") mark.items.forEach((item) => item.items.forEach((child) => placesOf(child, x + (item.x ?? 0), y + (item.y ?? 0), found)));
    else if (mark.role === "mark" && ["line", "symbol", "rect", "trail"].includes(mark.marktype)) {
      mark.items.forEach((item) => found.push({ name: mark.name, datum: item.datum, x: x + item.x + (item.width ?? 0) / 2, y: y + item.y + (mark.marktype === "rect" ? Math.min(item.height ?? 0, 12) / 2 : 0) }));
    }
    return found;
  };

  // What the pointer finds at a mark: names, then places on axes, in the words of the table.
  const wordsAt = (layers, { name, datum }) => {
    const layer = layers.find((each) => name === `${each.name}_marks` || name.startsWith(`${each.name}_`) || each.name === "");
    if (!layer) return [];
    const titles = Object.fromEntries(layers.filter(({ place }) => place === layer.place).flatMap(columnsOf).filter(({ title }) => title).map(({ axis, field, title }) => [axis || field, title]));
    const named = [datum.series, datum.label, datum.model, datum.says].find(isText);
    const columns = columnsOf(layer).filter(({ field, onPaper, axis, title }) => !onPaper && (axis || title) && typeof datum[field] === "number");
    const lines = columns.map(({ field, axis, range, format, title }) => `${title || (titles[axis || field] ?? field)}${range}: ${written(datum[field], format)}`);
    return [...(named ? [named] : []), ...new Set(lines)];
  };

  window.moeTable = { layersOf, drawnRows, tableOf, written, csvOf, isText, placesOf, wordsAt };
})();
