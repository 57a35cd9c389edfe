// A textarea with marks behind its text.

import { at } from "./dom.js";

export class Editor {
  #area;
  #behind;

  constructor(id, onInput = () => {}) {
    this.#area = at(id);
    this.#behind = at(`${id}-marks`);
    this.#area.addEventListener("input", () => {
      this.mark([]);
      onInput();
    });
    this.#area.addEventListener("scroll", () => this.#follow());
  }

  get value() {
    return this.#area.value;
  }

  set value(text) {
    this.#area.value = text;
    this.mark([]);
  }

  /** Marks ranges: `{start, end, kind}`. Where two overlap, the earlier one in the list counts. */
  mark(ranges) {
    const text = this.value;
    const kept = [];
    for (const range of ranges) {
      if (range.end > range.start && !kept.some((other) => other.start < range.end && range.start < other.end))
        kept.push(range);
    }
    kept.sort((a, b) => a.start - b.start);
    const pieces = [];
    let last = 0;
    for (const { start, end, kind } of kept) {
      const mark = document.createElement("mark");
      mark.className = kind;
      mark.textContent = text.slice(start, end);
      pieces.push(text.slice(last, start), mark);
      last = end;
    }
    this.#behind.replaceChildren(...pieces, `${text.slice(last)}\n`);
    this.#follow();
  }

  select({ start, end }) {
    this.#area.focus();
    this.#area.setSelectionRange(start, end);
    // A browser scrolls to the caret when something is typed, not when it is set.
    const lines = this.value.slice(0, start).split("\n").length;
    const height = this.#area.scrollHeight / Math.max(1, this.value.split("\n").length);
    if (height * lines > this.#area.scrollTop + this.#area.clientHeight || height * lines < this.#area.scrollTop)
      this.#area.scrollTop = height * (lines - 3);
    // The event comes with the next frame. Until then the marks would lie beside their text.
    this.#follow();
  }

  #follow() {
    this.#behind.scrollTop = this.#area.scrollTop;
    this.#behind.scrollLeft = this.#area.scrollLeft;
  }
}
