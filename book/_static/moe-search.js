// Search over the sections of all pages. Their texts come with the page (search-texts.js), so it works from disk.
(() => {
  "use strict";
  const input = document.querySelector(".moe-find input");
  const list = document.querySelector("#search-results");
  const said = document.querySelector(".moe-found");
  const fold = (text) => text.toLowerCase().replace(/[\u00e0-\u1eff]/g, (letter) => letter.normalize("NFD")[0]); // keeps the length
  const sections = window.searchTexts.map(([file, page, heading, text]) => (
    { file, page, heading, text, inHeading: fold(`${page} ${heading}`), inText: fold(text) }));

  // A word counts where it starts a word, ten times in a heading; every word has to occur.
  const starts = (word) => new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`, "gu");
  const score = (section, words) => words.reduce((sum, word) => {
    const found = 10 * (section.inHeading.match(starts(word))?.length ?? 0) + (section.inText.match(starts(word))?.length ?? 0);
    return found && sum ? sum + Math.log1p(found) : 0;
  }, 1);

  // Some text around the first word found, with all of them marked.
  const excerpt = (section, words) => {
    const at = Math.max(0, Math.min(...words.map((word) => section.inText.search(starts(word))).filter((place) => place >= 0), 1e9) - 70);
    const from = at > section.text.length ? 0 : section.text.indexOf(" ", at - 1) + 1;
    const piece = section.text.slice(from, from + 240);
    const part = document.createElement("p");
    part.append(from ? "… " : "");
    let rest = 0;
    const marks = words.flatMap((word) => [...fold(piece).matchAll(starts(word))].map(({ index }) => [index, index + word.length]));
    for (const [start, end] of marks.sort(([a], [b]) => a - b)) {
      if (start < rest) continue;
      part.append(piece.slice(rest, start), Object.assign(document.createElement("mark"), { textContent: piece.slice(start, end) }));
      rest = end;
    }
    part.append(piece.slice(rest), from + 240 < section.text.length ? " …" : "");
    return part;
  };

  const search = () => {
    const words = fold(input.value).split(/\s+/).filter(Boolean);
    const found = words.length ? sections.map((section) => [score(section, words), section]).filter(([points]) => points).sort(([a], [b]) => b - a) : [];
    list.replaceChildren(...found.slice(0, 30).map(([, section]) => {
      const item = document.createElement("li");
      const link = item.appendChild(Object.assign(document.createElement("a"), { href: section.file }));
      link.append(section.heading || section.page);
      if (section.heading) item.appendChild(Object.assign(document.createElement("small"), { textContent: section.page }));
      item.append(excerpt(section, words));
      return item;
    }));
    said.textContent = !words.length ? "" : found.length ? `${found.length} section${found.length > 1 ? "s" : ""}` : "Nothing found. Try fewer or shorter words.";
  };

  input.value = new URLSearchParams(location.search).get("q") ?? "";
  input.addEventListener("input", search);
  input.form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  input.focus();
  search();
})();
