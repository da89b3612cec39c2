// A prediction: the reader types a number and commits, then sees the computed answer beside it.
(() => {
  "use strict";
  document.querySelectorAll("form.moe-predict").forEach((form) => {
    const input = form.querySelector("input");
    const answer = form.querySelector(".answer");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (input.value === "") return input.focus();
      const guess = Number(input.value);
      const computed = Number(form.dataset.answer);
      const times = guess > computed ? guess / computed : computed / guess;
      const verdict = guess === computed || (guess > 0 && computed > 0 && times <= 1.1) ? "Close." : guess > 0 && computed > 0
        ? `${times.toLocaleString("en", { maximumSignificantDigits: 2 })} times too ${guess > computed ? "high" : "low"}.` : "";
      form.querySelector(".verdict").textContent = `You said ${guess.toLocaleString("en")}. ${verdict}`;
      answer.hidden = false;
      input.readOnly = true;
      form.querySelector("button").disabled = true;
    });
  });
})();
