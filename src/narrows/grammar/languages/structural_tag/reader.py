"""From the formats of a structural tag to rules.

Each format is read by a generator that asks for the formats inside it and gets their nodes. The generators wait on a
list, so nothing recurses. What a format needs to know of its surroundings is its `Around`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from narrows.errors import LimitError, NarrowsError
from narrows.grammar import ir, utf8
from narrows.grammar.embed import embedded
from narrows.grammar.free_text import TEXT, Switch, endings_before, run, switching
from narrows.grammar.json_schema import schema_rules
from narrows.grammar.json_schema.spelling.spelling import MAX_BLANKS, spelling_with_gaps
from narrows.grammar.languages.gbnf import gbnf_module
from narrows.grammar.languages.structural_tag.fields import (
    LEGACY,
    STRUCTURE,
    TOP,
    checked,
    invalid,
    read_fields,
    unsupported,
)
from narrows.grammar.regex import regex_node
from narrows.grammar.spelled import spelled
from narrows.grammar.work import Work


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a format."""

    ends: tuple[str, ...] = ()
    """The end strings of the nearest tag, without the empty one. Free text in it holds none of them."""
    before: str = ""
    """The string that follows directly, where it is one of `ends` that free text must mind."""
    end_token: int | str | None = None
    """The end token of the nearest tag. Free tokens in it leave it out."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A format to be read for another one."""

    value: Mapping[str, Any]
    pointer: str
    around: Around
    only: str | None = None
    """The only type that may stand there."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A tag that was read, and the string that it begins with."""

    begin: str
    node: ir.Node
    pointer: str
    """Where the string stands."""


_Reading = Generator[_Wanted, ir.Node, ir.Node]


