"""A goal: schemas that must all hold of one value; and the questions about it that lowering and proofs ask.

A schema that is nothing but a reference counts as what it refers to, and one that says nothing is left out. So equal
goals are mostly equal tuples, and each question is answered once per goal.

Who asks: lower.py for every goal; the families where their facts meet other schemas (`settle`, `lower`); check.py,
declared.py and disjoint.py. None of them needs to know how a grammar is put together.

Cost: reading a schema object is charged where it is read (keywords.py), its alternatives in normal.py; an answer that
is known, a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from narrows.errors import InputError
from narrows.grammar.json_schema import enumerations, normal
from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.facts import Facts, Goal, Members, Reason
from narrows.grammar.json_schema.normal import Contradiction
from narrows.grammar.json_schema.report import Reporter, invalid, over_limit
from narrows.grammar.json_schema.spelling.patterns import matches
from narrows.grammar.work import Work


@dataclass(frozen=True, slots=True)
class Keywords:
    """What the keyword families say, all together; keywords.py has it."""

    read: Callable[[Site, Document, Reporter, Work], Facts]
    """What the schema object at a place says."""
    contradictions: Sequence[tuple[int, Contradiction]]
    """Types, and who knows which of them facts leave no value of."""
    settlers: Sequence[tuple[int, Callable[[Goals, Facts], Facts]]]
    """Types, and who puts facts about them that only other schemas can explain into terms of the others."""
    read_negation: Callable[[Site, Callable[[Site], Facts], Document, Reporter], Facts]
    """What a negation says, kept there. The function reads what is negated."""
    exclude: Callable[[Goals, Site, Facts], Facts]
    """The same facts without `exclusive`."""
    close: Callable[[Goals, Site, Facts], Facts]
    """The same facts without `unevaluated`."""


class Goals:
    """The goals of one document."""

    def __init__(
        self,
        document: Document,
        reporter: Reporter,
        work: Work,
        keywords: Keywords,
        additional: str = "standard",
    ) -> None:
        """`additional`: "standard" or "declared" (declared.py)."""
        if additional not in ("standard", "declared"):
            raise InputError(f'additional must be "standard" or "declared", not {additional!r}', code="invalid_option")
        self.document = document
        self.reporter = reporter
        self.work = work
        self.additional = additional
        self.settled_names: dict[Site, tuple[Members, ...]] = {}
        """Of families/property_names.py: what a `propertyNames` says."""
        self.declared_names: dict[Hashable, tuple[str, ...] | None] = {}
        """Of declared.py: the keys that the schemas of a goal name."""
        self._keywords = keywords
        self._resolved: dict[Site, Facts] = {}
        """Schemas with `oneOf` or `unevaluated...`, once it is said in other terms."""
        self._merged: set[Site] = set()
        """Schemas with choices of which those branches that only list values are one."""
        self._resolving: set[Site] = set()
        """Those of which that is being worked out."""
        self._led_back: list[set[Site]] = []
        """Which of these were read meanwhile: by each question that is being answered, the innermost one last."""
        self._meanwhile: dict[Hashable, Any] = {}
        """Answers that hold only until what they were led back to is worked out. Facts of a schema, or a goal's."""
        self.closing: tuple[Site, ...] = ()
        """Of unevaluated.py: the schemas of one and the same value that are being closed, the outermost first."""
        self._until: dict[Site, list[Hashable]] = {}
        """A schema being worked out -> the keys in `_meanwhile` that end with it."""
        self.keeps_clauses = False
        """Whether choices that are about keys alone stay choices (clauses.py)."""
        self._targets: dict[Site, Site | None] = {}
        self._alternatives: dict[Hashable, tuple[list[Facts], Reason | None]] = {}

    def read(self, site: Site) -> Facts:
        """What one schema says."""
        facts: Facts | None = site.facts
        if facts is None:
            if site.negates is None:
                facts = self._keywords.read(site, self.document, self.reporter, self.work)
            elif (back := self._being_resolved(site.negates)) is not None:
                self._led_back[-1].add(back)
                return _ANYTHING[0]
            else:
                facts = self._read_negation(site)
        if not facts.exclusive and not facts.unevaluated:
            if facts.choices and site not in self._merged:
                site.facts = facts = enumerations.merged(facts, self.read, self.document, self.work)
                self._merged.add(site)
            return facts
        if site in self._resolving:
            self._led_back[-1].add(site)
            return replace(facts, exclusive=(), unevaluated=())
        known = self._resolved.get(site) or self._kept_meanwhile(site, self.closing)
        return self._resolve(site, facts) if known is None else known

    def _read_negation(self, site: Site) -> Facts:
        key = ("negation", site)
        facts: Facts | None = self._kept_meanwhile(key)
        if facts is None:
            with self._watching() as led_back:
                facts = self._keywords.read_negation(site, self.read, self.document, self.reporter)
            if led_back:
                self._keep_meanwhile(key, facts, led_back)
                here: Site | None = site
                while here is not None and here.negates is not None:
                    here.facts = None
                    here = here.negates
        return facts

    def _being_resolved(self, site: Site | None) -> Site | None:
        """The schema, or what it negates, if that is being worked out."""
        while site is not None and self._resolving:
            if site in self._resolving:
                return site
            site = site.negates
        return None

    def _resolve(self, site: Site, facts: Facts) -> Facts:
        """Whether branches of a `oneOf` exclude each other may depend on schemas below, which may lead back here. There
        it counts as `anyOf`, and its negation as anything: both allow more. What was found out by that holds no longer
        than this takes. So it is with what `unevaluatedProperties` leaves."""
        if len(self._resolving) >= MOST_RESOLVED:  # each takes some ten frames of Python's stack
            raise over_limit(
                "schema_depth", MOST_RESOLVED, "a oneOf or unevaluatedProperties lies in so many others", site.pointer
            )
        with self._watching() as led_back:
            self._resolving.add(site)
            try:
                resolved = self._keywords.exclude(self, site, facts) if facts.exclusive else facts
                if resolved.unevaluated:
                    resolved = self._keywords.close(self, site, resolved)
                resolved = enumerations.merged(resolved, self.read, self.document, self.work)
            finally:
                self._resolving.discard(site)
                led_back.discard(site)
                for key in self._until.pop(site, ()):
                    self._meanwhile.pop(key, None)
        if led_back:
            self._keep_meanwhile(site, resolved, led_back)
        else:
            self._resolved[site] = resolved
        return resolved

    @contextmanager
    def _watching(self) -> Iterator[set[Site]]:
        """The schemas being worked out that are read from here on, and whose reading may have allowed more."""
        led_back: set[Site] = set()
        self._led_back.append(led_back)
        try:
            yield led_back
        finally:
            self._led_back.pop()
            if self._led_back:
                self._led_back[-1] |= led_back

    def _keep_meanwhile(self, key: Hashable, answer: Any, led_back: set[Site]) -> None:
        self.work.spend(len(led_back))
        self._meanwhile[key] = (answer, led_back)
        for site in led_back:
            self._until.setdefault(site, []).append(key)

    def _kept_meanwhile(self, key: Hashable, beside: tuple[Site, ...] = ()) -> Any:
        """The answer, unless it rests on one of the schemas `beside` it."""
        kept = self._meanwhile.get(key)
        if kept is None:
            return None
        answer, led_back = kept
        if beside and not led_back.isdisjoint(beside):
            return None
        self._led_back[-1] |= led_back
        return answer

    def goal(self, sites: Iterable[Site | None]) -> Goal:
        """The schemas as a goal: references followed, what says nothing and repetitions left out."""
        kept: dict[Site, None] = {}
        for site in sites:
            if site is not None:
                target = self._targets[site] if site in self._targets else self._follow(site)
                if target is not None:
                    kept[target] = None
        return tuple(kept) if len(kept) < 2 else tuple(dict.fromkeys(map(self.document.like, kept)))

    def _follow(self, site: Site) -> Site | None:
        """Where a schema that is nothing but a `$ref` leads to; None if that says nothing at all."""
        facts = self.read(site)
        if facts.choices or len(facts.also) != 1 or not facts.is_bare:  # as mostly
            alone = None if facts.is_anything else site
            if not self._resolving or self._being_resolved(site.negates) is None:
                self._targets[site] = alone
            return alone
        chain: dict[Site, None] = {}
        here = site
        while True:
            facts = self.read(here)
            if here in chain:
                raise invalid(
                    here.pointer, "the reference leads back to itself without anything in between, and so says nothing"
                )
            chain[here] = None
            if facts.is_bare and not facts.choices and len(facts.also) == 1:
                here = facts.also[0]
                continue
            end = None if facts.is_anything else here
            if self._being_resolved(here.negates) is None:
                self._targets.update(dict.fromkeys(chain, end))
            return end

    def member(self, every: Sequence[Members], key: str) -> Goal:
        """The goal of a member with this key, by all that is said of the object."""
        if len(every) == 1 and not every[0].patterns:  # as mostly
            site = every[0].named.get(key, every[0].extra)
            if site is None:
                return ()
            target = self._targets[site] if site in self._targets else self._follow(site)
            return () if target is None else (target,)
        self.work.spend(2 + len(every) // 4)
        sites: list[Site | None] = []
        for members in every:
            own = members.named.get(key)
            matched = self._matched(members, key) if members.patterns else []
            sites += matched if own is None else [own, *matched]
            if own is None and not matched:
                sites.append(members.extra)
        return self.goal(sites)

    def _matched(self, members: Members, key: str) -> list[Site]:
        """What the patterns say that are found in the key. One that is not supported says nothing."""
        return [site for pattern, site in members.patterns if matches(pattern, key, self.reporter, self.work)]

    @property
    def is_sure(self) -> bool:
        """Whether what is found out now may be kept."""
        return not self._resolving

    def alternatives(self, goal: Goal) -> list[Facts]:
        """The conjunctions of facts of which one must hold."""
        return self.explained(goal)[0]

    def explained(self, goal: Goal) -> tuple[list[Facts], Reason | None]:
        """The same, and why the first of those that cannot hold was left out."""
        if not goal:
            return _ANYTHING, None
        key = key_of(goal)
        known = self._alternatives.get(key)
        if known is not None:
            return known
        if not self._resolving:  # as mostly
            known = self._alternatives[key] = self._explain(goal)
            return known
        known = self._kept_meanwhile(("goal", key))
        if known is None:
            closing, self.closing = self.closing, ()  # the goal may be one of another value
            with self._watching() as led_back:
                known = self._explain(goal)
            self.closing = closing
            if led_back:
                self._keep_meanwhile(("goal", key), known, led_back)
            else:
                self._alternatives[key] = known
        return known

    def _explain(self, goal: Goal) -> tuple[list[Facts], Reason | None]:
        self.work.spend(4 + len(goal) // 4)
        only = self.read(goal[0]) if len(goal) == 1 else None
        if only is not None and only.types and only.is_types_alone:
            self.work.spend(1)
            return [only], None
        if only is not None and not only.also and not only.choices:  # as mostly
            alternatives, reason = normal.kept([only], self._keywords.contradictions, self.work)
        else:
            alternatives, reason = self.unsettled(goal)
        for types, settle in self._keywords.settlers:
            if any(facts.members and facts.types & types for facts in alternatives):
                alternatives = [settle(self, facts) if facts.types & types else facts for facts in alternatives]
        return alternatives, reason

    def unsettled(self, goal: Goal, read: Callable[[Site], Facts] | None = None) -> tuple[list[Facts], Reason | None]:
        """The same before other schemas are asked what facts mean: for a `settle` that would ask itself. Not kept.
        `read`: another reading of what each schema says, which needs all branches that hold, and not only one."""
        contradictions = self._keywords.contradictions
        return normal.alternatives(
            goal,
            read or self.read,
            self.glance,
            contradictions,
            self.work,
            same=self.document.same,
            may_skip=read is None,
            keeps_clauses=self.keeps_clauses and read is None,
        )

    def glance(self, site: Site) -> Facts | None:
        """What one schema says, as it stands there; of a negation, only if it was read before."""
        if site.facts is None and site.negates is None:
            return self._keywords.read(site, self.document, self.reporter, self.work)
        facts: Facts | None = site.facts
        return facts


MOST_RESOLVED = 48
"""A `oneOf` that is a branch of another, or beside one, and so on; with `unevaluatedProperties` likewise."""
_ANYTHING = [Facts()]


def key_of(goal: Goal) -> Hashable:
    """Equal for goals of the same schemas."""
    return goal[0] if len(goal) == 1 else frozenset(goal)
