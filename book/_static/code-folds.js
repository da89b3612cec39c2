// Code of a page: a mark opens the check of its sentence, and on a phone all code is folded.
(() => {
  "use strict";
  document.querySelectorAll("button.moe-check").forEach((mark) => {
    const code = document.getElementById(mark.getAttribute("aria-controls"));
    mark.addEventListener("click", () => {
      code.hidden = !code.hidden;
      mark.setAttribute("aria-expanded", String(!code.hidden));
    });
  });
  const phone = matchMedia("screen and (max-width: 600px)"); // paper is no phone, so a print unfolds
  const shown = document.querySelectorAll("details.moe-shown");
  const fold = () => shown.forEach((code) => { code.open = !phone.matches; });
  phone.addEventListener("change", fold);
  fold();
})();
