// The first pane: the definition, and what is enforced of it.

import { call, Refused } from "./api.js";
import { at, el, Latest, later } from "./dom.js";
import { Editor } from "./editor.js";
import { EXAMPLES } from "./examples.js";
import { pointers, rangeAt, rangeOf, units } from "./places.js";

const TITLES = {
  json: "JSON Schema",
  regex: "Regular expression",
  choice: "Choice (a JSON list)",
  grammar: "GBNF, or Lark",
  lark: "Lark",
  structural_tag: "Structural tag (JSON)",
  substring: "Part of a text",
  ebnf: "EBNF",
  tools: "Tools + wire format",
};
const VALUES = {
  whitespace: ["bounded", "compact", "any", "json.dumps"],
  key_order: ["declared", "any"],
  escapes: ["all", "minimal"],
  additional: ["standard", "declared"],
  dialect: ["python", "ecma", "rust"],
  unit: ["characters", "words", "lines"],
  lexer: ["all", "greedy"],
  notation: ["xgrammar", "w3c", "iso", "bnf", "yacc"],
  tool_choice: ["auto", "required", "none"],
  parallel: ["yes", "no"],
};
const OF_TOOLS = ["format", "tool_choice", "parallel", "additional"];

export class DefinitionPane {
  #about;
  #editor;
  #latest = new Latest();
  #changed;
  #options = {};

