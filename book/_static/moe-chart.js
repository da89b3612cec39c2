// Draws the charts of a page when they come near the screen, with inputs and readouts where the chart brings some.
// Nothing is computed here: an input picks a value, the chart filters its rows by it, a readout is looked up.
// Colours come from CSS (currentColor), so the theme toggle needs no redraw.
// Below a chart its numbers are a table and a file, read off the drawn figure when a reader opens them.
(() => {
  "use strict";
  const NARROW = 560; // px; side-by-side views stack below this
  const AXIS = 78; // px that an axis with its title takes beside a view in a row
  const MOST_ROWS = 200; // of a table; the file has them all
  const QUIET = 700; // ms without a change before readouts are announced

  const make = (parent, tag, attributes = {}, text = "") => {
    const node = parent.appendChild(document.createElement(tag));
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  };

  // The same chart for the width at hand. A row of views keeps its proportions, or becomes a column.
  const fit = (spec, width) => {
    if (spec.hconcat) {
      const { hconcat: views, ...rest } = spec;
      const whole = views.reduce((sum, view) => sum + (view.width || 300), 0);
      const free = width - AXIS * views.length;
      if (width < NARROW) return { ...rest, vconcat: views.map((view) => ({ ...view, width: Math.min(width - AXIS, view.width * 1.2) })) };
      return { ...rest, hconcat: views.map((view) => ({ ...view, width: Math.floor((free * (view.width || 300)) / whole) })) };
    }
    return { ...spec, width, autosize: { type: "fit-x", contains: "padding" } };
  };

  // One labelled input per choice, returned. `change` gets the position of the chosen option.
  const addInput = (form, choice, id, change) => {
    const row = make(form, choice.kind === "radio" ? "fieldset" : "div", { class: `moe-input moe-${choice.kind}` });
    if (choice.kind === "radio") {
      make(row, "legend", {}, choice.label);
      choice.labels.forEach((label, index) => {
        const box = make(row, "label");
        const input = make(box, "input", { type: "radio", name: id, value: index });
        input.checked = index === choice.start;
        input.addEventListener("change", () => change(index));
        box.append(label);
      });
      return row;
    }
    make(row, "label", { for: id }, choice.label);
    if (choice.kind === "menu") {
      const select = make(row, "select", { id });
      choice.labels.forEach((label, index) => make(select, "option", { value: index }, label));
      select.selectedIndex = choice.start;
      select.addEventListener("change", () => change(select.selectedIndex));
      return select;
    }
    const slider = make(row, "input", { id, type: "range", min: 0, max: choice.labels.length - 1, step: 1 });
    slider.value = choice.start;
    const shown = make(row, "output", { for: id });
    const say = () => {
      shown.textContent = choice.labels[slider.value];
      slider.setAttribute("aria-valuetext", shown.textContent);
    };
    slider.addEventListener("input", () => { say(); change(Number(slider.value)); });
    say();
    return slider;
  };

  // What happens once nothing called it for a while.
  const afterwards = (wait, act) => {
    let waiting;
    return () => { clearTimeout(waiting); waiting = setTimeout(act, wait); };
  };

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

  // A disclosure below a chart. `fill` writes it anew when it is open.
  const addNumbers = (el, spec, tablesNow) => {
    const number = 1 + [...document.querySelectorAll(".moe-chart")].indexOf(el);
    const box = make(el, "details", { class: "moe-numbers" });
    make(box, "summary", {}, "Show the numbers");
    const inside = make(box, "div");
    const download = () => {
      const file = URL.createObjectURL(new Blob([csvOf(tablesNow())], { type: "text/csv" }));
      const page = location.pathname.split("/").pop().replace(/\.html$/, "") || "page";
      const link = make(inside, "a", { href: file, download: `${page}-figure-${number}.csv` });
      link.click();
      link.remove();
      setTimeout(() => URL.revokeObjectURL(file), 10000);
    };
    const fill = () => {
      if (!box.open) return;
      const tables = tablesNow();
      inside.replaceChildren();
      make(inside, "p", { class: "moe-description" }, spec.description ?? "");
      tables.forEach(({ title, headings, formats, rows }, i) => {
        const name = `Numbers of figure ${number}${tables.length > 1 ? `, part ${i + 1}` : ""}`;
        const frame = make(inside, "div", { class: "moe-numbers-table", role: "region", tabindex: 0, "aria-label": name });
        const table = make(frame, "table");
        const many = rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length.toLocaleString("en")} rows; the file has all.` : "";
        const words = [title, many].filter(Boolean).join(". ");
        if (words) make(table, "caption", {}, words);
        const head = make(make(table, "thead"), "tr");
        const numeric = headings.map((_, column) => rows.every((row) => !isText(row[column]) || row[column] === ""));
        headings.forEach((text, column) => make(head, "th", { scope: "col", ...(numeric[column] && { class: "moe-number" }) }, text));
        const body = make(table, "tbody");
        rows.slice(0, MOST_ROWS).forEach((row) => {
          const line = make(body, "tr");
          row.forEach((cell, column) => make(line, "td", numeric[column] ? { class: "moe-number" } : {}, written(cell, formats[column])));
        });
      });
      if (!tables.length) return void make(inside, "p", {}, "A drawing: there are no numbers behind it.");
      make(inside, "button", { type: "button" }, "Download CSV").addEventListener("click", download);
    };
    box.addEventListener("toggle", fill);
    return fill;
  };

  const start = async (el) => {
    const spec = JSON.parse(document.querySelector(`script[data-chart="${el.id}"]`).textContent);
    el.replaceChildren(); // the words that stand in for the figure without scripts
    const { choices = [], readouts = [] } = spec.usermeta ?? {};
    const chosen = Object.fromEntries(choices.map(({ name, start }) => [name, start]));
    // Our inputs replace Vega's; a slider's parameter is the position, every other one the value.
    const signalOf = ({ name, kind }) => (kind === "menu" || kind === "radio" ? name : `${name}_step`);
    const valueOf = (choice) => (signalOf(choice) === choice.name ? choice.values[chosen[choice.name]] : chosen[choice.name]);
    let view;
    let recount = () => {}; // writes the table again, where it is open

    const name = el.getAttribute("aria-label");
    const words = (spec.description ?? "").replace(name, "").replace(/^[.:;]\s*/, ""); // the name says the rest
    if (words) make(el, "p", { class: "moe-unseen", id: `${el.id}-words` }, words);
    const form = choices.length ? make(el, "form", { class: "moe-inputs", autocomplete: "off" }) : null;
    form?.addEventListener("submit", (event) => event.preventDefault());
    const tiles = readouts.length ? make(el, "dl", { class: "moe-tiles" }) : null;
    const cells = readouts.map(({ label }) => {
      const tile = make(tiles, "div");
      make(tile, "dt", {}, label);
      return make(tile, "dd");
    });
    // A move changes many tiles, and a drag is many moves: what changed is said once the reader pauses.
    const said = readouts.length ? make(el, "p", { class: "moe-unseen", role: "status" }) : null;
    let before;
    const tell = afterwards(QUIET, () => {
      said.textContent = readouts.map(({ label }, i) => (cells[i].textContent === before[i] ? "" : `${label}: ${cells[i].textContent}.`)).filter(Boolean).join(" ");
      before = cells.map(({ textContent }) => textContent);
    });
    const settings = choices.length ? make(el, "p", { class: "moe-settings" }) : null; // in print, where inputs are not
    const inputs = {}; // by choice; greyed out where the value of another choice makes one meaningless
    const isIdle = ({ idle }) => choices.some(({ name, values }) => idle[name]?.includes(values[chosen[name]]));
    const read = () => {
      readouts.forEach(({ keys, values }, i) => {
        const text = keys.reduce((nested, key) => nested[chosen[key]], values);
        if (cells[i].textContent === text) return;
        cells[i].textContent = text;
        cells[i].innerHTML = cells[i].innerHTML.replaceAll("+", "+<wbr>") // TP8xDP8+TP8xEP8 may break there, 182 µs may not
          .replace(/\d[\d.,]* (?:%|(?:[kMGTP]?i?B|[mµn]?s)\b)(?:\/s\b)?/g, '<span class="moe-keep">$&</span>');
      });
      choices.forEach((choice) => { inputs[choice.name].disabled = isIdle(choice); });
      if (settings) settings.textContent = choices.filter((choice) => !isIdle(choice)).map(({ name, label, labels }) => `${label}: ${labels[chosen[name]]}`).join(", ");
    };
    choices.forEach((choice) => {
      inputs[choice.name] = addInput(form, choice, `${el.id}-${choice.name}`, (index) => {
        chosen[choice.name] = index;
        read();
        if (said) tell();
        view?.signal(signalOf(choice), valueOf(choice)).runAsync().then(recount);
      });
    });
    read();
    before = cells.map(({ textContent }) => textContent);

    const plot = make(el, "div", { class: "moe-plot" });
    let drawnAt = 0;
    const drawNow = async () => {
      const width = plot.clientWidth;
      if (!width || width === drawnAt) return;
      drawnAt = width;
      delete el.dataset.ready;
      for (const columns of width < NARROW ? [1] : [undefined, 3, 2, 1]) { // as few rows of legend as the width takes
        await drawWith(width, columns);
        if (!legendIsCut()) break;
      }
      el.dataset.width = width; // that of the drawing
      el.dataset.ready = "true";
    };
    let drawing = Promise.resolve();
    const draw = () => (drawing = drawing.then(drawNow)); // one after the other
    const legendIsCut = () => {
      const edge = plot.querySelector("svg").getBoundingClientRect().right + 1;
      return [...plot.querySelectorAll(".role-legend-label text, .role-legend-title text")].some((text) => text.getBoundingClientRect().right > edge);
    };
    const drawWith = async (width, columns) => {
      const fitted = fit(spec, width);
      const legend = columns && { ...fitted.config?.legend, columns, ...(columns === 1 && { direction: "vertical" }) };
      if (legend) fitted.config = { ...fitted.config, legend };
      const ours = Object.fromEntries(choices.map((choice) => [signalOf(choice), valueOf(choice)]));
      fitted.params = (fitted.params ?? []).map((param) => (param.name in ours ? { name: param.name, value: ours[param.name] } : param));
      fitted.config = { ...fitted.config, aria: false, mark: { ...fitted.config?.mark, aria: false } }; // one picture with a name and a table, not a thousand named marks
      delete fitted.$schema; // the file says version 5 for JupyterLab's sake; it is valid in both
      view?.finalize();
      ({ view } = await vegaEmbed(plot, fitted, { mode: "vega-lite", actions: false, renderer: "svg" }));
      const picture = plot.matches("[role]") ? plot : plot.querySelector("[role]");
      picture.removeAttribute("aria-roledescription");
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", name);
      if (words) picture.setAttribute("aria-describedby", `${el.id}-words`);
    };
    await draw();
    const layers = layersOf(spec);
    const places = [...new Set(layers.map(({ place }) => place))];
    const tablesNow = () => {
      const found = drawnRows(view.scenegraph().root);
      const rows = (name) => Object.keys(found).filter((key) => key.startsWith(name && `${name}_`)).flatMap((key) => found[key]);
      return places.map((place) => ({ title: place.title, ...tableOf(layers.filter((layer) => layer.place === place), rows) }))
        .filter(({ formats, rows }) => formats.length > 1 && rows.length); // a drawing has places and no values
    };
    if (!el.closest(".reveal")) recount = afterwards(250, addNumbers(el, spec, tablesNow)); // a slide has no room for a table
    new ResizeObserver(afterwards(120, draw)).observe(plot);
  };

  // Charts near the screen first, the others when the page is idle, so that a print shows them all.
  const waiting = new Set(document.querySelectorAll(".moe-chart"));
  const begin = (el) => waiting.delete(el) && start(el);
  const near = new IntersectionObserver(
    (entries) => entries.forEach(({ isIntersecting, target }) => isIntersecting && begin(target)), { rootMargin: "400px" });
  waiting.forEach((el) => near.observe(el));
  const whenIdle = window.requestIdleCallback ?? ((then) => setTimeout(then, 200));
  const next = () => {
    const [el] = waiting;
    if (el) whenIdle(() => Promise.resolve(begin(el)).then(next));
    else near.disconnect();
  };
  addEventListener("load", () => setTimeout(next, 500));
  addEventListener("beforeprint", () => waiting.forEach(begin));
})();
