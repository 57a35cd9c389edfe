// Generation, one token a request, with the likeliest tokens held to the definition and free.

import { call } from "./api.js";
import { bars } from "./bars.js";
import { at, el, Latest, roving, tokenText } from "./dom.js";

export class Generation {
  #definition;
  #tokens = [];
  #steps = [];
  #latest = new Latest();
  #isRunning = false;
  #isOver = false;

  /** `take(text)`: puts what was written into the text pane. */
  constructor(definition, take, changed) {
    this.#definition = definition;
    at("step").addEventListener("click", () => this.#go(1));
    at("run").addEventListener("click", () => this.#go(Number(at("most-tokens").value) || 1));
    at("stop").addEventListener("click", () => this.stop());
    at("restart").addEventListener("click", () => this.restart());
    at("take").addEventListener("click", () => take(this.text));
    for (const id of ["prompt", "as-chat", "hold", "temperature", "top-p", "seed", "most-tokens"])
      at(id).addEventListener("input", changed);
    for (const id of ["prompt", "as-chat", "hold"]) at(id).addEventListener("input", () => this.restart());
    roving(at("written"), "button");
  }

  get text() {
    const data = this.#tokens.flatMap(
      (token) => token.bytes ?? (token.end ? [] : [...new TextEncoder().encode(token.text)]),
    );
    return new TextDecoder().decode(new Uint8Array(data));
  }

  get sampling() {
    const seed = at("seed").value;
    return {
      temperature: Number(at("temperature").value),
      top_p: Number(at("top-p").value) || 1,
      ...(seed === "" ? {} : { seed: Math.trunc(Number(seed)) }),
    };
  }

  get prompt() {
    return { prompt: at("prompt").value, chat: at("as-chat").checked };
  }

  stop() {
    this.#isRunning = false;
    this.#latest.stop();
  }

  restart() {
    this.stop();
    this.#tokens = [];
    this.#steps = [];
    this.#isOver = false;
    for (const id of ["written", "held", "free"]) at(id).replaceChildren();
    at("generate-status").textContent = "";
    at("generate-status").className = "";
  }

  async #go(count) {
    if (this.#isRunning) return;
    if (this.#isOver) this.restart();
    this.#isRunning = true;
    this.#busy(true);
    const status = at("generate-status");
    status.className = "";
    status.textContent = "Writing …";
    const signal = this.#latest.begin();
    const began = performance.now();
    let made = 0;
    let end = "";
    try {
      while (made < count && this.#isRunning && !end) {
        end = await this.#step(signal);
        made += 1;
      }
      const rate = made / ((performance.now() - began) / 1000);
      const written = this.#tokens.length;
      status.textContent = `${written} token${written === 1 ? "" : "s"}. ${end || (this.#isRunning ? "" : "Stopped.")} ${made > 1 ? `${rate.toFixed(1)} tokens a second, two requests each.` : ""}`;
    } catch (error) {
      status.textContent = error.name === "AbortError" ? "Stopped." : error.message;
      status.className = error.name === "AbortError" ? "" : "bad";
    }
    this.#isRunning = false;
    this.#busy(false);
  }

  #busy(busy) {
    at("stop").disabled = !busy;
    for (const id of ["step", "run"]) at(id).disabled = busy;
  }

  /** One token more. Returns why the text is over, if it is. */
  async #step(signal) {
    const definition = at("hold").checked ? this.#definition.value : null;
    const answer = await call(
      "next",
      { definition, tokens: this.#tokens.map((token) => token.id), ...this.prompt, sampling: this.sampling },
      signal,
    );
    const { token } = answer;
    if (token === null) {
      this.#isOver = true;
      return "The text is complete.";
    }
    const index = this.#tokens.push(token) - 1;
    this.#steps.push(answer);
    const only = answer.allowed === 1;
    const button = el("button", {
      type: "button",
      class: only ? "fits forced" : "fits",
      tabindex: index ? "-1" : "0",
      text: tokenText(token),
      title: only ? "the only token that was allowed" : "",
      onclick: () => this.#show(index),
    });
    if (token.text.endsWith("\n")) button.append("\n");
    at("written").append(button);
    at("written").scrollTop = at("written").scrollHeight;
    this.#show(index);
    if (token.end) {
      this.#isOver = true;
      return "The model ended the text.";
    }
    return "";
  }

  #show(index) {
    const answer = this.#steps[index];
    for (const [i, button] of at("written").querySelectorAll("button").entries()) {
      button.setAttribute("aria-expanded", String(i === index));
    }
    bars(at("held"), (answer.held ?? []).slice(0, 12), answer.token.id);
    bars(at("free"), answer.free.slice(0, 12), answer.token.id);
  }
}
