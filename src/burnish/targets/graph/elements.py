"""What a graph is made of: functions, conditions and skills, and the order of its nodes."""

import heapq
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.journal.executors import timed_call
from burnish.system.user_code import BadPattern, require_pattern, search
from burnish.targets.agent.files import Instructions, read_instructions
from burnish.targets.user_code import in_thread, is_async, qualified_name, source_hash


@dataclass(frozen=True, kw_only=True)
class Flow:
    """The order of a graph's nodes, without the edges that go back."""

    order: tuple[str, ...]
    """Every node after its predecessors; otherwise in the order of the file."""
    back: frozenset[tuple[str, str]]
    """The edges that close a cycle."""
    before: Mapping[str, tuple[str, ...]]
    """The direct predecessors of each node, without edges that go back."""
    behind: Mapping[str, frozenset[str]]
    """All predecessors of each node, without edges that go back."""

    @classmethod
    def of(cls, entries: Sequence[str], after: Mapping[str, Sequence[str]]) -> "Flow":
        """The flow of a graph; `after` has every node, in order."""
        back = frozenset(_back_edges(entries, after))
        ahead = {
            node: [to for to in leads if (node, to) not in back] for node, leads in after.items()
        }
        order = _sorted(ahead)
        before = {node: tuple(n for n in order if node in ahead[n]) for node in order}
        behind: dict[str, frozenset[str]] = {}
        for node in order:
            behind[node] = frozenset(before[node]).union(*(behind[n] for n in before[node]))
        return cls(order=order, back=back, before=before, behind=behind)


def reachable(entries: Sequence[str], after: Mapping[str, Sequence[str]]) -> set[str]:
    """The nodes that a run can reach."""
    reached, waiting = {*entries}, [*entries]
    while waiting:
        new = [to for to in after[waiting.pop()] if to not in reached]
        reached.update(new)
        waiting += new
    return reached


def _back_edges(
    entries: Sequence[str], after: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """The edges of a depth-first walk that lead to a node it is still inside of."""
    seen: set[str] = set()
    for entry in entries:
        way = {} if entry in seen else {entry: iter(after[entry])}
        seen.add(entry)
        while way:
            node = next(reversed(way))
            to = next(way[node], None)
            if to is None:
                del way[node]
            elif to in way:
                yield node, to
            elif to not in seen:
                seen.add(to)
                way[to] = iter(after[to])


def _sorted(ahead: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    places = {node: place for place, node in enumerate(ahead)}
    names = list(ahead)
    waits = dict.fromkeys(ahead, 0)
    for to in (to for leads in ahead.values() for to in leads):
        waits[to] += 1
    ready = [places[node] for node in ahead if not waits[node]]
    order: list[str] = []
    while ready:
        node = names[heapq.heappop(ready)]
        order.append(node)
        for to in ahead[node]:
            waits[to] -= 1
            if not waits[to]:
                heapq.heappush(ready, places[to])
    return tuple(order)


@dataclass(frozen=True, kw_only=True)
class GraphFunction:
    """A function, its name, and a hash of its file."""

    function: Callable[..., Any]
    name: str
    fingerprint: str = ""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "GraphFunction":
        """Wrap a function passed in Python."""
        name = qualified_name(function)
        inner: Any = function.func if isinstance(function, partial) else function
        named: Any = inner if hasattr(inner, "__qualname__") else cast("Any", type(inner))
        call = cast("Callable[..., Any]", function)
        return cls(function=call, name=name, fingerprint=source_hash(named))

    @property
    def described(self) -> Json:
        """What decides its behaviour, except for what its file imports."""
        return {"function": self.name, "source": self.fingerprint}

    async def call(self, value: object) -> Any:
        """Call it: awaited if it is async, in a new thread if not."""
        call = partial(self.function, value)
        with timed_call():
            result = call() if is_async(self.function) else await in_thread(call)
            return await result if inspect.isawaitable(result) else result


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What must hold for a node's output for an edge to be taken."""

    kind: Literal["always", "contains", "equals", "matches", "python"]
    text: str = ""
    function: GraphFunction | None = None
    negated: bool = False
    """Whether it must not hold, as for going on in a cycle."""

    def __post_init__(self) -> None:
        if self.kind == "matches":
            try:
                require_pattern(self.text)
            except BadPattern as error:
                message = f"'{self.text}' is not a regular expression: {error}"
                raise ConfigError([Problem(where="when.matches", message=message)]) from error

    @classmethod
    def of(cls, condition: "Condition | Callable[[Any], Any] | str") -> "Condition":
        """A text must be part of the output; a function takes the output."""
        if isinstance(condition, Condition):
            return condition
        if isinstance(condition, str):
            return cls(kind="contains", text=condition)
        return cls(kind="python", function=GraphFunction.of(condition))

    @property
    def described(self) -> Json:
        detail: Json = self.function.described if self.function else self.text
        return {"not": {self.kind: detail}} if self.negated else {self.kind: detail}

    def reads(self, text: str) -> bool:
        """Whether it holds for a text; a function is called elsewhere."""
        return self._reads(text) is not self.negated

    def _reads(self, text: str) -> bool:
        match self.kind:
            case "contains":
                return self.text in text
            case "equals":
                return self.text.strip() == text.strip()
            case "matches":
                return search(self.text, text)
            case _:
                return True


def first_parameter(function: Callable[..., Any]) -> inspect.Parameter | None:
    """The first parameter of a function, or None."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Something made in C that does not tell: it is given the text.
        return inspect.Parameter("text", inspect.Parameter.POSITIONAL_ONLY)
    plain = [each for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    return next((e for e in plain if e.kind is not inspect.Parameter.VAR_KEYWORD), None)


@dataclass(frozen=True, kw_only=True)
class Skill:
    """One skill: its file, and the text without the frontmatter."""

    name: str
    path: str
    """As written in the graph, relative to its folder."""
    content: Instructions = field(repr=False)

    @classmethod
    def read(cls, path: str, folder: Path) -> "Skill":
        """Read a skill, named by its frontmatter, else after its folder or file."""
        content = read_instructions(folder / path)
        place = Path(path)
        usual = place.parent.name if place.stem.upper() == "SKILL" else place.stem
        return cls(name=content.name or usual or place.stem, path=path, content=content)


def skill_section(skill: str, text: str) -> str:
    """A skill as a section of the instructions."""
    return f"# Skill: {skill}\n\n{text.strip()}"
