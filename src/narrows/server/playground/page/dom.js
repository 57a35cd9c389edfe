// Small helpers for the page's elements.

export const at = (id) => document.getElementById(id);

/** An element. `attributes`: `class`, `text`, `on…` functions, properties that are booleans, and attributes. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  set(made, attributes);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(made, attributes);
  made.append(...children);
  return made;
}

function set(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean" && name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
}

/** `work` once, `wait` ms after the last call. */
export function later(work, wait = 250) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, wait);
  };
}

/** One result at a time: a later call makes the signal of an earlier one abort. */
export class Latest {
  #controller = null;

  begin() {
    this.#controller?.abort();
    this.#controller = new AbortController();
    return this.#controller.signal;
  }

  stop() {
    this.#controller?.abort();
  }
}

/** Keeps one element of a group in the tab order, and moves with arrow keys, Home and End. */
export function roving(group, selector) {
  group.addEventListener("keydown", (event) => {
    const items = [...group.querySelectorAll(selector)];
    const here = items.indexOf(document.activeElement);
    if (here < 0) return;
    const steps = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1 };
    const ends = { Home: 0, End: items.length - 1 };
    const next = event.key in ends ? ends[event.key] : steps[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const item = items[Math.max(0, Math.min(items.length - 1, next))];
    for (const other of items) other.tabIndex = other === item ? 0 : -1;
    item.focus();
  });
}

/** Text with signs for what cannot be seen. */
export const visible = (text) =>
  text
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    .replaceAll("\r", "␍")
    .replace(/[\u0000-\u001f\u007f]/g, "␀");

/** A token for people: its text, its name, or its bytes. */
export function tokenText(token) {
  if (token.bytes)
    return token.bytes
      .map((b) => (b > 32 && b < 127 ? String.fromCharCode(b) : `\\x${b.toString(16).padStart(2, "0")}`))
      .join("");
  return visible(token.text);
}

/** The same between quotation marks, where spaces at its ends are signs. */
export const quotedToken = (token) =>
  `“${tokenText(token).replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length))}”`;

/** Which bytes may come, in words. */
export function bytesText(bytes) {
  if (bytes.length > 200) return "any character";
  const parts = [];
  const inRange = (low, high) => bytes.filter((b) => b >= low && b <= high);
  if (inRange(0x80, 0xff).length) parts.push("characters outside ASCII");
  const names = { 9: "tab", 10: "line break", 13: "carriage return", 32: "space" };
  for (const b of bytes) if (names[b]) parts.push(names[b]);
  const kind = (b) => ["0-9", "A-Z", "a-z"].find((one) => b >= one.charCodeAt(0) && b <= one.charCodeAt(2));
  const shown = inRange(33, 126);
  for (let i = 0; i < shown.length; ) {
    let j = i;
    while (kind(shown[i]) && shown[j + 1] === shown[j] + 1 && kind(shown[j + 1]) === kind(shown[i])) j += 1;
    const [low, high] = [String.fromCharCode(shown[i]), String.fromCharCode(shown[j])];
    parts.push(j - i > 1 ? `${low} to ${high}` : j > i ? `${low}, ${high}` : low);
    i = j + 1;
  }
  return parts.join(", ");
}