  /** `changed(isReadable)` is called when the definition has been checked. */
  constructor(about, changed) {
    this.#about = about;
    this.#changed = changed;
    this.#editor = new Editor(
      "source",
      later(() => this.check()),
    );
    at("language").append(
      ...[...about.languages.map((one) => one.name), "tools"].map((name) =>
        el("option", { value: name, text: TITLES[name] ?? name }),
      ),
    );
    at("language").addEventListener("change", () => {
      this.#showOptions({});
      this.check();
    });
    at("examples").append(
      el("option", { value: "", text: "choose …" }),
      ...EXAMPLES.map((one, i) => el("option", { value: String(i), text: one.title })),
    );
  }

  get value() {
    const language = at("language").value;
    const body = { language, source: this.#editor.value, options: {} };
    for (const [name, select] of Object.entries(this.#options)) {
      if (language === "tools" && name === "format") body.format = select.value || null;
      else if (language === "tools" && name === "parallel") body.parallel = select.value === "yes";
      else if (language === "tools" && name === "tool_choice") body.tool_choice = select.value;
      else if (select.value) body.options[name] = select.value;
    }
    return body;
  }

  /** For the link: language, source and chosen options. */
  get state() {
    return {
      l: at("language").value,
      s: this.#editor.value,
      o: Object.fromEntries(Object.entries(this.#options).map(([name, select]) => [name, select.value])),
    };
  }

  load({ language, source, options = {} }) {
    at("language").value = language;
    if (at("language").selectedIndex < 0) at("language").selectedIndex = 0;
    this.#editor.value = source;
    this.#showOptions(options);
  }

  #showOptions(chosen) {
    const language = at("language").value;
    const known = this.#about.languages.find((one) => one.name === language)?.options ?? [];
    const names = language === "tools" ? OF_TOOLS : known.filter((name) => name in VALUES);
    this.#options = {};
    const labels = names.map((name) => {
      const values = name === "format" ? ["", ...this.#about.formats.map((one) => one.name)] : VALUES[name];
      const select = el(
        "select",
        { onchange: () => this.check() },
        ...values.map((value) => el("option", { value, text: value || `the server's (${this.#about.format})` })),
      );
      const usual = language === "tools" && name === "additional" ? "declared" : values[0];
      select.value = values.includes(chosen[name]) ? chosen[name] : usual;
      this.#options[name] = select;
      return el("label", { text: `${name.replace("_", " ")} ` }, select);
    });
    at("options").replaceChildren(...labels);
  }

  async check() {
    const signal = this.#latest.begin();
    const body = this.value;
    try {
      const answer = await call("check", { definition: body }, signal);
      this.#report(answer);
      this.#changed(true);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#fail(error);
      this.#changed(false);
    }
  }

  #report(answer) {
    const loose = answer.report.filter(([, status]) => status === "ignored" || status === "over");
    const under = answer.report.filter(([, status]) => status === "under");
    const exact = answer.report.filter(([, status]) => status === "exact");
    const summary = at("report-summary");
    let text = "Enforced exactly.";
    if (loose.length) text = `Not wholly enforced: ${loose.length} keyword${loose.length > 1 ? "s" : ""}.`;
    else if (under.length) text = "Enforced, and less is allowed than the definition allows.";
    summary.className = loose.length ? "bad" : "good";
    summary.textContent = `${text} Read and compiled in ${answer.ms} ms, ${answer.states.toLocaleString("en")} states.`;
    const items = [...loose, ...under].map(([place, status, reason]) => this.#finding(place, status, reason));
    if (exact.length) {
      const list = exact.map(([place, status, reason]) => this.#finding(place, status, reason));
      items.push(
        el(
          "li",
          {},
          el(
            "details",
            {},
            el("summary", {
              text: `${exact.length} keyword${exact.length > 1 ? "s" : ""} exact${answer.left_out ? `, ${answer.left_out} more are not listed` : ""}`,
            }),
            el("ul", { class: "findings" }, ...list),
          ),
        ),
      );
    }
    at("report").replaceChildren(...items);
    this.#mark([...loose, ...under].map(([place, status]) => ({ ...this.rangeOf(place), kind: status })));
  }

  #fail(error) {
    const fields = error instanceof Refused ? error.fields : {};
    const summary = at("report-summary");
    summary.className = "bad";
    summary.textContent = "It cannot be used.";
    const place = (fields.pointer ?? "").replace("/definition/source", "");
    const where = fields.line ? `${fields.line}:${fields.column ?? 1}` : place;
    at("report").replaceChildren(this.#finding(where, "error", error.message));
    let range = null;
    if (fields.line) range = rangeAt(this.#editor.value, fields.line, fields.column ?? 1);
    else if (fields.offset !== undefined) range = this.#offset(fields.offset);
    else if (place) range = this.rangeOf(place);
    this.#mark(range ? [{ ...range, kind: "error" }] : []);
    if (range)
      at("report")
        .querySelector("button")
        ?.addEventListener("click", () => this.#editor.select(range));
  }

  #offset(offset) {
    const start = Math.max(0, Math.min(units(this.#editor.value, offset), this.#editor.value.length - 1));
    return { start, end: start + 1 };
  }

  #finding(place, status, reason) {
    const jump = el("button", {
      type: "button",
      class: "link",
      text: place || "the whole definition",
      onclick: () => this.show(place),
    });
    return el("li", {}, el("span", { class: `badge ${status}`, text: status }), jump, reason ? `: ${reason}` : "");
  }

  #mark(ranges) {
    this.#editor.mark(ranges.filter((range) => range.start !== undefined));
  }

  /** Where a JSON pointer or line:column leads. */
  rangeOf(place) {
    const line = /^(\d+):(\d+)$/.exec(place);
    if (line) return rangeAt(this.#editor.value, Number(line[1]), Number(line[2]));
    const found = pointers(this.#editor.value);
    const inner = place.replace(/^(\/\d+)\/function/, "$1"); // a tool may be written without what is around it
    return rangeOf(found, at("language").value === "tools" && !found.has(place) && found.has(inner) ? inner : place);
  }

  /** The text at a place, for people: the line of a rule. */
  lineOf(place) {
    const line = /^(\d+):\d+$/.exec(place);
    return line ? (this.#editor.value.split("\n")[Number(line[1]) - 1] ?? "").trim() : "";
  }

  show(place) {
    const range = this.rangeOf(place);
    if (range) this.#editor.select(range);
  }
}
