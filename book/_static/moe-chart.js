// Draws the charts of a page when they come near the screen, with inputs and readouts where the chart brings some.
// Nothing is computed here: an input picks a value, the chart filters its rows by it, a readout is looked up.
// Colours come from CSS (currentColor), so the theme toggle needs no redraw.
// Below a chart its numbers are a table and a file, read off the drawn figure when a reader opens them.
(() => {
  "use strict";
  const { layersOf, drawnRows, tableOf, written, csvOf, isText, placesOf, wordsAt } = window.moeTable;
  const NARROW = 560; // px; side-by-side views stack below this
  const AXIS = 78; // px that an axis with its title takes beside a view in a row
  const AROUND = 84; // px that axis, labels and title take above and below a view
  const INPUT = 62; // px of a slider below a plot
  const MOST_ROWS = 200; // of a table; the file has them all
  const NEAR = 44; // px from the pointer to what it points at
  const PART = /\{([^{}]+)\}/g; // of a sentence

  const make = (parent, tag, attributes = {}, text = "") => {
    const node = parent.appendChild(document.createElement(tag));
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  };

  // The same chart for the width at hand, and no higher than the screen leaves to it (`room`, px). A row of views keeps
  // its proportions, or becomes a column.
  const fit = (spec, width, room) => {
    const { hconcat: views, ...rest } = spec;
    const taken = AXIS + (spec.usermeta?.beside ?? 0); // names at the ends of lines
    const low = (view, count) => (typeof view.height === "number" ? { height: Math.min(view.height, Math.max(150, room / count - AROUND)) } : {});
    if (views && width < NARROW) return { ...rest, vconcat: views.map((view) => ({ ...view, ...low(view, views.length), width: Math.min(width - taken, view.width * 1.2) })) };
    if (views) {
      const whole = views.reduce((sum, view) => sum + (view.width || 300), 0);
      const free = width - taken * views.length;
      return { ...rest, hconcat: views.map((view) => ({ ...view, ...low(view, 1), width: Math.floor((free * (view.width || 300)) / whole) })) };
    }
    return { ...spec, ...low(spec, 1), width, autosize: { type: "fit-x", contains: "padding" } };
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

  const save = (el, name, href) => {
    const link = make(el, "a", { href, download: name });
    link.click();
    link.remove();
    if (href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(href), 10000);
  };

  // The drawing with its title and source, dark on white, for a slide or a letter of one's own.
  const pictureOf = async (el, spec) => {
    const text = (selector) => el.querySelector(selector)?.textContent ?? "";
    const wrapped = (words, width) => words.match(new RegExp(`.{1,${width}}(?:\\s|$)`, "g"))?.map((line) => line.trim()) ?? [];
    const title = { text: wrapped(text(".moe-finding"), 70), subtitle: wrapped(text("figcaption"), 105), fontSize: 17, subtitleFontSize: 11, fontWeight: "bold", offset: 14 };
    const ink = JSON.parse(JSON.stringify({ ...spec, title, background: "white", padding: 14 }).replaceAll("currentColor", "#1B242E"));
    const holder = make(el, "div", { hidden: "" });
    const { view } = await vegaEmbed(holder, ink, { mode: "vega-lite", actions: false, renderer: "none" });
    holder.remove();
    return view;
  };

  // Below a chart: its numbers, and ways to take it along. What is returned writes the table anew where it is open.
  const addTakeAway = (el, spec, tablesNow, specNow, state) => {
    const page = location.pathname.split("/").pop().replace(/\.html$/, "") || "page";
    const file = (ending) => `${page}-${el.id.replace(/^fig-/, "")}.${ending}`;
    const row = make(el, "div", { class: "moe-take" });
    const box = make(row, "details", { class: "moe-numbers" });
    make(box, "summary", {}, "Show the numbers");
    const inside = make(box, "div");
    const said = make(row, "span", { role: "status" });
    const button = (text, title, act) => make(row, "button", { type: "button", title }, text).addEventListener("click", act);
    const blob = (text, type) => URL.createObjectURL(new Blob([text], { type }));
    button("SVG", "Save the figure as a drawing", async () => save(row, file("svg"), blob(await (await pictureOf(el, specNow())).toSVG(), "image/svg+xml")));
    button("PNG", "Save the figure as a picture", async () => save(row, file("png"), await (await pictureOf(el, specNow())).toImageURL("png", 2)));
    button("CSV", "Save the numbers of the figure", () => save(row, file("csv"), blob(csvOf(tablesNow()), "text/csv")));
    button("Link", "Copy an address that opens the figure as it stands", async () => {
      history.replaceState(null, "", `#${el.id}${state() && `?${state()}`}`);
      const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
      said.textContent = copied ? "Copied" : "It is in the address bar";
      setTimeout(() => { said.textContent = ""; }, 4000);
    });
    row.append(box); // opened, the numbers take a line of their own
    const fill = () => {
      if (!box.open) return;
      const tables = tablesNow();
      inside.replaceChildren();
      make(inside, "p", { class: "moe-description" }, spec.description ?? "");
      tables.forEach(({ title, headings, formats, rows }, i) => {
        const name = `Numbers of ${el.querySelector(".moe-no")?.textContent ?? el.id}${tables.length > 1 ? `, part ${i + 1}` : ""}`;
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
      if (!tables.length) make(inside, "p", {}, "A drawing: there are no numbers behind it.");
    };
    box.addEventListener("toggle", fill);
    return fill;
  };

  // The words of a page's answer tables for one setting. A part that has no answer says why for the whole sentence.
  const speaker = ({ choices = [], readouts = [], says = [] }, chosen) => {
    const answers = Object.fromEntries([...readouts, ...says].map((each) => [each.label, each]));
    const labels = Object.fromEntries(choices.map((choice) => [choice.name, choice]));
    const filled = (what) => {
      if (labels[what]) return labels[what].labels[chosen[what]];
      const { keys, values } = answers[what];
      const text = keys.reduce((nested, key) => nested[chosen[key]], values);
      if (!isText(text)) throw new RangeError(text.no);
      return text.replace(PART, (_, part) => filled(part));
    };
    return (what) => {
      try {
        return filled(what);
      } catch (refusal) {
        if (refusal instanceof RangeError) return refusal.message;
        throw refusal;
      }
    };
  };

  // The setting that an address asks of a figure: #fig-coverage?batch=64&skew=1.
  const asked = (el, choices) => {
    const [id, query] = decodeURIComponent(location.hash.slice(1)).split("?");
    const wanted = new URLSearchParams(id === el.id ? query : "");
    return choices.map(({ name, values }) => [name, values.findIndex((value) => `${value}` === wanted.get(name))]).filter(([, index]) => index >= 0);
  };

  const start = async (el) => {
    const spec = JSON.parse(document.querySelector(`script[data-chart="${el.id}"]`).textContent);
    const meta = spec.usermeta ?? {};
    const { choices = [], readouts = [], says = [] } = meta;
    const finding = el.querySelector(".moe-finding");
    const caption = el.querySelector("figcaption");
    el.querySelector("noscript")?.remove();
    const add = (tag, attributes, text) => {
      const node = make(el, tag, attributes, text);
      caption.before(node);
      return node;
    };
    const chosen = Object.fromEntries([...choices.map(({ name, start }) => [name, start]), ...asked(el, choices)]);
    const say = speaker(meta, chosen);
    // Our inputs replace Vega's; a slider's parameter is the position, every other one the value.
    const signalOf = ({ name, kind }) => (kind === "menu" || kind === "radio" ? name : `${name}_step`);
    const valueOf = (choice) => (signalOf(choice) === choice.name ? choice.values[chosen[choice.name]] : chosen[choice.name]);
    let view;
    let recount = () => {}; // writes the table again, where it is open

    const words = spec.description ?? "";
    if (words) add("p", { class: "moe-unseen", id: `${el.id}-words` }, words);
    const plot = add("div", { class: "moe-plot" });
    const form = choices.length ? add("form", { class: "moe-inputs", autocomplete: "off" }) : null;
    form?.addEventListener("submit", (event) => event.preventDefault());
    const sentence = says.length ? add("p", { class: "moe-sentence", role: "status" }) : null;
    const tiles = readouts.length ? add("dl", { class: "moe-tiles" }) : null;
    const cells = readouts.map(({ label }) => {
      const tile = make(tiles, "div");
      make(tile, "dt", {}, label);
      return make(tile, "dd");
    });
    const settings = choices.length ? add("p", { class: "moe-settings" }) : null; // in print, where inputs are not
    const inputs = {}; // by choice; greyed out where the value of another choice makes one meaningless
    const isIdle = ({ idle }) => choices.some(({ name, values }) => idle[name]?.includes(values[chosen[name]]));
    const write = (node, text) => {
      if (node.dataset.said === text) return;
      node.dataset.said = text;
      node.textContent = text;
      node.innerHTML = node.innerHTML.replace(/(?<=[A-Z]\w*)\+(?=\w)/g, "+<wbr>") // TP8xDP8+TP8xEP8 may break there, 182 µs may not
        .replace(/\d[\d.,]* (?:%|(?:[kMGTP]?i?B|[mµn]?s)\b)(?:\/s\b)?/g, '<span class="moe-keep">$&</span>');
    };
    const read = () => {
      if (says.length) {
        write(finding, say("finding"));
        write(sentence, say("sentence"));
        sentence.classList.toggle("moe-unseen", sentence.dataset.said === finding.dataset.said); // a refusal is said once
      }
      readouts.forEach(({ label }, i) => write(cells[i], say(label)));
      choices.forEach((choice) => { inputs[choice.name].disabled = isIdle(choice); });
      if (settings) settings.textContent = choices.filter((choice) => !isIdle(choice)).map(({ name, label, labels }) => `${label}: ${labels[chosen[name]]}`).join(", ");
      plot.querySelector("[role=img]")?.setAttribute("aria-label", finding.textContent);
    };
    const choose = (choice, index) => {
      chosen[choice.name] = index;
      read();
      view?.signal(signalOf(choice), valueOf(choice)).runAsync().then(() => { places = null; recount(); });
    };
    const sliders = choices.filter(({ kind }) => kind === "batch" || kind === "slider"); // first: directly below the plot
    [...sliders, ...choices.filter((choice) => !sliders.includes(choice))].forEach((choice) => {
      inputs[choice.name] = addInput(form, { ...choice, start: chosen[choice.name] }, `${el.id}-${choice.name}`, (index) => choose(choice, index));
    });
    if (!says.length) write(finding, finding.textContent);
    read();

    let drawnAt = "";
    let fittedNow; // what was drawn last, to be taken away
    const drawNow = async () => {
      const width = plot.clientWidth;
      const size = `${width} ${plot.dataset.room}`;
      if (!width || size === drawnAt) return;
      drawnAt = size;
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
    const withChoices = (fitted) => {
      const ours = Object.fromEntries(choices.map((choice) => [signalOf(choice), valueOf(choice)]));
      return { ...fitted, params: (fitted.params ?? []).map((param) => (param.name in ours ? { name: param.name, value: ours[param.name] } : param)) };
    };
    const drawWith = async (width, columns) => {
      const page = sliders.length && !el.closest(".reveal") ? innerHeight - INPUT : Infinity; // slider and plot on one screen
      const room = Number(plot.dataset.room ?? page); // a slide says what it has
      const fitted = fit(spec, width, room);
      const legend = columns && { ...fitted.config?.legend, columns, ...(columns === 1 && { direction: "vertical" }) };
      fitted.config = { ...fitted.config, ...(legend && { legend }), mark: { ...fitted.config?.mark, tooltip: false } }; // we show our own
      delete fitted.$schema; // the file says version 5 for JupyterLab's sake; it is valid in both
      fittedNow = fitted;
      places = null;
      view?.finalize();
      ({ view } = await vegaEmbed(plot, withChoices(fitted), { mode: "vega-lite", actions: false, renderer: "svg" }));
      const picture = plot.matches("[role]") ? plot : plot.querySelector("[role]");
      picture.removeAttribute("aria-roledescription");
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", finding.textContent);
      if (words) picture.setAttribute("aria-describedby", `${el.id}-words`);
      plot.append(tip);
    };

    // Under the pointer: the values of the nearest mark. Pressed, it drags the choice that lies along an axis.
    const tip = make(plot, "div", { class: "moe-tip", "aria-hidden": "true", hidden: "" });
    const layers = layersOf(spec);
    let places = null; // of marks, found when they are asked for
    const inDrawing = ({ clientX, clientY }) => {
      const svg = plot.querySelector("svg");
      const at = new DOMPoint(clientX, clientY).matrixTransform(svg.getScreenCTM().inverse());
      const [left, top] = view.origin();
      const { left: padLeft, top: padTop } = view.padding();
      return { x: at.x - left - padLeft, y: at.y - top - padTop };
    };
    const point = (event) => {
      if (!view) return;
      places ??= placesOf(view.scenegraph().root).filter(({ x, y }) => Number.isFinite(x + y));
      const at = inDrawing(event);
      const far = ({ x, y }) => Math.hypot(x - at.x, (y - at.y) / 1.5);
      const found = places.reduce((best, each) => (far(each) < far(best) ? each : best), { x: Infinity, y: Infinity });
      const said = far(found) < NEAR ? wordsAt(layers, found) : [];
      tip.replaceChildren(...said.map((text, i) => make(tip, i || said.length < 2 ? "span" : "b", {}, text)));
      tip.hidden = !said.length;
      if (tip.hidden) return;
      const box = plot.getBoundingClientRect();
      const shrunk = box.width / plot.offsetWidth || 1; // a slide is scaled
      const right = event.clientX - box.left > box.width / 2;
      tip.style.left = `${(event.clientX - box.left) / shrunk + (right ? -12 : 12)}px`;
      tip.style.top = `${(event.clientY - box.top) / shrunk + 12}px`;
      tip.classList.toggle("moe-left", right);
    };
    const dragged = choices.find(({ drag }) => drag);
    const dragTo = (event) => {
      const axis = dragged.drag.endsWith("x") ? "x" : "y";
      const scale = view.scale(dragged.drag);
      const base = viewOrigin(dragged.drag);
      const off = (value) => Math.abs(scale(value) + base[axis] - inDrawing(event)[axis]);
      const index = dragged.values.reduce((best, value, i) => (off(value) < off(dragged.values[best]) ? i : best), 0);
      if (index === chosen[dragged.name]) return;
      const input = inputs[dragged.name];
      input.value = index;
      input.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const viewOrigin = (name) => { // of the view in a row that has a scale
      const group = name.includes("_") ? view.scenegraph().root.items[0].items.find((mark) => mark.name === name.replace(/_[xy]$/, "_group")) : null;
      return group?.items[0] ?? { x: 0, y: 0 };
    };
    plot.addEventListener("pointerleave", () => { tip.hidden = true; });
    plot.addEventListener("pointermove", (event) => (plot.hasPointerCapture(event.pointerId) ? dragTo(event) : point(event)));
    if (dragged) {
      plot.classList.add(dragged.drag.endsWith("x") ? "moe-drag-x" : "moe-drag-y");
      plot.addEventListener("pointerdown", (event) => {
        if (event.button || inputs[dragged.name].disabled || !view) return;
        event.preventDefault();
        plot.setPointerCapture(event.pointerId);
        tip.hidden = true;
        dragTo(event);
        inputs[dragged.name].focus({ preventScroll: true, focusVisible: false }); // arrow keys go on from here
      });
    }
    await draw();
    const views = [...new Set(layers.map(({ place }) => place))];
    const tablesNow = () => {
      const found = drawnRows(view.scenegraph().root);
      const rows = (name) => Object.keys(found).filter((key) => key.startsWith(name && `${name}_`)).flatMap((key) => found[key]);
      return views.map((place) => ({ title: place.title, ...tableOf(layers.filter((layer) => layer.place === place), rows) }))
        .filter(({ formats, rows }) => formats.length > 1 && rows.length); // a drawing has places and no values
    };
    const state = () => new URLSearchParams(choices.map(({ name, values }) => [name, values[chosen[name]]])).toString();
    if (!el.closest(".reveal")) recount = afterwards(250, addTakeAway(el, spec, tablesNow, () => withChoices(fittedNow), state)); // a slide has no room
    new ResizeObserver(afterwards(120, draw)).observe(plot);
    plot.addEventListener("room", draw);
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
  const named = location.hash.includes("?") && document.getElementById(location.hash.slice(1).split("?")[0]);
  if (named) Promise.resolve(begin(named)).then(() => named.scrollIntoView()); // an address that names a state
})();
