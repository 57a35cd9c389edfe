// The official client for JavaScript: chat completions and Responses.
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
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
  thermostatSchema,
  weather,
  weatherSchema,
} from "./scenarios.mjs";

const connected = ({ baseURL }) => new OpenAI({ baseURL, apiKey: "none" });
const messages = [{ role: "user", content: QUESTION }];
const chat = ({ model }, more) => ({ model, messages, max_tokens: PROSE, temperature: 0, ...more });
const respond = ({ model }, more) => ({ model, input: QUESTION, max_output_tokens: PROSE, temperature: 0, ...more });
const tools = [
  ["get_weather", weatherSchema],
  ["thermostat", thermostatSchema],
].map(([name, parameters]) => ({ type: "function", function: { name, description: DESCRIPTIONS[name], parameters } }));
const called = { tools, tool_choice: "required", max_tokens: JSON_TOKENS };
const flat = tools.map((tool) => ({ type: "function", strict: true, ...tool.function }));
const respondCalling = { tools: flat, tool_choice: "required", max_output_tokens: JSON_TOKENS };
const runnable = [
  ["get_weather", weatherSchema, getWeather],
  ["thermostat", thermostatSchema, setThermostat],
].map(([name, parameters, f]) => ({
  type: "function",
  function: { name, description: DESCRIPTIONS[name], parameters, function: f, parse: JSON.parse },
}));

const usage = (of) => [of.prompt_tokens ?? of.input_tokens, of.completion_tokens ?? of.output_tokens];
const ofCompletion = (completion) => {
  const [choice] = completion.choices;
  return {
    text: choice.message.content,
    calls: (choice.message.tool_calls ?? []).map((call) => ({ id: call.id, ...call.function })),
    finish: choice.finish_reason,
    usage: completion.usage && usage(completion.usage),
    value: choice.message.parsed,
  };
};
const ofResponse = (response) => ({
  text: response.output_text,
  calls: response.output
    .filter((item) => item.type === "function_call")
    .map((item) => ({ id: item.call_id, name: item.name, arguments: item.arguments })),
  finish: response.incomplete_details?.reason ?? response.status,
  usage: usage(response.usage),
  value: response.output_parsed,
});

async function streamedChat(at, more) {
  const pieces = [];
  const argumentPieces = [];
  const stream = connected(at).chat.completions.stream(chat(at, { stream_options: { include_usage: true }, ...more }));
  stream.on("content.delta", ({ delta }) => pieces.push(delta));
  stream.on("tool_calls.function.arguments.delta", ({ index, arguments_delta }) => {
    argumentPieces[index] = [...(argumentPieces[index] ?? []), arguments_delta];
  });
  return { ...ofCompletion(await stream.finalChatCompletion()), pieces, argumentPieces };
}

async function streamedResponse(at, more) {
  const pieces = [];
  const argumentPieces = new Map();
  const events = [];
  const stream = connected(at).responses.stream(respond(at, more));
  for await (const event of stream) {
    events.push(event.type);
    if (event.type === "response.output_text.delta") pieces.push(event.delta);
    if (event.type === "response.function_call_arguments.delta") {
      argumentPieces.set(event.item_id, [...(argumentPieces.get(event.item_id) ?? []), event.delta]);
    }
  }
  const made = ofResponse(await stream.finalResponse());
  return { ...made, pieces, argumentPieces: [...argumentPieces.values()], events };
}

