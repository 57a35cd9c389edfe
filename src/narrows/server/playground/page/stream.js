// The stream tab: a transcript in chunks, and its events.

import { call } from "./api.js";
import { at, el, Latest, later, visible } from "./dom.js";
import { Editor } from "./editor.js";
import { units } from "./places.js";

const SHOWN = 1_500;

export class StreamTab {
  #editor;
  #latest = new Latest();
  #changed;

  constructor(about, changed) {
    this.#changed = changed;
    const parse = later(() => this.parse());
    this.#editor = new Editor("transcript", parse);
    at("format").append(
      ...about.formats.map(({ name, title }) =>
        el("option", { value: name, text: title ? `${name}: ${title}` : name }),
      ),
    );
    at("format").value = about.format;
    if (at("format").selectedIndex < 0) at("format").selectedIndex = 0;
    for (const id of ["format", "stream-tools", "stream-prompt"]) at(id).addEventListener("input", parse);
    at("chunk").addEventListener("input", () => {
      at("chunk-value").textContent = at("chunk").value;
      parse();
    });
    at("format-example").addEventListener("click", () => this.#example());
    at("detect").addEventListener("click", () => this.#detect());
  }

  get state() {
    return {
      f: at("format").value,
      t: this.#editor.value,
      c: Number(at("chunk").value),
      w: at("stream-tools").value,
      p: at("stream-prompt").value,
    };
  }

  load({ f, t = "", c = 4, w = "", p = "" }) {
    if (f) at("format").value = f;
    if (at("format").selectedIndex < 0) at("format").selectedIndex = 0;
    this.#editor.value = t;
    at("chunk").value = String(c);
    at("chunk-value").textContent = at("chunk").value;
    at("stream-tools").value = w;
    at("stream-prompt").value = p;
  }

  async parse() {
    this.#changed();
    const signal = this.#latest.begin();
    const summary = at("stream-summary");
    const { f, t, c, w, p } = this.state;
    try {
      const answer = await call("stream", { format: f, text: t, chunk: c, tools: w, prompt: p }, signal);
      this.#show(answer);
    } catch (error) {
      if (error.name === "AbortError") return;
      summary.className = "bad";
      summary.textContent = error.message;
      at("events").tBodies[0].replaceChildren();
      at("message").textContent = "";
    }
  }

  #show({ events, chunks, message, equal }) {
    const summary = at("stream-summary");
    summary.className = equal ? "good" : "bad";
    const count = `${events.length} event${events.length === 1 ? "" : "s"} from ${chunks} chunk${chunks === 1 ? "" : "s"}`;
    summary.textContent = equal
      ? `✓ ${count}: equal to the complete answer's.`
      : `✗ ${count}: they differ from the complete answer's.`;
    const rows = events.slice(0, SHOWN).map(([chunk, kind, { span, ...fields }]) => {
      const show = el("button", { type: "button", class: "link", text: kind, onclick: () => this.#select(span) });
      const what =
        "text" in fields
          ? `“${visible(fields.text)}”`
          : Object.entries(fields)
              .filter(([, value]) => value !== null)
              .map(([name, value]) => `${name}=${value}`)
              .join(" ");
      return el(
        "tr",
        {},
        el("td", { text: String(chunk + 1) }),
        el("td", {}, show),
        el("td", { text: what }),
        el("td", { text: `${span[0]}–${span[1]}` }),
      );
    });
    if (events.length > SHOWN)
      rows.push(el("tr", {}, el("td", { colspan: "4", text: `${events.length - SHOWN} more` })));
    at("events").tBodies[0].replaceChildren(...rows);
    at("message").textContent = JSON.stringify(message, null, 2);
  }

  #range([start, end]) {
    const text = this.#editor.value;
    return { start: units(text, start), end: units(text, end) };
  }

  #select(span) {
    const range = this.#range(span);
    this.#editor.mark([{ ...range, kind: "named" }]);
    this.#editor.select(range);
  }

  async #example() {
    try {
      const { text } = await call("example", { format: at("format").value });
      this.#editor.value = text;
      this.parse();
    } catch (error) {
      at("stream-summary").textContent = error.message;
    }
  }

  async #detect() {
    const said = at("detected");
    try {
      const found = await call("detect", { template: at("template").value });
      const sure = found.format && found.confidence < 1 ? ` (likely: ${Math.round(100 * found.confidence)} %)` : "";
      const reasoning = found.reasoning ? `; reasoning ${found.reasoning}: ${found.reasoning_reason}` : "";
      said.className = found.format ? "good" : "bad";
      said.textContent = `${found.format ?? "no format"}${sure}: ${found.reason}${reasoning}`;
      if (found.format) {
        at("format").value = found.format;
        this.parse();
      }
    } catch (error) {
      said.className = "bad";
      said.textContent = error.message;
    }
  }
}
