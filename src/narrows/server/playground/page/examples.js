// What the menu of examples loads: a definition, a text, and a prompt.

const json = (value) => JSON.stringify(value, null, 2);

const WEATHER = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string", maxLength: 40 },
          days: { type: "integer", minimum: 1, maximum: 7 },
          unit: { enum: ["celsius", "fahrenheit"] },
        },
        required: ["city"],
      },
    },
  },
  {
    type: "function",
    function: {
      name: "search",
      description: "Search the web",
      parameters: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
    },
  },
];

export const TOOLS = json(WEATHER);

export const EXAMPLES = [
  {
    title: "A person",
    language: "json",
    source: json({
      type: "object",
      properties: {
        name: { type: "string", minLength: 1, maxLength: 30 },
        age: { type: "integer", minimum: 0, maximum: 150 },
        email: { type: "string", format: "email" },
        tags: { type: "array", items: { enum: ["new", "regular", "vip"] }, maxItems: 3 },
      },
      required: ["name", "age"],
      additionalProperties: false,
    }),
    text: '{"name": "Ada Lovelace", "age": "36", "tags": ["vip"]}',
    prompt: "Make up a person, as JSON with name and age.",
  },
  {
    title: "Not wholly enforced",
    language: "json",
    source: json({
      type: "object",
      properties: {
        id: { type: "string", pattern: "^[A-Z]{2}-(?=\\d)\\d{4}$" },
        items: { type: "array", items: { type: "object", properties: { sku: { type: "string" } } }, uniqueItems: true },
        note: { type: "string", contentEncoding: "base64" },
        size: { type: "integer", multipleOf: 4, maxmum: 100 },
      },
      required: ["id"],
    }),
    text: '{"id": "AB-12',
    prompt: "Write an order as JSON.",
  },
  {
    title: "One of two shapes",
    language: "json",
    source: json({
      anyOf: [
        {
          type: "object",
          properties: { kind: { const: "circle" }, radius: { type: "number", exclusiveMinimum: 0 } },
          required: ["kind", "radius"],
        },
        {
          type: "object",
          properties: { kind: { const: "square" }, side: { $ref: "#/$defs/length" } },
          required: ["kind", "side"],
        },
      ],
      $defs: { length: { type: "number", minimum: 0.5 } },
    }),
    options: { additional: "declared" },
    text: '{"kind": "square", "side": 0.25}',
    prompt: "Describe a shape as JSON.",
  },
  {
    title: "A date",
    language: "regex",
    source: "(19|20)\\d\\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])",
    text: "2026-13-01",
    prompt: "When was the first programmable computer finished? Answer with a date.",
  },
  {
    title: "A verdict",
    language: "choice",
    source: '["positive", "neutral", "negative"]',
    text: "neg",
    prompt: 'Is this review positive or negative? "The food was cold."',
  },
  {
    title: "Arithmetic (GBNF)",
    language: "grammar",
    source:
      'root   ::= sum "=" number\nsum    ::= term (("+" | "-") term)*\nterm   ::= factor ("*" factor)*\nfactor ::= number | "(" sum ")"\nnumber ::= [0-9]+\n',
    text: "2*(3+4=14",
    prompt: "Write an equation.",
  },
  {
    title: "A command (Lark)",
    language: "lark",
    source:
      'start: verb " " target ("," " " target)*\nverb: "open" | "close"\ntarget: "door " NUMBER | "window"\nNUMBER: /[1-9][0-9]?/\n',
    text: "open door 7, gate",
    prompt: "Open the door with the number 7.",
  },
  {
    title: "A list (EBNF)",
    language: "ebnf",
    source: 'root ::= item ("," item)*\nitem ::= [a-z]+ ":" [0-9]+\n',
    text: "a:1,b:x",
    prompt: "List three things with their numbers.",
  },
  {
    title: "A quotation",
    language: "substring",
    source: "A narrows is the part of a river where the banks are close. The water runs fast there.",
    options: { unit: "words" },
    text: "the banks are closed",
    prompt: "Quote the sentence on where the banks are.",
  },
  {
    title: "Calls of tools",
    language: "tools",
    source: TOOLS,
    options: { tool_choice: "required", parallel: "no" },
    text: '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 9}}\n</tool_call>',
    prompt: "What is the weather in Paris?",
  },
];

export const TRANSCRIPT =
  'Let me look.<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}\n</tool_call>';