class Reader:
    """Reads one structural tag. `rules`, `sources`, `places` and `report` are what it has come to."""

    def __init__(self, work: Work, schema_options: Mapping[str, Any]) -> None:
        self.work = work
        self.rules: dict[str, ir.Node] = {}
        self.sources: dict[str, str] = {}
        self.places: dict[int, str] = {}
        self.report: dict[str, Any] = {}
        self.is_marked = True
        """Every lexeme is where it belongs (`ir.Module.marked`)."""
        self._schema_options = schema_options
        self._read_type: dict[str, Callable[[dict[str, Any], str, Around], _Reading]] = {
            "sequence": self._sequence,
            "or": self._or,
            "optional": self._repeated(0, 1),
            "star": self._repeated(0, None),
            "plus": self._repeated(1, None),
            "repeat": self._repeat,
            "tag": self._tag,
            "triggered_tags": self._triggered_tags,
            "tags_with_separator": self._tags_with_separator,
            "dispatch": self._dispatch,
            "token_triggered_tags": self._token_triggered_tags,
            "token_dispatch": self._token_dispatch,
        }
        self._read_leaf: dict[str, Callable[[dict[str, Any], str, Around], ir.Node]] = {
            "const_string": lambda fields, pointer, _: self._spelled(fields["value"], f"{pointer}/value"),
            "json_schema": lambda fields, pointer, _: self._json_schema(fields, pointer),
            "qwen_xml_parameter": self._qwen_xml_parameter,
            "grammar": lambda fields, pointer, _: self._grammar(fields["grammar"], pointer),
            "regex": lambda fields, pointer, _: self._regex(fields["pattern"], f"{pointer}/pattern"),
            "any_text": self._any_text,
            "token": lambda fields, _, __: token(fields["token"]),
            "exclude_token": lambda fields, _, around: _other_token(fields["exclude_tokens"], around),
            "any_tokens": self._any_tokens,
        }

    def read(self, value: Mapping[str, Any]) -> ir.Node:
        """The whole: `{"type": "structural_tag", "format": ...}`, or its older form."""
        if value.get("type") != "structural_tag":
            pointer = "/type" if "type" in value else ""
            raise invalid(pointer, 'the type of a structural tag is "structural_tag"')
        if "structures" in value or "triggers" in value:
            return self._older_form(checked(value, "", LEGACY, "structural_tag", self.work))
        top = checked(value, "", TOP, "structural_tag", self.work)
        return self._drive(self._format(_Wanted(top["format"], "/format", Around())))

    def _older_form(self, fields: dict[str, Any]) -> ir.Node:
        tags: list[_Begun] = []
        for k, structure in enumerate(fields["structures"]):
            at = f"/structures/{k}"
            known = checked(structure, at, STRUCTURE, "a structure", self.work)
            node = ir.seq(
                self._spelled(known["begin"], f"{at}/begin"),
                self._schema(known["schema"], f"{at}/schema"),
                self._spelled(known["end"], f"{at}/end"),
            )
            tags.append(_Begun(known["begin"], self._rule(at, node), f"{at}/begin"))
        plain = {"triggers": fields["triggers"], "excludes": (), "at_least_one": False, "stop_after_first": False}
        return self._switching(tags, plain, "", Around())

    def _drive(self, first: _Reading) -> ir.Node:
        open_: list[_Reading] = [first]
        node: ir.Node | None = None
        most = self.work.limits.nesting
        while True:
            try:
                wanted = next(open_[-1]) if node is None else open_[-1].send(node)
            except StopIteration as done:
                open_.pop()
                node = done.value
                if not open_:
                    return cast("ir.Node", node)
                continue
            if len(open_) >= most:
                raise LimitError(
                    f"formats stand in more than {most:,} others",
                    limit="nesting",
                    pointer=wanted.pointer[: wanted.pointer.rfind("/", 0, 1_024)],
                    hint="Simplify the structural tag, or raise Limits.nesting if it is trusted",
                )
            open_.append(self._format(wanted))
            node = None

    def _format(self, wanted: _Wanted) -> _Reading:
        name, fields = read_fields(wanted.value, wanted.pointer, self.work, wanted.only)
        leaf = self._read_leaf.get(name)
        if leaf is not None:
            return leaf(fields, wanted.pointer, wanted.around)
        return (yield from self._read_type[name](fields, wanted.pointer, wanted.around))

    # Texts and schemas.

    def _encoded(self, text: str, pointer: str) -> bytes:
        self.work.pointer = pointer
        self.work.spend(1 + len(text) // 16)
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise invalid(pointer, "a string holds half of a surrogate pair, which is no character") from None

    def _all_encoded(self, texts: list[str], pointer: str) -> list[bytes]:
        return [self._encoded(text, f"{pointer}/{k}") for k, text in enumerate(texts)]

    def _spelled(self, text: str, pointer: str) -> ir.Node:
        self._encoded(text, pointer)
        return spelled(text)

    @contextmanager
    def _at(self, pointer: str) -> Iterator[None]:
        """Places of errors inside are relative to the pointer."""
        self.work.pointer = None
        try:
            yield
        except NarrowsError as error:
            error.pointer = pointer + (error.pointer or "")
            raise
        self.work.pointer = pointer

    def _schema(self, schema: Any, pointer: str, **options: Any) -> ir.Node:
        with self._at(pointer):
            made = schema_rules(schema, f"{pointer}/", limits=self.work, **{**self._schema_options, **options})
        self.rules.update(made.rules)
        self.sources.update({name: pointer + source for name, source in made.sources.items()})
        self.places.update({lexeme: pointer + place for lexeme, place in made.places.items()})
        self.report.update({pointer + place: status for place, status in made.report.items()})
        return made.node

    def _json_schema(self, fields: dict[str, Any], pointer: str) -> ir.Node:
        if fields["style"] != "json":
            raise unsupported(
                f"{pointer}/style",
                "only the style json can be enforced exactly",
                "For another style, send tools: narrows has the formats of many models",
            )
        if fields["excludes"]:
            raise unsupported(f"{pointer}/excludes", "strings cannot be excluded from the values of a schema")
        options: dict[str, Any] = {"key_order": "any"} if fields["any_order"] else {}
        most, whitespace = fields["max_whitespace_cnt"], self._schema_options["whitespace"]
        if most == 0:
            options["whitespace"] = "compact"
        elif most is not None and (whitespace == "any" or (most <= MAX_BLANKS and whitespace == "bounded")):
            key_order = options.get("key_order", "declared")
            options["spelled"] = spelling_with_gaps(most, self._schema_options["escapes"], key_order, whitespace)
        return self._schema(fields["json_schema"], f"{pointer}/json_schema", **options)

    def _qwen_xml_parameter(self, fields: dict[str, Any], pointer: str, around: Around) -> ir.Node:
        raise unsupported(
            f"{pointer}/type",
            "parameters as XML cannot be enforced exactly here",
            "Send tools: narrows has the formats of many models, Qwen's among them",
        )

    def _grammar(self, text: str, pointer: str) -> ir.Node:
        with self._at(f"{pointer}/grammar"):
            module = gbnf_module(text, limits=self.work)
        self.is_marked = False
        rules, start, _ = embedded(module, f"{pointer}/grammar/")
        self.rules.update(rules)
        self.sources.update(dict.fromkeys(rules, f"{pointer}/grammar"))
        return start

    def _regex(self, pattern: str, pointer: str) -> ir.Node:
        with self._at(pointer):
            regex_node(pattern, "ecma", limits=self.work)  # as it is written: no bracket closes the group around it
            return ir.Lexeme(regex_node(f"(?s:{pattern})", "ecma", limits=self.work))  # "." is any character there

    # Free text.

    def _any_text(self, fields: dict[str, Any], pointer: str, around: Around) -> ir.Node:
        most, most_tokens = fields["max_chars"], fields["max_tokens"]
        if most_tokens == 0:
            return ir.EMPTY
        banned = {*self._all_encoded(fields["excludes"], f"{pointer}/excludes"), *map(str.encode, around.ends)}
        before = around.before.encode()
        endings = endings_before([before], banned, self.work)[0] if before else ()
        text = run(banned, endings, TEXT if most is None else ir.Repeat(utf8.node(utf8.ANY), 0, most))
        return text if most_tokens is None else ir.Counted(text, min(most_tokens, ir.MOST_COUNTED))

    def _triggered_tags(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        tags: list[_Begun] = []
        for k, value in enumerate(fields["tags"]):
            at = f"{pointer}/tags/{k}"
            node = yield _Wanted(value, at, Around(), "tag")
            if not isinstance(value["begin"], str):
                raise invalid(f"{at}/begin", "here a tag begins with a string", "token_triggered_tags has those others")
            tags.append(_Begun(value["begin"], node, f"{at}/begin"))
        return self._switching(tags, fields, pointer, around)

    def _switching(self, tags: list[_Begun], fields: dict[str, Any], pointer: str, around: Around) -> ir.Node:
        """Free text with these tags. `pointer`: of what holds the fields."""
        triggers = self._all_encoded(fields["triggers"], f"{pointer}/triggers")
        by_trigger: dict[str, list[ir.Node]] = {trigger: [] for trigger in fields["triggers"]}
        lengths = sorted({len(trigger) for trigger in by_trigger})
        for tag in tags:
            self.work.spend(len(lengths))
            trigger = next((tag.begin[:n] for n in lengths if tag.begin[:n] in by_trigger), None)
            if trigger is None:
                raise invalid(tag.pointer, "the tag begins with none of the triggers")
            by_trigger[trigger].append(tag.node)
        some = ir.alt(*[tag.node for tag in tags])
        if fields["at_least_one"] and fields["stop_after_first"]:
            return some
        excluded = self._all_encoded(fields["excludes"], f"{pointer}/excludes")
        self.work.pointer = pointer
        node = switching(
            [Switch(trigger.encode(), ir.alt(*nodes)) for trigger, nodes in by_trigger.items() if nodes],
            [*excluded, *triggers, *map(str.encode, around.ends)],
            self.work,
            before=around.before.encode(),
            stop_after_first=fields["stop_after_first"],
        )
        return ir.seq(some, node) if fields["at_least_one"] else node

    def _dispatch(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        inside = around if not fields["loop"] else replace(around, before="")
        switches: list[Switch] = []
        for k, (pattern, value) in enumerate(fields["rules"]):
            at = f"{pointer}/rules/{k}"
            if not isinstance(pattern, str) or not pattern:
                raise invalid(f"{at}/0", "a pattern is a string that is not empty")
            trigger = self._spelled(pattern, f"{at}/0")
            node = yield self._within(value, f"{at}/1", inside)
            switches.append(Switch(pattern.encode(), ir.seq(trigger, node)))
        self.work.pointer = pointer
        return switching(
            switches,
            self._all_encoded(fields["excludes"], f"{pointer}/excludes"),
            self.work,
            before=around.before.encode(),
            stop_after_first=not fields["loop"],
        )

    def _within(self, value: Any, pointer: str, around: Around) -> _Wanted:
        if not isinstance(value, Mapping):
            raise invalid(pointer, "a format is an object")
        return _Wanted(value, pointer, around)

    # Formats of other formats.

    def _sequence(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        nodes: list[ir.Node] = []
        last = len(fields["elements"]) - 1
        inner = replace(around, before="")
        for k, value in enumerate(fields["elements"]):
            nodes.append((yield _Wanted(value, f"{pointer}/elements/{k}", around if k == last else inner)))
        return ir.seq(*nodes)

    def _or(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        nodes: list[ir.Node] = []
        for k, value in enumerate(fields["elements"]):
            nodes.append((yield _Wanted(value, f"{pointer}/elements/{k}", around)))
        return ir.alt(*nodes)

    def _repeated(self, least: int, most: int | None) -> Callable[[dict[str, Any], str, Around], _Reading]:
        def read(fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
            before = around.before if most == 1 else ""
            node = yield _Wanted(fields["content"], f"{pointer}/content", replace(around, before=before))
            return ir.Repeat(node, least, most)

        return read

    def _repeat(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        least, most = fields["min"], None if fields["max"] == -1 else fields["max"]
        if most is not None and least > most:
            raise invalid(f"{pointer}/max", f"max is less than min, which is {least}")
        return (yield from self._repeated(least, most)(fields, pointer, around))

    def _tag(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        begin = self._fixed(fields["begin"], f"{pointer}/begin")
        content, at = fields["content"], f"{pointer}/content"
        end = fields["end"]
        if isinstance(end, Mapping):
            after = self._fixed(end, f"{pointer}/end")
            node = yield _Wanted(content, at, Around(end_token=end["token"]))
            return self._rule(pointer, ir.seq(begin, node, after))
        ends = list(dict.fromkeys([end] if isinstance(end, str) else end))
        spelled_ends = [self._spelled(text, f"{pointer}/end") for text in ends]
        written = tuple(text for text in ends if text)
        if len(ends) == 1:
            node = yield _Wanted(content, at, Around(written, ends[0]))
            return self._rule(pointer, ir.seq(begin, node, spelled_ends[0]))
        encoded = [text.encode() for text in written]
        banned = [*encoded, *_strings_at_the_end(content, self.work)]
        if not any(endings_before(encoded, banned, self.work)):
            node = yield _Wanted(content, at, Around(written))
            return self._rule(pointer, ir.seq(begin, node, ir.alt(*spelled_ends)))
        options: list[ir.Node] = []
        for text, after in zip(ends, spelled_ends, strict=True):  # what may stand before it differs
            node = yield _Wanted(content, at, Around(written, text))
            options.append(ir.seq(node, after))
        return self._rule(pointer, ir.seq(begin, ir.alt(*options)))

    def _fixed(self, value: str | Mapping[str, Any], pointer: str) -> ir.Node:
        """The begin or end of a tag."""
        if isinstance(value, str):
            return self._spelled(value, pointer)
        return token(read_fields(value, pointer, self.work, "token")[1]["token"])

    def _rule(self, pointer: str, node: ir.Node) -> ir.Node:
        """A rule of its own, which `explain` can name."""
        self.rules[pointer] = node
        self.sources[pointer] = pointer
        return ir.Ref(pointer)

    def _tags_with_separator(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        separator = self._spelled(fields["separator"], f"{pointer}/separator")
        tags: list[ir.Node] = []
        for k, value in enumerate(fields["tags"]):
            tags.append((yield _Wanted(value, f"{pointer}/tags/{k}", Around(), "tag")))
        tag = ir.alt(*tags)
        some = tag if fields["stop_after_first"] else ir.seq(tag, ir.Repeat(ir.seq(separator, tag)))
        return some if fields["at_least_one"] else ir.optional(some)

    # Tokens.

    def _any_tokens(self, fields: dict[str, Any], pointer: str, around: Around) -> ir.Node:
        return ir.Repeat(_other_token(fields["exclude_tokens"], around), 0, fields["max_tokens"])

    def _token_triggered_tags(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        triggers = fields["trigger_tokens"]
        tags: list[ir.Node] = []
        for k, value in enumerate(fields["tags"]):
            at = f"{pointer}/tags/{k}"
            tags.append((yield _Wanted(value, at, Around(), "tag")))
            begin = value["begin"]
            if isinstance(begin, str):
                raise invalid(f"{at}/begin", "here a tag begins with a token", "triggered_tags has those others")
            if begin["token"] not in triggers:
                hint = "Write it there as it is written here: as an id, or as a name"
                raise invalid(f"{at}/begin", "the tag begins with none of the trigger_tokens", hint)
        tag = ir.alt(*tags)
        free = ir.Repeat(_other_token([*triggers, *fields["exclude_tokens"]], around))
        if fields["stop_after_first"]:
            return tag if fields["at_least_one"] else ir.seq(free, ir.optional(tag))
        rest = ir.Repeat(ir.seq(tag, free), int(fields["at_least_one"]))
        return rest if fields["at_least_one"] else ir.seq(free, rest)

    def _token_dispatch(self, fields: dict[str, Any], pointer: str, around: Around) -> _Reading:
        triggers: list[int | str] = []
        nodes: list[ir.Node] = []
        for k, (trigger, value) in enumerate(fields["rules"]):
            at = f"{pointer}/rules/{k}"
            read_fields({"token": trigger}, f"{at}/0", self.work, "token")
            triggers.append(trigger)
            node = yield self._within(value, f"{at}/1", replace(around, before=""))
            nodes.append(ir.seq(token(trigger), node))
        free = ir.Repeat(_other_token([*triggers, *fields["exclude_tokens"]], Around()))
        some = ir.seq(ir.alt(*nodes), free) if fields["loop"] else ir.alt(*nodes)
        return ir.seq(free, ir.Repeat(some) if fields["loop"] else ir.optional(some))


def token(value: int | str) -> ir.Node:
    """One token by its id or name."""
    return ir.Token((), names=(value,)) if isinstance(value, str) else ir.Token((value,))


def _other_token(excluded: list[int | str], around: Around) -> ir.Node:
    """One token that is none of these, nor the end token of the nearest tag."""
    if around.end_token is not None:
        excluded = [*excluded, around.end_token]
    ids = tuple(dict.fromkeys(item for item in excluded if not isinstance(item, str)))
    names = tuple(dict.fromkeys(item for item in excluded if isinstance(item, str)))
    return ir.Token(ids, negate=True, names=names)


def _strings_at_the_end(value: Mapping[str, Any], work: Work) -> list[bytes]:
    """The strings that free text at the end of this format leaves out. The format was not checked yet."""
    found: list[bytes] = []
    todo: list[Any] = [value]
    while todo:
        here = todo.pop()
        work.spend(1)
        if not isinstance(here, Mapping):
            continue
        for name in ("excludes", "triggers", "rules"):
            texts = here.get(name)
            for item in texts if isinstance(texts, (list, tuple)) else ():
                text = item[0] if isinstance(item, (list, tuple)) and item else item
                work.spend(1)
                if isinstance(text, str):
                    found.append(text.encode("utf-8", "surrogatepass"))
        elements = here.get("elements")
        if isinstance(elements, (list, tuple)) and elements:
            todo += elements if here.get("type") == "or" else elements[-1:]
        elif here.get("type") == "optional":
            todo.append(here.get("content"))
    return found
