// The chat tab: a conversation over /v1/chat/completions, with tools whose calls a person answers.

import { Refused, send, withModel } from "./api.js";
import { at, el, Latest } from "./dom.js";

export class ChatTab {
  #messages = [];
  #latest = new Latest();
  #changed;
  #isBusy = false;

  constructor(changed) {
    this.#changed = changed;
    for (const id of ["system", "chat-tools", "chat-choice", "chat-temperature", "chat-tokens"])
      at(id).addEventListener("input", changed);
    at("say").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = at("said").value.trim();
      if (!text || this.#isBusy) return;
      at("said").value = "";
      this.#add({ role: "user", content: text });
      this.#answer();
    });
    at("said").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        at("say").requestSubmit();
      }
    });
    at("chat-stop").addEventListener("click", () => this.#latest.stop());
    at("chat-clear").addEventListener("click", () => {
      this.#latest.stop();
      this.#messages = [];
      at("talk").replaceChildren();
      this.#status("");
    });
  }

  get state() {
    return {
      y: at("system").value,
      w: at("chat-tools").value,
      h: at("chat-choice").value,
      m: Number(at("chat-temperature").value),
      n: Number(at("chat-tokens").value),
    };
  }

  load({ y = "", w = "", h = "auto", m = 0, n = 200 }) {
    at("system").value = y;
    at("chat-tools").value = w;
    at("chat-choice").value = h;
    at("chat-temperature").value = String(m);
    at("chat-tokens").value = String(n);
  }

  /** The body of the request, as it would be sent now. Throws where the tools are no JSON. */
  get body() {
    const system = at("system").value.trim();
    const tools = at("chat-tools").value.trim();
    const body = {
      messages: [...(system ? [{ role: "system", content: system }] : []), ...this.#messages],
      temperature: Number(at("chat-temperature").value),
      max_tokens: Number(at("chat-tokens").value) || 200,
      stream: true,
    };
    if (tools) {
      try {
        body.tools = JSON.parse(tools);
      } catch (error) {
        throw new Refused({ message: `the tools are not JSON: ${error.message}` });
      }
      if (body.tools.length) body.tool_choice = at("chat-choice").value;
    }
    return body;
  }

  #status(text, kind = "") {
    at("chat-status").textContent = text;
    at("chat-status").className = kind;
  }

  #add(message) {
    this.#messages.push(message);
    at("talk").append(
      el(
        "li",
        { class: message.role },
        el("div", { class: "role", text: message.name ?? message.role }),
        message.content,
      ),
    );
  }

  async #answer() {
    const signal = this.#latest.begin();
    const shown = new Shown();
    this.#isBusy = true;
    at("chat-stop").disabled = false;
    at("send").disabled = true;
    this.#status("The model writes …");
    at("talk").setAttribute("aria-busy", "true");
    try {
      const response = await send("/v1/chat/completions", withModel(this.body), signal);
      const loose = response.headers.get("x-narrows-unenforced");
      at("talk").append(shown.item);
      for await (const chunk of events(response)) {
        if (chunk.error) throw new Refused(chunk.error);
        for (const choice of chunk.choices) shown.feed(choice);
      }
      this.#status(
        `Finished: ${shown.finish}.${loose ? ` Not enforced: ${decodeURIComponent(loose)}` : ""}`,
        shown.finish === "error" ? "bad" : "",
      );
    } catch (error) {
      this.#status(error.name === "AbortError" ? "Stopped." : error.message, error.name === "AbortError" ? "" : "bad");
    }
    at("talk").setAttribute("aria-busy", "false");
    this.#isBusy = false;
    at("chat-stop").disabled = true;
    at("send").disabled = false;
    if (!shown.item.isConnected) return;
    this.#messages.push(shown.message);
    const whole = shown.calls.length && shown.finish === "tool_calls";
    if (whole) this.#ask(shown);
    this.#changed();
  }

  /** Fields for the answers to calls, and a button that gives them back. */
  #ask(shown) {
    const fields = shown.calls.map((call) => {
      const field = el("textarea", { rows: "2", placeholder: '{"temperature": 21}' });
      call.box.append(el("label", { class: "wide", text: "Its answer " }, field));
      return field;
    });
    const give = el("button", {
      type: "button",
      text: fields.length > 1 ? "Give the answers back" : "Give the answer back",
    });
    give.addEventListener("click", () => {
      if (this.#isBusy) return;
      give.disabled = true;
      shown.calls.forEach((call, i) => {
        fields[i].readOnly = true;
        this.#messages.push({ role: "tool", tool_call_id: call.id, content: fields[i].value });
      });
      this.#answer();
    });
    shown.item.append(give);
    fields[0].focus();
  }
}

/** An answer as it comes. */
class Shown {
  calls = [];
  finish = "";
  #content = "";
  #reasoning = null;
  #text = document.createTextNode("");

  constructor() {
    this.item = el("li", { class: "assistant" }, el("div", { class: "role", text: "assistant" }), this.#text);
  }

  feed({ delta, finish_reason: finish, error }) {
    if (error) throw new Refused(error);
    if (finish) this.finish = finish;
    if (delta.reasoning) {
      this.#reasoning ??= this.#open("reasoning");
      this.#reasoning.textContent += delta.reasoning;
    }
    if (delta.content) {
      this.#content += delta.content;
      this.#text.data += delta.content;
    }
    for (const piece of delta.tool_calls ?? []) {
      this.calls[piece.index] ??= this.#call(piece);
      const call = this.calls[piece.index];
      call.arguments += piece.function?.arguments ?? "";
      call.code.textContent = call.arguments;
    }
  }

  #open(kind) {
    const box = el("div", { class: kind });
    this.item.insertBefore(box, this.#text);
    return box;
  }

  #call({ id, function: { name } }) {
    const code = el("code");
    const box = el(
      "div",
      { class: "call", role: "group", "aria-label": `call of ${name}` },
      el("div", { class: "role", text: `calls ${name}` }),
      code,
    );
    this.item.append(box);
    return { id, name, arguments: "", code, box };
  }

  get message() {
    const message = { role: "assistant", content: this.#content || null };
    if (this.#reasoning) message.reasoning = this.#reasoning.textContent;
    if (this.calls.length)
      message.tool_calls = this.calls.map(({ id, name, arguments: text }) => ({
        id,
        type: "function",
        function: { name, arguments: text },
      }));
    else message.content = this.#content;
    return message;
  }
}

/** The events of a response, parsed. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (held + value).split("\n");
    held = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
    }
  }
}
