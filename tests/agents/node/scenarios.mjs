// What the scripts of this folder share: what is asked, and the lines that they print.
//
//   node SCRIPT                                   prints the names of its scenarios, a line each
//   node SCRIPT BASE_URL MODEL SCENARIO...        runs these scenarios
//
// and prints a line of JSON for each as it ends: `scenario`, `seconds`, and what it gave. tests/agents/records.py says what the fields mean.
import { z } from "zod";

export const QUESTION = "What is the weather in Paris, in celsius?";
export const PROSE = 40; // max_tokens of a text
export const JSON_TOKENS = 120; // max_tokens of an answer that is held to a schema

export const forecast = z.object({
  city: z.string().max(30),
  celsius: z.number().int().min(-60).max(60),
  sky: z.enum(["clear", "cloudy", "rain"]),
});
export const forecastSchema = {
  type: "object",
  properties: {
    city: { type: "string", maxLength: 30 },
    celsius: { type: "integer", minimum: -60, maximum: 60 },
    sky: { enum: ["clear", "cloudy", "rain"] },
  },
  required: ["city", "celsius", "sky"],
  additionalProperties: false,
};
export const weather = z.object({ city: z.string().max(30) });
export const thermostat = z.object({
  room: z.enum(["kitchen", "bedroom"]),
  degrees: z.union([z.literal(18), z.literal(20), z.literal(22)]),
});
export const weatherSchema = {
  type: "object",
  properties: { city: { type: "string", maxLength: 30 } },
  required: ["city"],
  additionalProperties: false,
};
export const thermostatSchema = {
  type: "object",
  properties: { room: { enum: ["kitchen", "bedroom"] }, degrees: { enum: [18, 20, 22] } },
  required: ["room", "degrees"],
  additionalProperties: false,
};
export const DESCRIPTIONS = {
  get_weather: "The weather of a city.",
  thermostat: "Set the temperature of a room.",
};
export const getWeather = ({ city }) => `Clear, 21 degrees in ${city}.`;
export const setThermostat = ({ room, degrees }) => `The ${room} will have ${degrees} degrees.`;

export async function run(scenarios) {
  const [baseURL, model, ...names] = process.argv.slice(2);
  if (baseURL === undefined) console.log(Object.keys(scenarios).join("\n"));
  for (const name of names) {
    const started = performance.now();
    const line = { scenario: name };
    try {
      Object.assign(line, await scenarios[name]({ baseURL, model }));
    } catch (error) {
      line.error = {
        class: error?.constructor?.name,
        message: `${error?.message ?? error} ${error?.cause ?? ""}`,
        code: error?.code,
      };
      line.finish = error?.finishReason;
    }
    line.seconds = (performance.now() - started) / 1000;
    console.log(JSON.stringify(line));
  }
}
