// A prediction: the reader types a number and commits, then sees the computed answer beside it.
(() => {
  "use strict";
  const verdict = (guess, computed) => {
    if (guess <= 0 || computed <= 0) return guess === computed ? "Close." : "";
    const times = Math.max(guess / computed, computed / guess);
    const way = guess > computed ? "high" : "low";
    if (times <= 1.1) return "Close.";
    if (times < 2) return `${Math.round(100 * Math.abs(guess / computed - 1))} % too ${way}.`;
    return `${times.toLocaleString("en", { maximumSignificantDigits: 2 })} times too ${way}.`;
  };
  document.querySelectorAll("form.moe-predict").forEach((form) => {
    const input = form.querySelector("input");
    const answer = form.querySelector(".answer");
    const button = form.querySelector("button");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (input.readOnly) return;
      if (input.value === "") return input.focus();
      const guess = Number(input.value);
      const computed = Number(form.dataset.answer);
      form.querySelector(".verdict").textContent = `You said ${guess.toLocaleString("en")}. ${verdict(guess, computed)}`;
      answer.hidden = false;
      input.readOnly = true;
      button.setAttribute("aria-disabled", "true"); // not disabled: a keyboard would lose its place
    });
  });
})();
