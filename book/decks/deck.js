// Starts a deck: keys, theme, inputs that can be left, and charts as large as their slide allows.
(() => {
  "use strict";
  const root = document.documentElement;
  const ZOOM = { least: 1.17, most: 1.75 }; // of a chart: its labels are 12 px before
  const NARROW = 575; // px: moe-chart.js stacks a narrower chart
  const FOOT = 54; // px of a slide below its content
  const pause = (ms) => new Promise((then) => setTimeout(then, ms));

  const turn = () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    for (const name of ["theme", "mode"]) localStorage.setItem(name, root.dataset.theme);
  };

  // Arrow keys belong to an input while it is used with the keyboard. A pointer gives them back at once, Escape whenever it is pressed.
  let byPointer = false;
  const input = () => document.activeElement?.closest("input, select, button, summary, textarea");
  addEventListener("pointerdown", () => { byPointer = true; }, true);
  addEventListener("keydown", (event) => {
    byPointer = false;
    if (event.key === "Escape" && input()) {
      input().blur();
      event.stopImmediatePropagation();
    }
  }, true);
  addEventListener("pointerup", ({ target }) => { if (target.type === "range") target.blur(); });
  addEventListener("change", ({ target }) => { if (byPointer && target.type !== "number") target.blur(); });
  addEventListener("submit", () => setTimeout(() => input()?.blur()));
  document.querySelectorAll(".moe-chart, .moe-predict").forEach((node) => node.setAttribute("data-prevent-swipe", ""));

  // moe-chart.js draws a chart anew when its width has changed.
  const drawnAgain = async (plot) => {
    const before = plot.querySelector("svg");
    for (let waits = 0; waits < 60; waits += 1) {
      await pause(30);
      const now = plot.querySelector("svg");
      if (now && now !== before && plot.closest(".moe-chart").dataset.ready === "true") return;
    }
  };

  const overOf = (slide, lowest) => Math.max(...[...slide.querySelectorAll(".slide-body > *, .moe-chart > *, .moe-source")].map(bottom)) - lowest;

  const lowestOf = (chart, scale) => chart.closest("section").getBoundingClientRect().top + (720 - FOOT) * scale();
  const bottom = (node) => node.getBoundingClientRect().bottom;

  // A chart is zoomed until its slide is full; never below the size that the back row can read.
  const fitted = async (chart, scale) => {
    while (chart.dataset.ready !== "true") await pause(50);
    const slide = chart.closest("section");
    const plot = chart.querySelector(".moe-plot");
    const lowest = lowestOf(chart, scale);
    let most = Math.min(ZOOM.most, plot.getBoundingClientRect().width / scale() / NARROW);
    let zoom = Number(plot.style.zoom) || 1.5; // as deck.css has it
    for (let round = 0; round < 4; round += 1) {
      const height = plot.getBoundingClientRect().height / scale();
      const over = overOf(slide, lowest) / scale();
      const width = plot.getBoundingClientRect().width;
      const drawing = plot.querySelector("svg").getBoundingClientRect();
      const right = Math.max(...[...plot.querySelectorAll("text")].map((text) => text.getBoundingClientRect().right));
      const needs = Math.max(right - drawing.left, drawing.width - 24 * scale()); // a legend, or views in a row
      if (needs > width + 1) most = Math.min(most, (zoom * width) / needs - 0.01);
      const next = Math.max(ZOOM.least, Math.min(most, (zoom * (height - over)) / height));
      if (Math.abs(next - zoom) < 0.02) break;
      zoom = next;
      plot.style.zoom = zoom;
      await drawnAgain(plot);
    }
    for (let round = 0; round < 3; round += 1) { // what is too high for its slide at the least zoom is drawn lower
      const over = overOf(slide, lowest) / scale();
      if (over < 1) break;
      plot.dataset.room = (plot.querySelector("svg").getBoundingClientRect().height / scale() - over) / zoom;
      plot.dispatchEvent(new Event("room"));
      await drawnAgain(plot);
    }
  };

  // A schematic goes through its steps with the key that turns slides, and with a click on a step or on the drawing.
  const followed = (figure) => {
    const fragments = [...figure.querySelectorAll(".fragment")];
    const steps = [...figure.querySelectorAll("input")];
    const follow = () => { steps[fragments.filter((fragment) => fragment.matches(".visible")).length].checked = true; };
    const first = () => Number(fragments[0].dataset.fragmentIndex);
    steps.forEach((step, index) => step.addEventListener("change", () => Reveal.navigateFragment(first() + index - 1)));
    figure.querySelector("svg").addEventListener("click", () => Reveal.nextFragment());
    for (const event of ["slidechanged", "fragmentshown", "fragmenthidden"]) Reveal.on(event, follow);
    follow();
  };

  // A drawing is as high as its slide has room for.
  const lowered = (drawing, scale) => {
    const over = (bottom(drawing.closest("figure")) - lowestOf(drawing, scale)) / scale();
    if (over > 0) drawing.style.maxHeight = `${drawing.getBoundingClientRect().height / scale() - over}px`;
  };

  const start = async () => {
    const printing = /print-pdf/.test(location.search);
    const framed = /receiver/.test(location.search); // in the speaker's window
    if (matchMedia("(max-width: 600px)").matches && !printing && !framed) {
      root.classList.add("handout"); // a phone held upright reads the slides as one column
      document.querySelector("link[href='reveal/reveal.css']").disabled = true;
    } else {
      await window.MathJax?.startup?.promise;
      const laidOut = printing && new Promise((then) => Reveal.on("pdf-ready", then));
      await Reveal.initialize({
        width: 1280, height: 720, margin: 0, minScale: 0.05, maxScale: 4, center: false, hash: true, transition: "none",
        backgroundTransition: "none", slideNumber: "c/t", viewDistance: 99, mobileViewDistance: 99, scrollActivationWidth: 0,
        pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1, plugins: [RevealNotes], keyboardCondition: () => !input(),
      });
      await laidOut;
      if (printing) document.querySelectorAll(".slides section").forEach((slide) => { slide.hidden = false; slide.ariaHidden = null; });
      Reveal.addKeyBinding({ keyCode: 84, key: "T", description: "Light or dark" }, turn);
      const scale = () => (printing ? 1 : Reveal.getScale());
      document.querySelectorAll(".moe-schematic svg").forEach((drawing) => lowered(drawing, scale));
      if (!printing) document.querySelectorAll(".moe-schematic:has(.fragment)").forEach(followed);
      const charts = [...document.querySelectorAll(".moe-chart")];
      await Promise.all(charts.map((chart) => fitted(chart, scale)));
    }
    root.dataset.ready = "true";
  };
  start();
})();
