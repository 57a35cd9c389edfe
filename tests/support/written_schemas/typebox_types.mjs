// Types as people write them with TypeBox. A type is its JSON Schema.
//
//     node typebox_types.mjs >typebox.json

import { Type } from "@sinclair/typebox";

const Point = Type.Object({ x: Type.Number(), y: Type.Number() });
const Node = Type.Recursive((This) => Type.Object({ id: Type.String(), children: Type.Array(This) }), { $id: "Node" });
const Cat = Type.Object({ kind: Type.Literal("cat"), lives: Type.Integer({ minimum: 0, maximum: 9 }) });
const Dog = Type.Object({ kind: Type.Literal("dog"), good: Type.Boolean() });
const User = Type.Object({
  id: Type.String({ format: "uuid" }),
  email: Type.String({ format: "email" }),
  age: Type.Optional(Type.Integer({ minimum: 0 })),
  roles: Type.Array(Type.Union([Type.Literal("admin"), Type.Literal("user")]), { uniqueItems: true }),
});

const types = {
  any: Type.Any(),
  unknown: Type.Unknown(),
  string: Type.String(),
  "string, bounds": Type.String({ minLength: 2, maxLength: 8 }),
  "string, pattern": Type.String({ pattern: "^[a-z]+$" }),
  "string, format": Type.String({ format: "date-time" }),
  number: Type.Number(),
  "number, bounds": Type.Number({ exclusiveMinimum: 0, maximum: 1 }),
  "number, steps": Type.Number({ multipleOf: 0.25 }),
  integer: Type.Integer(),
  "integer, steps of 3": Type.Integer({ multipleOf: 3 }),
  boolean: Type.Boolean(),
  null: Type.Null(),
  literal: Type.Literal("x"),
  "literal number": Type.Literal(7),
  enum: Type.Enum({ A: "a", B: "b" }),
  "enum, numbers": Type.Enum({ Zero: 0, One: 1 }),
  array: Type.Array(Type.String()),
  "array, bounds": Type.Array(Type.Number(), { minItems: 1, maxItems: 4 }),
  "array, unique": Type.Array(Type.String(), { uniqueItems: true }),
  "array, contains": Type.Array(Type.Number(), { contains: Type.Literal(1), minContains: 1, maxContains: 2 }),
  tuple: Type.Tuple([Type.String(), Type.Number()]),
  "tuple, empty": Type.Tuple([]),
  object: Point,
  "object, closed": Type.Object({ a: Type.String() }, { additionalProperties: false }),
  "object, others": Type.Object({ a: Type.String() }, { additionalProperties: Type.Number() }),
  "object, optional": Type.Object({ a: Type.Optional(Type.String()), b: Type.Readonly(Type.Number()) }),
  "object, at least one": Type.Object({ a: Type.Optional(Type.String()), b: Type.Optional(Type.String()) }, { minProperties: 1 }),
  "object, partial": Type.Partial(User),
  "object, pick": Type.Pick(User, ["id", "email"]),
  "object, omit": Type.Omit(User, ["roles"]),
  "object, required": Type.Required(Type.Partial(Point)),
  "object, composed": Type.Composite([Point, Type.Object({ z: Type.Number() })]),
  user: User,
  record: Type.Record(Type.String(), Type.Number()),
  "record, closed": Type.Record(Type.String(), Type.Number(), { additionalProperties: false }),
  "record, keys by pattern": Type.Record(Type.String({ pattern: "^[a-z]{2}$" }), Type.String()),
  "record, number keys": Type.Record(Type.Number(), Type.String()),
  "record, literal keys": Type.Record(Type.Union([Type.Literal("a"), Type.Literal("b")]), Type.Boolean()),
  union: Type.Union([Type.String(), Type.Number()]),
  "union of objects": Type.Union([Cat, Dog]),
  "union with null": Type.Union([Type.String(), Type.Null()]),
  intersect: Type.Intersect([Point, Type.Object({ label: Type.String() })]),
  "intersect, nothing else": Type.Intersect([Point, Type.Object({ label: Type.String() })], { unevaluatedProperties: false }),
  "intersect of a union": Type.Intersect([Type.Object({ id: Type.String() }), Type.Union([Cat, Dog])]),
  not: Type.Not(Type.String()),
  "not, beside": Type.Intersect([Type.String(), Type.Not(Type.Literal("root"))]),
  "extract": Type.Extract(Type.Union([Type.Literal("a"), Type.Literal("b"), Type.Literal("c")]), Type.Union([Type.Literal("a"), Type.Literal("b")])),
  keyof: Type.KeyOf(Point),
  "template literal": Type.TemplateLiteral([Type.Literal("v"), Type.Number(), Type.Literal("-"), Type.Union([Type.Literal("a"), Type.Literal("b")])]),
  "template literal of a string": Type.TemplateLiteral("user_${string}"),
  recursive: Node,
  "recursive list": Type.Recursive((This) => Type.Object({ value: Type.Number(), next: Type.Union([This, Type.Null()]) })),
  "tool: search": Type.Object({
    query: Type.String({ description: "What to look for", minLength: 1 }),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
    sort: Type.Optional(Type.Union([Type.Literal("date"), Type.Literal("score")])),
  }),
  "tool: create issue": Type.Object({
    title: Type.String({ maxLength: 120 }),
    body: Type.Optional(Type.String()),
    labels: Type.Optional(Type.Array(Type.String(), { uniqueItems: true, maxItems: 10 })),
    assignee: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  }, { additionalProperties: false }),
  "config": Type.Object({
    port: Type.Integer({ minimum: 1, maximum: 65535 }),
    hosts: Type.Array(Type.String({ format: "hostname" }), { minItems: 1 }),
    tls: Type.Optional(Type.Object({ cert: Type.String(), key: Type.String() })),
    env: Type.Record(Type.String({ pattern: "^[A-Z_]+$" }), Type.String()),
  }),
};

process.stdout.write(JSON.stringify(types) + "\n");
