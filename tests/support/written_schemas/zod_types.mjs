// Types as people write them with Zod, and the JSON Schemas that Zod 4 and zod-to-json-schema (Zod 3) make of them.
//
//     node zod_types.mjs 4 >zod_4.json
//     node zod_types.mjs 3 >zod_3.json

const version = process.argv[2];

function common(z) {
  const address = z.object({
    street: z.string().min(1),
    city: z.string(),
    zip: z.string().regex(/^\d{5}(-\d{4})?$/),
    country: z.string().length(2).optional(),
  });
  const money = z.object({ amount: z.number().multipleOf(0.01), currency: z.enum(["EUR", "USD", "GBP"]) });
  const category = z.object({
    name: z.string(),
    get children() {
      return z.array(category);
    },
  });
  const person = z.object({
    name: z.string().min(1).max(100),
    age: z.number().int().min(0).max(150),
    email: z.string().email(),
    tags: z.array(z.string()).default([]),
  });
  const event = z.discriminatedUnion("type", [
    z.object({ type: z.literal("created"), id: z.string().uuid() }),
    z.object({ type: z.literal("renamed"), id: z.string().uuid(), name: z.string() }),
    z.object({ type: z.literal("deleted"), id: z.string().uuid(), reason: z.string().nullable() }),
  ]);
  const types = {
    address,
    money,
    person,
    event,
    string: z.string(),
    "string, described": z.string().describe("What the user said"),
    "string, bounds": z.string().min(3).max(20),
    "string, exact length": z.string().length(8),
    "string, not empty": z.string().nonempty(),
    "string, email": z.string().email(),
    "string, url": z.string().url(),
    "string, uuid": z.string().uuid(),
    "string, cuid": z.string().cuid(),
    "string, cuid2": z.string().cuid2(),
    "string, ulid": z.string().ulid(),
    "string, nanoid": z.string().nanoid(),
    "string, emoji": z.string().emoji(),
    "string, base64": z.string().base64(),
    "string, datetime": z.string().datetime(),
    "string, datetime with offset": z.string().datetime({ offset: true }),
    "string, datetime to the millisecond": z.string().datetime({ precision: 3 }),
    "string, date": z.string().date(),
    "string, time": z.string().time(),
    "string, duration": z.string().duration(),
    "string, regex": z.string().regex(/^[A-Z]{3}-\d{4}$/),
    "string, regex anywhere": z.string().regex(/\d+/),
    "string, regex, any case": z.string().regex(/^(yes|no)$/i),
    "string, two regexes": z.string().regex(/^[a-z]/).regex(/[0-9]$/),
    "string, starts with": z.string().startsWith("https://"),
    "string, ends with": z.string().endsWith(".pdf"),
    "string, includes": z.string().includes("@"),
    "string, starts and ends": z.string().startsWith("a.").endsWith(".z").max(40),
    "string, trimmed": z.string().trim(),
    "string, lower case": z.string().toLowerCase(),
    number: z.number(),
    "number, bounds": z.number().min(0).max(1),
    "number, positive": z.number().positive(),
    "number, negative": z.number().negative(),
    "number, not negative": z.number().nonnegative(),
    "number, finite": z.number().finite(),
    "number, safe": z.number().safe(),
    "number, steps of 0.5": z.number().multipleOf(0.5),
    "number, steps of 5": z.number().step(5),
    "number, steps of 7": z.number().int().multipleOf(7),
    "number, between": z.number().gt(0).lt(100),
    integer: z.number().int(),
    "integer, port": z.number().int().min(1).max(65535),
    "integer, positive": z.number().int().positive(),
    boolean: z.boolean(),
    null: z.null(),
    any: z.any(),
    unknown: z.unknown(),
    "literal string": z.literal("yes"),
    "literal number": z.literal(42),
    "literal boolean": z.literal(true),
    "literal null": z.literal(null),
    enum: z.enum(["low", "medium", "high"]),
    "native enum": z.nativeEnum({ Up: "UP", Down: "DOWN" }),
    "native enum, numbers": z.nativeEnum({ Zero: 0, One: 1 }),
    array: z.array(z.string()),
    "array, bounds": z.array(z.number()).min(1).max(5),
    "array, exact length": z.array(z.boolean()).length(3),
    "array, not empty": z.array(z.string()).nonempty(),
    "array of arrays": z.array(z.array(z.number())),
    "array of objects": z.array(z.object({ id: z.number(), done: z.boolean() })),
    "array of unions": z.array(z.union([z.string(), z.number()])),
    tuple: z.tuple([z.string(), z.number()]),
    "tuple, rest": z.tuple([z.string()]).rest(z.number()),
    "tuple, mixed": z.tuple([z.literal("move"), z.object({ x: z.number(), y: z.number() })]),
    record: z.record(z.string(), z.number()),
    "record of objects": z.record(z.string(), z.object({ score: z.number(), note: z.string().optional() })),
    "record, keys by length": z.record(z.string().min(2).max(8), z.string()),
    "record, keys by pattern": z.record(z.string().regex(/^[a-z_]+$/), z.boolean()),
    "record of records": z.record(z.string(), z.record(z.string(), z.array(z.string()))),
    object: z.object({ a: z.string(), b: z.number() }),
    "object, empty": z.object({}),
    "object, optional": z.object({ a: z.string().optional(), b: z.number().optional() }),
    "object, nullable": z.object({ a: z.string().nullable(), b: z.number().nullish() }),
    "object, defaults": z.object({ limit: z.number().int().default(10), order: z.enum(["asc", "desc"]).default("asc") }),
    "object, strict": z.object({ a: z.string() }).strict(),
    "object, passthrough": z.object({ a: z.string() }).passthrough(),
    "object, catchall": z.object({ a: z.string() }).catchall(z.number()),
    "object, nested": z.object({ user: z.object({ name: z.string(), home: address }), items: z.array(money) }),
    "object, deep": z.object({ a: z.object({ b: z.object({ c: z.object({ d: z.string() }) }) }) }),
    "object, partial": person.partial(),
    "object, pick": person.pick({ name: true, email: true }),
    "object, omit": person.omit({ age: true }),
    "object, extended": person.extend({ manager: z.string().uuid().optional() }),
    "object, merged": address.merge(money),
    "object, keys to escape": z.object({ "a/b": z.string(), "a~b": z.number(), "with space": z.boolean(), "é": z.string() }),
    "same schema twice": z.object({ billing: address, shipping: address }),
    union: z.union([z.string(), z.number()]),
    "union, three": z.union([z.string(), z.number(), z.boolean()]),
    "union of literals": z.union([z.literal("a"), z.literal("b"), z.literal(3)]),
    "union of objects": z.union([z.object({ a: z.string() }), z.object({ b: z.number() })]),
    "union of objects that overlap": z.union([z.object({ a: z.string() }), z.object({ a: z.string(), b: z.number().optional() })]),
    "union with null": z.union([z.string(), z.null()]),
    "union with an array": z.union([z.string(), z.array(z.string())]),
    "discriminated, nested": z.object({ events: z.array(event), at: z.string().datetime() }),
    "discriminated by number": z.discriminatedUnion("v", [
      z.object({ v: z.literal(1), name: z.string() }),
      z.object({ v: z.literal(2), first: z.string(), last: z.string() }),
    ]),
    intersection: z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() })),
    "intersection of three": z.object({ a: z.string() }).and(z.object({ b: z.number() })).and(z.object({ c: z.boolean() })),
    "intersection with a union": z.intersection(z.object({ id: z.string() }), z.union([z.object({ a: z.string() }), z.object({ b: z.number() })])),
    nullable: z.string().nullable(),
    "nullable object": z.object({ a: z.string() }).nullable(),
    "nullable enum": z.enum(["a", "b"]).nullable(),
    default: z.string().default("x"),
    catch: z.number().catch(0),
    brand: z.string().brand("UserId"),
    readonly: z.object({ a: z.array(z.string()) }).readonly(),
    refined: z.string().refine((text) => text.length % 2 === 0),
    "lazy list": z.lazy(() => z.object({ head: z.number(), tail: z.array(z.string()) })),
    "tool: search": z.object({
      query: z.string().describe("What to look for"),
      limit: z.number().int().min(1).max(100).default(10).describe("How many results"),
      filters: z.object({ from: z.string().date().optional(), to: z.string().date().optional(), types: z.array(z.enum(["pdf", "html"])).optional() }).optional(),
    }),
    "tool: send mail": z.object({
      to: z.array(z.string().email()).min(1),
      cc: z.array(z.string().email()).optional(),
      subject: z.string().max(200),
      body: z.string(),
      attachments: z.array(z.object({ name: z.string(), content: z.string().base64() })).max(10).optional(),
    }),
    "tool: run query": z.object({ sql: z.string(), params: z.array(z.union([z.string(), z.number(), z.boolean(), z.null()])).default([]) }),
    "tool: http request": z.object({
      method: z.enum(["GET", "POST", "PUT", "DELETE"]),
      url: z.string().url(),
      headers: z.record(z.string(), z.string()).optional(),
      body: z.any().optional(),
      timeout: z.number().int().positive().max(60000).optional(),
    }),
    "tool: edit file": z.object({
      path: z.string(),
      edits: z.array(z.object({ oldText: z.string(), newText: z.string() })).min(1),
      dryRun: z.boolean().default(false),
    }),
    "tool: screenshot": z.object({
      selector: z.string().optional(),
      fullPage: z.boolean().optional(),
      width: z.number().int().min(320).max(3840).optional(),
      format: z.enum(["png", "jpeg"]).default("png"),
      quality: z.number().min(0).max(100).optional(),
    }),
    "tool: weather": z.object({ location: z.union([z.string(), z.object({ lat: z.number().min(-90).max(90), lon: z.number().min(-180).max(180) })]), unit: z.enum(["C", "F"]).optional() }),
    "answer: extraction": z.object({
      title: z.string(),
      authors: z.array(z.string()),
      year: z.number().int().min(1800).max(2100).nullable(),
      keywords: z.array(z.string()).max(10),
      summary: z.string().max(500),
    }),
    "answer: classification": z.object({ label: z.enum(["spam", "ham"]), confidence: z.number().min(0).max(1), reasons: z.array(z.string()) }),
    "answer: steps": z.object({ steps: z.array(z.object({ explanation: z.string(), output: z.string() })), final_answer: z.string() }),
    "answer: plan": z.object({
      goal: z.string(),
      tasks: z.array(z.object({ id: z.number().int(), title: z.string(), dependsOn: z.array(z.number().int()), status: z.enum(["todo", "doing", "done"]) })),
    }),
    "answer: invoice": z.object({
      number: z.string().regex(/^INV-\d{4,}$/),
      date: z.string().date(),
      lines: z.array(z.object({ text: z.string(), quantity: z.number().positive(), price: money })).min(1),
      total: money,
      customer: z.object({ name: z.string(), address }),
    }),
    "answer: chart": z.object({ kind: z.enum(["bar", "line"]), series: z.array(z.object({ name: z.string(), points: z.array(z.tuple([z.number(), z.number()])) })) }),
  };
  return { types, category };
}

