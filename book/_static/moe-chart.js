// Draws the charts of a page when they come near the screen, with inputs and readouts where the chart brings some.
// Nothing is computed here: an input picks a value, the chart filters its rows by it, a readout is looked up.
// Colours come from CSS (currentColor), so the theme toggle needs no redraw.
(() => {
  "use strict";
  const NARROW = 560; // px; side-by-side views stack below this
  const AXIS = 78; // px that an axis with its title takes beside a view in a row

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

  const start = async (el) => {
    const spec = JSON.parse(document.querySelector(`script[data-chart="${el.id}"]`).textContent);
    el.replaceChildren(); // the words that stand in for the figure without scripts
    const { choices = [], readouts = [] } = spec.usermeta ?? {};
    const chosen = Object.fromEntries(choices.map(({ name, start }) => [name, start]));
    // Our inputs replace Vega's; a slider's parameter is the position, every other one the value.
    const signalOf = ({ name, kind }) => (kind === "menu" || kind === "radio" ? name : `${name}_step`);
    const valueOf = (choice) => (signalOf(choice) === choice.name ? choice.values[chosen[choice.name]] : chosen[choice.name]);
    let view;

    const form = choices.length ? make(el, "form", { class: "moe-inputs", autocomplete: "off", "aria-label": "Settings of the figure" }) : null;
    form?.addEventListener("submit", (event) => event.preventDefault());
    const tiles = readouts.length ? make(el, "dl", { class: "moe-tiles", "aria-live": "polite" }) : null;
    const cells = readouts.map(({ label }) => {
      const tile = make(tiles, "div");
      make(tile, "dt", {}, label);
      return make(tile, "dd");
    });
    const settings = choices.length ? make(el, "p", { class: "moe-settings" }) : null; // in print, where inputs are not
    const inputs = {}; // by choice; greyed out where the value of another choice makes one meaningless
    const isIdle = ({ idle }) => choices.some(({ name, values }) => idle[name]?.includes(values[chosen[name]]));
    const read = () => {
      readouts.forEach(({ keys, values }, i) => {
        const text = keys.reduce((nested, key) => nested[chosen[key]], values);
        if (cells[i].textContent === text) return;
        cells[i].textContent = text;
        cells[i].innerHTML = cells[i].innerHTML.replaceAll("+", "+<wbr>"); // TP8xDP8+TP8xEP8 may break there
      });
      choices.forEach((choice) => { inputs[choice.name].disabled = isIdle(choice); });
      if (settings) settings.textContent = choices.filter((choice) => !isIdle(choice)).map(({ name, label, labels }) => `${label}: ${labels[chosen[name]]}`).join(", ");
    };
    choices.forEach((choice) => {
      inputs[choice.name] = addInput(form, choice, `${el.id}-${choice.name}`, (index) => {
        chosen[choice.name] = index;
        read();
        view?.signal(signalOf(choice), valueOf(choice)).runAsync();
      });
    });
    read();

    const plot = make(el, "div", { class: "moe-plot" });
    let drawnAt = 0;
    const draw = async () => {
      const width = plot.clientWidth;
      if (!width || width === drawnAt) return;
      drawnAt = width;
      const fitted = fit(spec, width);
      if (width < NARROW) fitted.config = { ...fitted.config, legend: { ...fitted.config?.legend, direction: "vertical", columns: 1 } };
      const ours = Object.fromEntries(choices.map((choice) => [signalOf(choice), valueOf(choice)]));
      fitted.params = (fitted.params ?? []).map((param) => (param.name in ours ? { name: param.name, value: ours[param.name] } : param));
      delete fitted.$schema; // the file says version 5 for JupyterLab's sake; it is valid in both
      view?.finalize();
      ({ view } = await vegaEmbed(plot, fitted, { mode: "vega-lite", actions: false, renderer: "svg" }));
      el.dataset.ready = "true";
    };
    await draw();
    let waiting;
    new ResizeObserver(() => { clearTimeout(waiting); waiting = setTimeout(draw, 120); }).observe(plot);
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
