// The state in the address, and the same request for other clients.

/** The state as text for the address: JSON, compressed. Nothing of it leaves the browser. */
export async function pack(state) {
  const stream = new Blob([JSON.stringify(state)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const MOST = 2_000_000;

/** The state of an address, or null. An address that unpacks to more than `MOST` bytes is not read. */
export async function unpack(text) {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
    const parts = [];
    let size = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > MOST) return null;
      parts.push(value);
    }
    const state = JSON.parse(await new Blob(parts).text());
    return typeof state === "object" ? state : null;
  } catch {
    return null;
  }
}

/** The request to /v1 that holds an answer to a definition. */
export function requestOf(definition, { prompt, chat }, { temperature, top_p: topP, seed }, most) {
  const sampling = { temperature, top_p: topP, ...(seed === undefined ? {} : { seed }), max_tokens: most };
  if (definition?.language === "tools") {
    const tools = JSON.parse(definition.source);
    const choice = definition.tool_choice;
    return {
      path: "/v1/chat/completions",
      body: {
        messages: [{ role: "user", content: prompt }],
        tools,
        tool_choice: choice,
        parallel_tool_calls: definition.parallel,
        ...sampling,
      },
    };
  }
  const asked = chat ? { messages: [{ role: "user", content: prompt }] } : { prompt };
  const path = chat ? "/v1/chat/completions" : "/v1/completions";
  if (!definition) return { path, body: { ...asked, ...sampling } };
  const { language, source, options } = definition;
  const written = ["json", "choice", "structural_tag"].includes(language) ? JSON.parse(source) : source;
  const outputs = { [language]: written };
  if (language === "json" || language === "structural_tag") {
    if (options.whitespace === "compact") outputs.disable_any_whitespace = true;
    outputs.disable_additional_properties = options.additional === "declared";
  }
  return { path, body: { ...asked, structured_outputs: outputs, ...sampling } };
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curl({ path, body }, withKey) {
  const key = withKey ? ' -H "Authorization: Bearer $NARROWS_API_KEY"' : "";
  return `curl -sN ${location.origin}${path} -H 'Content-Type: application/json'${key} -d ${quoted(JSON.stringify(body, null, 2))}\n`;
}

/** The same with OpenAI's client. */
export function python({ path, body }, withKey) {
  const { structured_outputs: outputs, messages, ...rest } = body;
  const isChat = path.endsWith("/chat/completions");
  const fields = {
    model: "",
    ...(isChat ? { messages } : {}),
    ...rest,
    ...(outputs ? { extra_body: { structured_outputs: outputs } } : {}),
  };
  const lines = Object.entries(fields).map(
    ([name, value]) =>
      `    ${name}=${name === "model" && !value ? "client.models.list().data[0].id" : literal(value, 1)},`,
  );
  const head = [
    `import openai`,
    ``,
    `client = openai.OpenAI(base_url=${literal(`${location.origin}/v1`)}, api_key=${withKey ? 'os.environ["NARROWS_API_KEY"]' : '"none"'})`,
  ];
  if (withKey) head.unshift("import os");
  const method = isChat ? "chat.completions" : "completions";
  const read = body.stream
    ? ["for chunk in answer:", "    print(chunk.choices[0].delta if chunk.choices else chunk.usage)"]
    : [`print(answer.choices[0].${isChat ? "message" : "text"})`];
  return [...head, `answer = client.${method}.create(`, ...lines, `)`, ...read, ""].join("\n");
}

/** A value as Python. JSON strings are Python strings, but for surrogates, which JSON.stringify escapes alike. */
function literal(value, depth = 0) {
  const indent = "    ".repeat(depth);
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const items = Array.isArray(value)
    ? value.map((item) => literal(item, depth + 1))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, depth + 1)}`);
  if (!items.length) return open + close;
  const line = open + items.join(", ") + close;
  return line.length < 70 && !line.includes("\n")
    ? line
    : `${open}\n${items.map((item) => `${indent}    ${item},\n`).join("")}${indent}${close}`;
}