function onlyIn4(z, category) {
  const node = z.object({
    value: z.number(),
    get next() {
      return node.nullable();
    },
  });
  return {
    "recursive category": category,
    "recursive list": node,
    "z.email": z.email(),
    "z.uuidv4": z.uuidv4(),
    "z.url": z.url(),
    "z.ipv4": z.ipv4(),
    "z.ipv6": z.ipv6(),
    "z.cidrv4": z.cidrv4(),
    "z.cidrv6": z.cidrv6(),
    "z.base64url": z.base64url(),
    "z.jwt": z.jwt(),
    "z.e164": z.e164(),
    "z.iso.date": z.iso.date(),
    "z.iso.time": z.iso.time(),
    "z.iso.datetime": z.iso.datetime(),
    "z.iso.duration": z.iso.duration(),
    "z.int": z.int(),
    "z.int32": z.int32(),
    "z.uint32": z.uint32(),
    "z.float32": z.float32(),
    "z.float64": z.float64(),
    "z.stringbool, input": z.object({ flag: z.string() }),
    "z.strictObject": z.strictObject({ a: z.string() }),
    "z.looseObject": z.looseObject({ a: z.string() }),
    "z.partialRecord": z.partialRecord(z.enum(["a", "b"]), z.number()),
    "z.record of an enum": z.record(z.enum(["a", "b"]), z.number()),
    "z.literal of several": z.literal(["a", "b", 3]),
    "z.templateLiteral": z.templateLiteral(["v", z.number(), ".", z.number()]),
    "z.file name": z.object({ name: z.string().regex(/^[\w,\s-]+\.[A-Za-z]{3}$/) }),
    "z.json": z.json(),
    "z.never inside": z.object({ a: z.string(), b: z.never().optional() }),
    "string, uppercase": z.string().uppercase(),
    "string, lowercase": z.string().lowercase(),
    "meta": z.string().meta({ id: "named", title: "Named", description: "has a name", examples: ["a"] }),
    "nested meta": z.object({ a: z.string().meta({ title: "A" }), b: z.number().meta({ examples: [1] }) }),
    "prefault": z.string().prefault("x"),
    "non-optional": z.object({ a: z.string().optional().nonoptional() }),
    "union with a default tag": z.union([z.object({ kind: z.literal("a").default("a"), x: z.number() }), z.object({ kind: z.literal("b").default("b"), y: z.string() })]),
  };
}

