// Puts the page together: what it knows of the server, the panes, the tabs, the address.

import { askForKey, call, choose, chosen, key, withModel } from "./api.js";
import { ChatTab } from "./chat.js";
import { DefinitionPane } from "./definition.js";
import { at, el, later, roving } from "./dom.js";
import { EXAMPLES, TOOLS, TRANSCRIPT } from "./examples.js";
import { Generation } from "./generate.js";
import { curl, pack, python, requestOf, unpack } from "./share.js";
import { StreamTab } from "./stream.js";
import { VerdictPane } from "./verdict.js";

const TABS = ["grammar", "stream", "chat"];
let tab = "grammar";

function notice(text) {
  at("notice").textContent = text;
}

async function start() {
  const link = location.hash.length > 1 ? await unpack(location.hash.slice(1)) : null;
  let about;
  const isOther = (name) => about.models.includes(name) && name !== about.model;
  try {
    about = await call("about");
    if (isOther(link?.m)) {
      choose(link.m);
      about = await call("about");
    }
  } catch (error) {
    notice(`The server does not answer: ${error.message}`);
    return;
  }
  at("model").textContent = `${about.model}, ${about.vocabulary.toLocaleString("en")} tokens, ${about.format}`;
  at("models").append(...about.models.map((name) => el("option", { value: name, text: name })));
  at("models").value = about.model;
  at("model-choice").hidden = about.models.length < 2;
  at("set-key").hidden = !key();
  at("set-key").addEventListener("click", async () => {
    if (await askForKey()) location.reload();
  });

  let generation = null;
  let verdict = null;
  const keep = later(async () => history.replaceState(null, "", `#${await pack(state())}`), 400);
  const definition = new DefinitionPane(about, (isReadable) => {
    keep();
    generation.restart();
    if (isReadable) verdict.follow();
    else verdict.clear("The definition cannot be used, so there is nothing to say of the text.");
  });
  verdict = new VerdictPane(about, definition, () => generation.prompt, keep);
  generation = new Generation(
    definition,
    (text) => {
      verdict.text = text;
      keep();
      verdict.follow();
    },
    keep,
  );
  const stream = new StreamTab(about, keep);
  const chat = new ChatTab(keep);

  const state = () => ({
    tab,
    m: chosen() || undefined,
    d: definition.state,
    x: verdict.text,
    g: {
      p: at("prompt").value,
      c: at("as-chat").checked,
      h: at("hold").checked,
      m: at("temperature").value,
      t: at("top-p").value,
      s: at("seed").value,
      n: at("most-tokens").value,
    },
    s: stream.state,
    c: chat.state,
  });

  const load = (example) => {
    definition.load(example);
    verdict.text = example.text;
    at("prompt").value = example.prompt;
  };
  const show = (name) => {
    tab = TABS.includes(name) ? name : "grammar";
    for (const one of TABS) {
      const isHere = one === tab;
      at(`panel-${one}`).hidden = !isHere;
      at(`tab-${one}`).setAttribute("aria-selected", String(isHere));
      at(`tab-${one}`).tabIndex = isHere ? 0 : -1;
    }
    for (const id of ["copy-curl", "copy-python"]) at(id).hidden = tab === "stream";
  };
  const restore = (from) => {
    if (from?.d) {
      definition.load({ language: String(from.d.l), source: String(from.d.s), options: from.d.o ?? {} });
      verdict.text = String(from.x ?? "");
    } else load(EXAMPLES[0]);
    const { g } = from ?? {};
    if (g) {
      at("prompt").value = g.p ?? "";
      at("as-chat").checked = g.c !== false;
      at("hold").checked = g.h !== false;
      for (const [id, value] of [
        ["temperature", g.m],
        ["top-p", g.t],
        ["seed", g.s],
        ["most-tokens", g.n],
      ])
        if (value !== undefined) at(id).value = String(value);
    }
    stream.load(from?.s ?? { t: TRANSCRIPT });
    chat.load(from?.c ?? { w: TOOLS });
    show(from?.tab);
    definition.check();
    stream.parse();
  };

  at("models").addEventListener("change", async () => {
    choose(at("models").value);
    history.replaceState(null, "", `#${await pack(state())}`);
    location.reload(); // all that the page knows is of one model
  });
  at("examples").addEventListener("change", () => {
    const example = EXAMPLES[Number(at("examples").value)];
    if (at("examples").value === "" || !example) return;
    load(example);
    definition.check();
  });
  for (const name of TABS) {
    at(`tab-${name}`).addEventListener("click", () => {
      show(name);
      keep();
    });
    at(`tab-${name}`).addEventListener("focus", () => show(name));
  }
  roving(document.querySelector("[role=tablist]"), "[role=tab]");

  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      notice(`Copied ${what}.`);
    } catch {
      notice("This browser does not let the page copy.");
    }
  };
  const request = () => {
    if (tab === "chat") return { path: "/v1/chat/completions", body: withModel(chat.body) };
    const held = at("hold").checked ? definition.value : null;
    const most = Number(at("most-tokens").value) || 100;
    const { path, body } = requestOf(held, generation.prompt, generation.sampling, most);
    return { path, body: withModel(body) };
  };
  at("copy-link").addEventListener("click", async () => {
    history.replaceState(null, "", `#${await pack(state())}`);
    await copy(location.href, "the link, which holds all that is on this page but the conversation");
  });
  for (const [id, write, what] of [
    ["copy-curl", curl, "a curl command"],
    ["copy-python", python, "a Python program"],
  ]) {
    at(id).addEventListener("click", async () => {
      try {
        await copy(write(request(), Boolean(key())), what);
      } catch (error) {
        notice(`Cannot be written as a request: ${error.message}`);
      }
    });
  }
  addEventListener("hashchange", async () => {
    const from = await unpack(location.hash.slice(1));
    if (isOther(from?.m)) location.reload();
    else restore(from);
  });

  restore(link);
  document.documentElement.dataset.ready = "yes";
}

start();
