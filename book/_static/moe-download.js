// A page opened from disk may not save a file beside it, but it may load a script: the notebook comes as one and is saved from memory.
(() => {
  "use strict";
  const link = document.querySelector("a[data-notebook]");
  if (location.protocol !== "file:") return; // a web server's link is saved as it is
  window.moeNotebook = (text) => {
    const address = URL.createObjectURL(new Blob([text], { type: "application/x-ipynb+json" }));
    Object.assign(document.createElement("a"), { href: address, download: link.download }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };
  link.addEventListener("click", (event) => {
    event.preventDefault();
    document.head.append(Object.assign(document.createElement("script"), { src: link.dataset.notebook }));
  });
})();
