// The second and third pane: the text in tokens, and what the grammar says of it.

import { call } from "./api.js";
import { bars } from "./bars.js";
import { at, bytesText, el, Latest, later, quotedToken, roving, tokenText, visible } from "./dom.js";
import { Editor } from "./editor.js";
import { units } from "./places.js";
import { plot } from "./plot.js";

export class VerdictPane {
  #about;
  #definition;
  #prompt;
  #editor;
  #latest = new Latest();
  #opened = new Latest();
  #answer = null;

  /** `prompt()`: what the model is asked when a token is opened. */
  constructor(about, definition, prompt, changed) {
    this.#about = about;
    this.#definition = definition;
    this.#prompt = prompt;
    this.#editor = new Editor(
      "text",
      later(() => {
        changed();
        this.follow();
      }),
    );
    roving(at("tokens"), "button");
  }

  get text() {
    return this.#editor.value;
  }

  set text(value) {
    this.#editor.value = value;
  }

  async follow() {
    const signal = this.#latest.begin();
    try {
      const answer = await call("follow", { definition: this.#definition.value, text: this.text }, signal);
      this.#show(answer);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.clear(error.message);
    }
  }

  clear(message) {
    this.#latest.stop();
    this.#opened.stop();
    this.#answer = null;
    at("verdict-summary").className = "bad";
    at("verdict-summary").textContent = message;
    at("tokens").replaceChildren();
    at("token").replaceChildren();
    at("plot").hidden = true;
    this.#editor.mark([]);
  }

  #show(answer) {
    this.#answer = answer;
    const { tokens, fits, stopped } = answer;
    const isCut = Boolean(stopped) && fits < tokens.length;
    const items = tokens.map((token, i) => {
      const forced = i < fits && answer.places[i].forced;
      const kind = i < fits ? (forced ? "fits forced" : "fits") : i === fits && isCut ? "" : "after";
      const text = tokenText(token);
      const button = el("button", {
        type: "button",
        class: kind,
        tabindex: i === (isCut ? fits : 0) ? "0" : "-1",
        "aria-expanded": "false",
        "aria-label": `token ${i + 1}, ${text}, ${i < fits ? (forced ? "forced" : "fits") : i === fits && isCut ? "stops here" : "not looked at"}`,
        onclick: () => this.#open(i),
      });
      if (i === fits && isCut) button.append(...this.#split(token, stopped.offset));
      else button.append(text);
      if (token.text === "\n" || token.text.endsWith("\n")) button.append("\n");
      return button;
    });
    if (!isCut) items.push(...this.#ghosts(answer));
    at("tokens").replaceChildren(...items);
    this.#summary(answer, isCut);
    this.#markText(answer, isCut);
    plot(at("plot"), answer.places, this.#about.vocabulary);
    at("token").replaceChildren();
    if (isCut) this.#open(fits, false);
    else if (stopped) at("token").replaceChildren(el("h3", { text: "Why it may not end here" }), this.#why(stopped));
  }

  /** A token of which the beginning fits. */
  #split(token, offset) {
    const data = new TextEncoder().encode(token.text);
    if (!offset || token.bytes) return [el("span", { class: "stops", text: tokenText(token) })];
    const text = (bytes) => visible(new TextDecoder().decode(bytes));
    return [
      el("span", { class: "part", text: text(data.slice(0, offset)) }),
      el("span", { class: "stops", text: text(data.slice(offset)) }),
    ];
  }

  /** What must come, and the shortest way to the end, behind the text. */
  #ghosts({ forced = "", shortest = [], complete }) {
    const rest = shortest.map((token) => token.text).join("");
    const ghosts = [];
    if (forced)
      ghosts.push(el("span", { class: "ghost forced", title: "nothing else can come here", text: visible(forced) }));
    const tail = rest.startsWith(forced) ? rest.slice(forced.length) : rest;
    if (tail && !complete)
      ghosts.push(el("span", { class: "ghost", title: "the shortest way to the end", text: visible(tail) }));
    return ghosts;
  }

  #summary(answer, isCut) {
    const summary = at("verdict-summary");
    const { tokens, fits, complete, stopped, error } = answer;
    summary.className = isCut || error ? "bad" : complete ? "good" : "";
    if (error) summary.textContent = `${fits} of ${tokens.length} tokens were followed: ${error.message}`;
    else if (isCut) {
      const token = quotedToken(tokens[fits]);
      summary.textContent = `Stops at token ${fits + 1} of ${tokens.length}, ${token}. ${this.#reason(stopped)}`;
    } else if (complete) summary.textContent = `Fits, and may end here: ${tokens.length} tokens.`;
    else
      summary.textContent = `Fits so far: ${tokens.length} tokens. It may not end here. ${stopped ? this.#reason(stopped) : ""}`;
    if (!isCut && answer.shortest?.length && !complete)
      summary.textContent += ` The shortest way to the end has ${answer.shortest.length} tokens.`;
  }

  #reason({ place, rules, expected, end_expected: end }) {
    if (place) {
      const named = place.keywords.length ? place.keywords : place.schemas.slice(0, 2);
      const tool = place.tool ? `${place.tool}: ` : "";
      return `${tool}${named.join(", ") || "the schema"} expects ${place.expected}.`;
    }
    const where = rules.length ? `${rules.join(", ")} expects` : "Expected:";
    return `${where} ${bytesText(expected) || (end ? "the end" : "nothing")}${end && expected.length ? ", or the end" : ""}.`;
  }

  #markText({ tokens, fits, stopped }, isCut) {
    const lengths = tokens.map((token) => (token.bytes ? null : token.text.length));
    let at = 0;
    let good = 0;
    for (let i = 0; i < tokens.length && i <= fits; i += 1) {
      if (lengths[i] === null) {
        // Half a character: the text's own characters are not cut.
        const decoded = new TextDecoder().decode(
          new Uint8Array(tokens.slice(0, fits).flatMap((t) => t.bytes ?? [...new TextEncoder().encode(t.text)])),
        );
        good = Math.min(decoded.replaceAll("\ufffd", "").length, this.text.length);
        at = good + 1;
        break;
      }
      if (i < fits) good += lengths[i];
      at += lengths[i];
    }
    if (!isCut) {
      this.#editor.mark([{ start: 0, end: this.text.length, kind: "fits" }]);
      return;
    }
    const fitting = tokens[fits].bytes
      ? 0
      : units(
          tokens[fits].text,
          new TextDecoder().decode(new TextEncoder().encode(tokens[fits].text).slice(0, stopped.offset)).length,
        );
    const stop = Math.min(good + fitting, this.text.length);
    this.#editor.mark([
      { start: 0, end: stop, kind: "fits" },
      { start: stop, end: Math.max(at, stop + 1), kind: "stops" },
    ]);
  }

  async #open(index, byHand = true) {
    const answer = this.#answer;
    const buttons = [...at("tokens").querySelectorAll("button")];
    buttons.forEach((button, i) => {
      button.setAttribute("aria-expanded", String(i === index));
      button.tabIndex = i === index ? 0 : -1;
    });
    const token = answer.tokens[index];
    const title = el("h3", { text: `Token ${index + 1}: ${quotedToken(token)}, id ${token.id}` });
    if (index > answer.fits) {
      at("token").replaceChildren(
        title,
        el("p", { text: "The text stops before this token, so it was not looked at." }),
      );
      return;
    }
    const before = answer.tokens.slice(0, index).map((one) => one.id);
    const signal = this.#opened.begin();
    const definition = this.#definition.value;
    try {
      const looked = await call("look", { definition, tokens: before, token: token.id }, signal);
      const likely = el("div", {});
      const ask = el("button", { type: "button", text: "Ask the model what is likely here" });
      ask.addEventListener("click", async () => {
        ask.disabled = true;
        try {
          const next = await call(
            "next",
            { definition, tokens: before, ...this.#prompt(), sampling: { temperature: 0 } },
            signal,
          );
          const [held, free] = [el("ol", { class: "bars" }), el("ol", { class: "bars" })];
          bars(held, next.held, token.id);
          bars(free, next.free, token.id);
          likely.replaceChildren(el("h3", { text: "Held to the definition" }), held, el("h3", { text: "Free" }), free);
        } catch (error) {
          if (error.name !== "AbortError") likely.replaceChildren(el("p", { class: "bad", text: error.message }));
        }
        ask.disabled = false;
      });
      const share = `${looked.allowed.toLocaleString("en")} of ${this.#about.vocabulary.toLocaleString("en")}`;
      const shown = looked.sample.map(quotedToken).join(" ");
      at("token").replaceChildren(
        title,
        this.#why(
          looked.why,
          ...pair("Allowed here", `${share} tokens`),
          ...pair("Such as", el("span", { class: "samples", text: shown || "nothing" })),
          ...pair("The end", looked.end ? "was allowed" : "was not allowed"),
          ...pair("Mask", `${looked.us} µs`),
        ),
        el("p", {}, ask),
        likely,
      );
      if (byHand) at("token").scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (error.name !== "AbortError")
        at("token").replaceChildren(title, el("p", { class: "bad", text: error.message }));
    }
  }

  /** Why a token is allowed, or is not: places in the definition as buttons that lead there. */
  #why(why, ...more) {
    const rows = [];
    const link = (place) =>
      el("button", {
        type: "button",
        class: "link",
        text: place || "the schema",
        onclick: () => this.#definition.show(place),
      });
    const links = (places) => places.flatMap((place, i) => [i ? ", " : "", link(place)]);
    const { place } = why;
    rows.push(
      ...pair(
        "Verdict",
        why.allowed
          ? "allowed"
          : why.offset
            ? `only its first ${why.offset > 1 ? `${why.offset} bytes fit` : "byte fits"}`
            : "not allowed",
      ),
    );
    if (place) {
      if (place.tool) rows.push(...pair("Call of", place.tool));
      rows.push(...pair("Value", place.value || "the whole value"));
      if (place.keywords.length) rows.push(...pair("Refused by", ...links(place.keywords)));
      if (place.schemas.length) rows.push(...pair("Schema", ...links(place.schemas.slice(0, 8))));
      rows.push(...pair("Expected", place.expected));
    }
    if (why.rules.length && !place) {
      const lines = why.rules.slice(0, 8).map((rule) => {
        const line = this.#definition.lineOf(rule);
        return el("div", {}, link(rule), line ? el("code", { text: ` ${line}` }) : "");
      });
      rows.push(...pair(this.#definition.lineOf(why.rules[0]) ? "Rules open" : "Part", ...lines));
    }
    if (!why.allowed) {
      const options = [bytesText(why.expected), ...why.tokens, why.end_expected ? "the end" : ""].filter(Boolean);
      rows.push(...pair("Next byte", options.join(", or ") || "nothing"));
    }
    return el("dl", {}, ...rows, ...more);
  }
}

const pair = (term, ...said) => [el("dt", { text: term }), el("dd", {}, ...said)];
