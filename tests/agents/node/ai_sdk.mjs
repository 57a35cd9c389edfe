// The AI SDK, through its provider for OpenAI, which speaks Responses unless told otherwise, and through the one for compatible servers.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, Output, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";
import {
  DESCRIPTIONS,
  forecast,
  getWeather,
  JSON_TOKENS,
  PROSE,
  QUESTION,
  run,
  setThermostat,
  thermostat,
  weather,
} from "./scenarios.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const tools = {
  get_weather: tool({ description: DESCRIPTIONS.get_weather, inputSchema: weather, execute: getWeather }),
  thermostat: tool({ description: DESCRIPTIONS.thermostat, inputSchema: thermostat, execute: setThermostat }),
};
const MODELS = {
  openai: ({ baseURL, model }) => createOpenAI({ baseURL, apiKey: "none" })(model),
  "openai-chat": ({ baseURL, model }) => createOpenAI({ baseURL, apiKey: "none" }).chat(model),
  compatible: ({ baseURL, model }) =>
    createOpenAICompatible({ name: "narrows", baseURL, includeUsage: true, supportsStructuredOutputs: true })(model),
};

const usage = (of) => [of.inputTokens, of.outputTokens];
const callsOf = (steps) =>
  steps.flatMap((step) =>
    step.toolCalls.map((call) => ({ id: call.toolCallId, name: call.toolName, arguments: JSON.stringify(call.input) })),
  );
const ofSteps = (text, steps, finish, used) => ({
  text,
  calls: callsOf(steps),
  results: steps.flatMap((step) => step.toolResults.map((result) => result.output)),
  steps: steps.length,
  finish,
  usage: usage(used),
});

// The first answer has to call, and the next one may not.
const twoSteps = {
  tools,
  toolChoice: "required",
  stopWhen: stepCountIs(2),
  maxOutputTokens: JSON_TOKENS,
  prepareStep: ({ stepNumber }) => (stepNumber === 0 ? {} : { toolChoice: "none" }),
};

async function generated(model, more) {
  const made = await generateText({
    model,
    prompt: QUESTION,
    maxOutputTokens: PROSE,
    temperature: 0,
    maxRetries: 0,
    ...more,
  });
  return ofSteps(made.text, made.steps, made.finishReason, made.totalUsage ?? made.usage);
}

async function streamed(model, more) {
  const pieces = [];
  const argumentPieces = new Map();
  let failure;
  const options = { model, prompt: QUESTION, maxOutputTokens: PROSE, temperature: 0, maxRetries: 0, ...more };
  const made = streamText({
    ...options,
    onError: ({ error }) => {
      failure = error;
    },
  });
  for await (const part of made.fullStream ?? made.stream) {
    if (part.type === "start-step") pieces.length = 0; // `text` is that of the last step
    if (part.type === "text-delta") pieces.push(part.text);
    if (part.type === "tool-input-delta") {
      argumentPieces.set(part.id, [...(argumentPieces.get(part.id) ?? []), part.delta]);
    }
  }
  if (failure) throw failure;
  const steps = await made.steps;
  const record = ofSteps(
    await made.text,
    steps,
    await made.finishReason,
    (await made.totalUsage) ?? (await made.usage),
  );
  return { ...record, pieces, argumentPieces: [...argumentPieces.values()] };
}

const object = (model, more) => ({
  model,
  prompt: QUESTION,
  maxOutputTokens: JSON_TOKENS,
  temperature: 0,
  maxRetries: 0,
  ...more,
});

async function generatedObject(model, more) {
  const made = await generateObject(object(model, more));
  return { value: made.object, finish: made.finishReason, usage: usage(made.usage) };
}

async function streamedObject(model, more) {
  const pieces = [];
  let failure;
  const made = streamObject({
    ...object(model, more),
    onError: ({ error }) => {
      failure = error;
    },
  });
  for await (const part of made.fullStream) if (part.type === "text-delta") pieces.push(part.textDelta);
  if (failure) throw failure;
  return {
    value: await made.object,
    text: pieces.join(""),
    pieces,
    finish: await made.finishReason,
    usage: usage(await made.usage),
  };
}

async function output(model, kind) {
  const made = await generateText({ ...object(model), output: kind });
  return { value: made.output, finish: made.finishReason, usage: usage(made.usage) };
}

async function outputStreamed(model, kind) {
  let partial;
  let failure;
  const made = streamText({
    ...object(model),
    output: kind,
    onError: ({ error }) => {
      failure = error;
    },
  });
  for await (const value of made.partialOutputStream) partial = value;
  if (failure) throw failure;
  return { value: await made.output, partial, finish: await made.finishReason, usage: usage(await made.usage) };
}

async function conversation(model, more) {
  const options = { model, maxOutputTokens: PROSE, temperature: 0, maxRetries: 0, ...more };
  const first = await generateText({ ...options, prompt: QUESTION });
  const asked = [{ role: "user", content: QUESTION }, ...first.response.messages];
  const made = await generateText({ ...options, messages: [...asked, { role: "user", content: "And in London?" }] });
  return { ...ofSteps(made.text, made.steps, made.finishReason, made.usage), steps: 2 };
}

const skies = ["clear", "cloudy", "rain"];
const SCENARIOS = {
  text: (model) => generated(model),
  "text-streamed": (model) => streamed(model),
  tools: (model) => generated(model, { ...twoSteps, stopWhen: stepCountIs(1) }),
  "tools-steps": (model) => generated(model, twoSteps),
  "tools-steps-streamed": (model) => streamed(model, twoSteps),
  object: (model) => generatedObject(model, { schema: forecast }),
  "object-streamed": (model) => streamedObject(model, { schema: forecast }),
  array: (model) => generatedObject(model, { output: "array", schema: z.object({ city: z.string().max(10) }) }),
  enum: (model) => generatedObject(model, { output: "enum", enum: skies }),
  "no-schema": (model) => generatedObject(model, { output: "no-schema", prompt: "A JSON object, please." }),
  "output-object": (model) => output(model, Output.object({ schema: forecast })),
  "output-object-streamed": (model) => outputStreamed(model, Output.object({ schema: forecast })),
  "output-array": (model) => output(model, Output.array({ element: weather })),
  "output-choice": (model) => output(model, Output.choice({ options: skies })),
  "output-and-tools": async (model) => {
    const made = await generateText({ ...object(model), ...twoSteps, output: Output.object({ schema: forecast }) });
    return { ...ofSteps(made.text, made.steps, made.finishReason, made.totalUsage), value: made.output };
  },
  // Through Responses, the second request refers to the answer, which the server remembers.
  conversation: (model) => conversation(model, {}),
  "conversation-unstored": (model) => conversation(model, { providerOptions: { openai: { store: false } } }),
};

await run(
  Object.fromEntries(
    Object.entries(MODELS).flatMap(([prefix, made]) =>
      Object.entries(SCENARIOS).map(([name, scenario]) => [`${prefix}-${name}`, (at) => scenario(made(at))]),
    ),
  ),
);
