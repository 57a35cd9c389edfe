// Requests to this server. A key is kept in sessionStorage, and goes nowhere else.

import { at } from "./dom.js";

export class Refused extends Error {
  constructor(fields) {
    super(readable(fields));
    this.fields = fields;
  }
}

/** The message without the place in the body, which the page shows itself. */
function readable(fields) {
  const message = String(fields.message ?? "the server refused the request");
  const place = message.indexOf(" (at /definition/source");
  if (place < 0) return message;
  const end = message.indexOf(")", place);
  return message.slice(0, place) + (end < 0 ? "" : message.slice(end + 1));
}

const KEY = "narrows-key";
export const key = () => sessionStorage.getItem(KEY) ?? "";

let asking = null;
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault(); // the page's policy lets no form be sent
  at("key-dialog").close("use");
});

/** Asks for a key. One dialog at a time. */
export function askForKey() {
  asking ??= new Promise((resolve) => {
    const dialog = at("key-dialog");
    at("key").value = key();
    at("set-key").hidden = false;
    dialog.addEventListener(
      "close",
      () => {
        if (dialog.returnValue === "use") sessionStorage.setItem(KEY, at("key").value.trim());
        asking = null;
        resolve(dialog.returnValue === "use");
      },
      { once: true },
    );
    dialog.returnValue = "";
    dialog.showModal();
  });
  return asking;
}

/** The response to a request. Asks for a key where the server wants one. */
export async function send(path, body, signal) {
  for (;;) {
    const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
    const request = { headers, signal };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      Object.assign(request, { method: "POST", body: JSON.stringify(body) });
    }
    const response = await fetch(path, request);
    if (response.status === 401 && (await askForKey())) continue;
    if (response.ok) return response;
    let fields = { message: `the server answered with status ${response.status}` };
    try {
      fields = (await response.json()).error;
    } catch {
      // Not one of its own errors.
    }
    throw new Refused(fields);
  }
}

let model = "";
/** The model that is asked, by name. "": the server's first. */
export const chosen = () => model;
export const choose = (name) => {
  model = name;
};
export const withModel = (body) => (model ? { model, ...body } : body);

export async function call(name, body, signal) {
  const query = model && body === undefined ? `?model=${encodeURIComponent(model)}` : "";
  return (await send(`/playground/api/${name}${query}`, body && withModel(body), signal)).json();
}