await run({
  chat: async (at) => ofCompletion(await connected(at).chat.completions.create(chat(at))),
  "chat-streamed": (at) => streamedChat(at),
  "chat-chunks": async (at) => {
    const pieces = [];
    let finish;
    for await (const chunk of await connected(at).chat.completions.create(chat(at, { stream: true }))) {
      pieces.push(chunk.choices[0].delta.content ?? "");
      finish = chunk.choices[0].finish_reason ?? finish;
    }
    return { pieces, text: pieces.join(""), finish };
  },
  tools: async (at) => ofCompletion(await connected(at).chat.completions.create(chat(at, called))),
  "tools-streamed": (at) => streamedChat(at, called),
  "tools-zod": async (at) => {
    const tool = zodFunction({ name: "get_weather", parameters: weather, description: DESCRIPTIONS.get_weather });
    return ofCompletion(await connected(at).chat.completions.parse(chat(at, { ...called, tools: [tool] })));
  },
  "run-tools": async (at) => {
    const body = chat(at, { tools: runnable, max_tokens: JSON_TOKENS });
    body.tool_choice = { type: "function", function: { name: "get_weather" } };
    const runner = connected(at).chat.completions.runTools(body);
    const result = await runner.finalFunctionToolCallResult();
    const [first] = runner.allChatCompletions();
    return { ...ofCompletion(first), steps: runner.allChatCompletions().length, results: [result] };
  },
  "run-tools-streamed": async (at) => {
    const body = chat(at, { tools: runnable, tool_choice: "required", max_tokens: JSON_TOKENS, stream: true });
    const results = [];
    const runner = connected(at).chat.completions.runTools(body, { maxChatCompletions: 2 });
    runner.on("functionToolCallResult", (result) => results.push(result));
    await runner.done();
    const made = runner.allChatCompletions();
    const calls = made.flatMap((completion) => ofCompletion(completion).calls);
    return { ...ofCompletion(made[0]), calls, steps: made.length, results };
  },
  "json-schema": async (at) => {
    const json_schema = { name: "forecast", strict: true, schema: forecastSchema };
    const format = { response_format: { type: "json_schema", json_schema }, max_tokens: JSON_TOKENS };
    return ofCompletion(await connected(at).chat.completions.create(chat(at, format)));
  },
  "json-object": async (at) => {
    const format = { response_format: { type: "json_object" }, max_tokens: JSON_TOKENS };
    return ofCompletion(await connected(at).chat.completions.create(chat(at, format)));
  },
  zod: async (at) => {
    const format = { response_format: zodResponseFormat(forecast, "forecast"), max_tokens: JSON_TOKENS };
    return ofCompletion(await connected(at).chat.completions.parse(chat(at, format)));
  },
  "zod-streamed": (at) =>
    streamedChat(at, { response_format: zodResponseFormat(forecast, "forecast"), max_tokens: JSON_TOKENS }),
  responses: async (at) => ofResponse(await connected(at).responses.create(respond(at))),
  "responses-streamed": (at) => streamedResponse(at),
  "responses-tools": async (at) => ofResponse(await connected(at).responses.create(respond(at, respondCalling))),
  "responses-tools-streamed": (at) => streamedResponse(at, respondCalling),
  "responses-tools-zod": async (at) => {
    const tool = zodResponsesFunction({ name: "get_weather", parameters: weather });
    return ofResponse(await connected(at).responses.parse(respond(at, { ...respondCalling, tools: [tool] })));
  },
  "responses-zod": async (at) => {
    const format = { text: { format: zodTextFormat(forecast, "forecast") }, max_output_tokens: JSON_TOKENS };
    return ofResponse(await connected(at).responses.parse(respond(at, format)));
  },
  "responses-zod-streamed": (at) =>
    streamedResponse(at, { text: { format: zodTextFormat(forecast, "forecast") }, max_output_tokens: JSON_TOKENS }),
  "responses-previous": async (at) => {
    const client = connected(at);
    const first = await client.responses.create(respond(at, { ...respondCalling, parallel_tool_calls: false }));
    const [call] = ofResponse(first).calls;
    const output = { type: "function_call_output", call_id: call.id, output: "Clear, 21 degrees." };
    const more = { previous_response_id: first.id, input: [output], tools: flat };
    const second = await client.responses.create(respond(at, more));
    return {
      ...ofResponse(second),
      calls: ofResponse(first).calls,
      steps: 2,
      previous: second.previous_response_id === first.id,
    };
  },
  models: async (at) => {
    const found = [];
    for await (const model of connected(at).models.list()) found.push(model.id);
    return { text: found.join(" ") };
  },
  refused: async (at) => {
    const json_schema = { name: "x", strict: true, schema: { type: "strange" } };
    return ofCompletion(
      await connected(at).chat.completions.create(chat(at, { response_format: { type: "json_schema", json_schema } })),
    );
  },
});
