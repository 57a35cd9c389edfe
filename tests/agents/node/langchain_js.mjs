// LangChain for JavaScript.

import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import {
  DESCRIPTIONS,
  forecast,
  forecastSchema,
  getWeather,
  JSON_TOKENS,
  PROSE,
  QUESTION,
  run,
  setThermostat,
  thermostat,
  weather,
} from "./scenarios.mjs";

const chat = ({ baseURL, model }, more) =>
  new ChatOpenAI({
    model,
    apiKey: "none",
    configuration: { baseURL },
    maxTokens: PROSE,
    temperature: 0,
    maxRetries: 0,
    ...more,
  });
const tools = [
  tool(getWeather, { name: "get_weather", description: DESCRIPTIONS.get_weather, schema: weather }),
  tool(setThermostat, { name: "thermostat", description: DESCRIPTIONS.thermostat, schema: thermostat }),
];

// Through Responses, LangChain leaves out a choice that is a word (docs/clients.md), and sends one that lists the tools.
const required = ({ useResponsesApi }) => ({
  tool_choice: useResponsesApi
    ? { type: "allowed_tools", mode: "required", tools: tools.map(({ name }) => ({ type: "function", name })) }
    : "required",
});

const ofMessage = (message) => ({
  text: message.text,
  calls: (message.tool_calls ?? []).map(({ id, name, args }) => ({ id, name, arguments: JSON.stringify(args) })),
  // Responses have a status, completions a reason.
  finish:
    message.response_metadata.finish_reason ??
    message.response_metadata.incomplete_details?.reason ??
    message.response_metadata.status,
  usage: message.usage_metadata && [message.usage_metadata.input_tokens, message.usage_metadata.output_tokens],
});

async function streamed(model) {
  const pieces = [];
  const argumentPieces = [];
  let whole;
  for await (const chunk of await model.stream(QUESTION)) {
    if (chunk.text) pieces.push(chunk.text);
    for (const { index, args } of chunk.tool_call_chunks ?? [])
      argumentPieces[index] = [...(argumentPieces[index] ?? []), args ?? ""];
    whole = whole === undefined ? chunk : whole.concat(chunk);
  }
  return { ...ofMessage(whole), pieces, argumentPieces: argumentPieces.filter(Boolean) };
}

async function structured(at, schema, options, more) {
  const model = chat(at, { maxTokens: JSON_TOKENS, ...more });
  const { raw, parsed } = await model
    .withStructuredOutput(schema, { name: "forecast", includeRaw: true, ...options })
    .invoke(`${QUESTION} Answer in JSON.`);
  return { ...ofMessage(raw), value: parsed };
}

const SCENARIOS = (more) => ({
  invoke: async (at) => ofMessage(await chat(at, more).invoke(QUESTION)),
  stream: (at) => streamed(chat(at, more)),
  tools: async (at) =>
    ofMessage(
      await chat(at, { ...more, maxTokens: JSON_TOKENS })
        .bindTools(tools, required(more))
        .invoke(QUESTION),
    ),
  "tools-named": async (at) =>
    ofMessage(
      await chat(at, { ...more, maxTokens: JSON_TOKENS })
        .bindTools(tools, { tool_choice: "thermostat", strict: true })
        .invoke(QUESTION),
    ),
  "tools-streamed": (at) => streamed(chat(at, { ...more, maxTokens: JSON_TOKENS }).bindTools(tools, required(more))),
  "tools-answered": async (at) => {
    const model = chat(at, { ...more, maxTokens: JSON_TOKENS });
    const asked = [new HumanMessage(QUESTION)];
    const called = await model.bindTools(tools, required(more)).invoke(asked);
    const results = [];
    for (const call of called.tool_calls) results.push(await tools.find(({ name }) => name === call.name).invoke(call));
    const answer = await chat(at, more)
      .bindTools(tools)
      .invoke([...asked, called, ...results]);
    return {
      ...ofMessage(answer),
      calls: ofMessage(called).calls,
      results: results.map(({ content }) => content),
      steps: 2,
    };
  },
  conversation: async (at) => {
    const model = chat(at, more);
    const asked = [new HumanMessage(QUESTION)];
    const answer = await model.invoke(asked);
    return { ...ofMessage(await model.invoke([...asked, answer, new HumanMessage("And in London?")])), steps: 2 };
  },
  structured: (at) => structured(at, forecast, {}, more),
  "structured-json-schema": (at) => structured(at, forecast, { method: "jsonSchema", strict: true }, more),
  "structured-plain-schema": (at) => structured(at, forecastSchema, { method: "jsonSchema" }, more),
  "structured-function-calling": (at) => structured(at, forecast, { method: "functionCalling" }, more),
  "structured-json-mode": (at) => structured(at, forecast, { method: "jsonMode" }, more),
});

await run({
  ...Object.fromEntries(Object.entries(SCENARIOS({})).map(([name, scenario]) => [`chat-${name}`, scenario])),
  ...Object.fromEntries(
    Object.entries(SCENARIOS({ useResponsesApi: true })).map(([name, scenario]) => [`responses-${name}`, scenario]),
  ),
  refused: async (at) =>
    ofMessage(
      await chat(at, {
        modelKwargs: {
          response_format: { type: "json_schema", json_schema: { name: "x", schema: { type: "strange" } } },
        },
      }).invoke(QUESTION),
    ),
});
