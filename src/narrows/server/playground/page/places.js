// From a JSON pointer, or a line and column, to a range of a text. A text that is cut or wrong is read as far as it goes.

/** Maps each JSON pointer of a text to its range: the key where the value is an object or array, else key and value. */
export function pointers(text) {
  const found = new Map();
  const stack = [];
  let at = 0;
  let key = null;
  const skip = () => {
    while (at < text.length && " \t\r\n".includes(text[at])) at += 1;
  };
  const pointer = () => {
    const top = stack.at(-1);
    if (!top) return "";
    return `${top.pointer}/${top.isObject ? key.name.replaceAll("~", "~0").replaceAll("/", "~1") : top.index}`;
  };
  const string = () => {
    const start = at;
    at += 1;
    while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    at += 1;
    return text.slice(start, at);
  };
  const named = (start, end) => found.set(pointer(), { start: key?.start ?? start, end });
  const close = () => {
    const top = stack.pop();
    key = top.key;
    at += 1;
  };
  while (at < text.length) {
    skip();
    const char = text[at];
    const top = stack.at(-1);
    if (char === undefined) break;
    if (char === "}" || char === "]") {
      if (!top) break;
      close();
    } else if (char === ",") {
      if (!top) break;
      if (!top.isObject) top.index += 1;
      key = null;
      top.wantsKey = top.isObject;
      at += 1;
    } else if (char === ":") {
      at += 1;
    } else if (top?.wantsKey) {
      if (char !== '"') break;
      const start = at;
      const spelled = string();
      let name = spelled.slice(1, -1);
      try {
        name = JSON.parse(spelled);
      } catch {
        // Not a whole string.
      }
      key = { name, start, end: at };
      top.wantsKey = false;
    } else if (char === "{" || char === "[") {
      const inner = { pointer: pointer(), isObject: char === "{", index: 0, wantsKey: char === "{", key };
      named(at, key?.end ?? at + 1);
      stack.push(inner);
      key = null;
      at += 1;
    } else {
      const start = at;
      if (char === '"') string();
      else while (at < text.length && !',]}: \t\r\n"'.includes(text[at])) at += 1;
      if (at === start) break;
      named(start, Math.min(at, text.length));
    }
  }
  return found;
}

/** The range of a pointer, or of the nearest place around it. */
export function rangeOf(found, pointer) {
  for (let here = pointer; ; here = here.slice(0, here.lastIndexOf("/"))) {
    const range = found.get(here);
    if (range) return range;
    if (!here.includes("/")) return null;
  }
}

/** The range of a word at a line and column, both from 1. Columns count characters. */
export function rangeAt(text, line, column) {
  let start = 0;
  for (let i = 1; i < line; i += 1) {
    const next = text.indexOf("\n", start);
    if (next < 0) break;
    start = next + 1;
  }
  start = Math.min(text.length, start + units(text.slice(start), column - 1));
  let end = start;
  while (end < text.length && !/\s/.test(text[end])) end += 1;
  if (end === start) {
    end = Math.min(text.length, start + 1);
    if (end === start && start > 0) start -= 1;
  }
  return { start, end };
}

/** The number of UTF-16 units of the first `count` characters. */
export function units(text, count) {
  let at = 0;
  for (let i = 0; i < count && at < text.length; i += 1) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}