const found = {};
if (version === "4") {
  const { z } = await import("zod4");
  const { types, category } = common(z);
  for (const [name, type] of Object.entries({ ...types, ...onlyIn4(z, category) })) {
    for (const io of ["output", "input"]) {
      for (const target of io === "output" ? ["draft-2020-12", "draft-7"] : ["draft-2020-12"]) {
        try {
          found[`${name} (${io}, ${target})`] = z.toJSONSchema(type, { io, target });
        } catch (error) {
          process.stderr.write(`${name}: ${error.message}\n`);
        }
      }
    }
  }
} else {
  const { z } = await import("zod3");
  const { zodToJsonSchema } = await import("zod-to-json-schema");
  for (const [name, type] of Object.entries(common(z).types)) {
    for (const target of ["jsonSchema7", "openAi"]) {
      try {
        found[`${name} (${target})`] = zodToJsonSchema(type, { target });
      } catch (error) {
        process.stderr.write(`${name}: ${error.message}\n`);
      }
    }
  }
}
// What another target writes alike is kept once.
const seen = new Set();
const kept = Object.entries(found).filter(([, schema]) => {
  const text = JSON.stringify({ ...schema, $schema: undefined });
  return !seen.has(text) && seen.add(text);
});
process.stdout.write(JSON.stringify(Object.fromEntries(kept), null, 0) + "\n");
