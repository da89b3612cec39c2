// Search over the sections of all pages. Their texts come with the page (search-texts.js), so it works from disk.
(() => {
  "use strict";
  const input = document.querySelector(".moe-find input");
  const list = document.querySelector("#search-results");
  const said = document.querySelector(".moe-found");
  const fold = (text) => text.toLowerCase().replace(/[\u00e0-\u1eff]/g, (letter) => letter.normalize("NFD")[0]); // keeps the length
  const sections = window.searchTexts.map(([file, page, heading, text]) => (
    { file, page, heading, text, inHeading: fold(`${page} ${heading}`), inText: fold(text) }));

  // A word counts where it starts a word, ten times in a heading; every word has to occur. All of them in a row count more,
  // and homework and the reference of the library come after the pages.
  const starts = (word) => new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`, "gu");
  const count = (text, words) => text.match(starts(words))?.length ?? 0;
  const weight = ({ inHeading, inText }, words) => 10 * count(inHeading, words) + count(inText, words);
  const score = (section, words) => {
    if (!words.every((word) => weight(section, word))) return 0;
    const sum = [words.join(" "), ...words].reduce((total, word) => total + Math.log1p(weight(section, word)), 0);
    return /homework|^book.api/.test(section.file) ? sum / 3 : sum;
  };

  // Some text around the place with most of the words, with all of them marked.
  const excerpt = (section, words) => {
    const places = words.flatMap((word) => [...section.inText.matchAll(starts(word))].map(({ index }) => index));
    const near = (place) => words.filter((word) => starts(word).test(section.inText.slice(place, place + 140))).length;
    const best = places.reduce((chosen, place) => (near(place) > near(chosen) ? place : chosen), places[0] ?? 0);
    const from = best > 70 ? section.text.indexOf(" ", best - 70) + 1 : 0;
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
