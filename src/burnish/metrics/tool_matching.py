"""Comparing tool calls: arguments, sets of calls, trajectories."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from burnish.core.cases import ExpectedTool, ToolCall
from burnish.core.content import Json
from burnish.core.formatting import listed
from burnish.metrics.document_matching import (
    EXACT,
    JsonRule,
    compare_json,
    differences,
    parse_json,
)
from burnish.metrics.text_matching import (
    EXACT_TEXT,
    NumberRule,
    TextRule,
    compare_texts,
    cut,
    joined,
    levelled,
    pattern_problem,
    quoted,
    shown,
    spelled,
)
from burnish.system.user_code import matches_whole


class Assignment:
    """A matching of members to places that grows by augmenting paths."""

    def __init__(self, choices: Sequence[Sequence[int]]) -> None:
        self._choices = choices
        """For each who, the places that would do."""
        self.place_of: dict[int, int] = {}
        self._holder: dict[int, int] = {}

    @property
    def taken(self) -> frozenset[int]:
        return frozenset(self._holder)

    def add(self, who: int) -> bool:
        """Find a place for one more member, moving others if needed."""
        came_from: dict[int, int] = {}
        waiting = deque([who])
        while waiting:
            asking = waiting.popleft()
            for place in self._choices[asking]:
                if place in came_from:
                    continue
                came_from[place] = asking
                if place not in self._holder:
                    free: int | None = place
                    while free is not None:
                        mover = came_from[free]
                        left = self.place_of.get(mover)
                        self.place_of[mover], self._holder[free] = free, mover
                        free = left
                    return True
                waiting.append(self._holder[place])
        return False

    def add_all(self, group: Sequence[int]) -> bool:
        """Find places for all members of a group, or for none of them."""
        before = dict(self.place_of), dict(self._holder)
        if all(self.add(who) for who in group):
            return True
        self.place_of, self._holder = before
        return False


def assigned(choices: Sequence[Sequence[int]]) -> Assignment:
    """The largest assignment."""
    assignment = Assignment(choices)
    for who in range(len(choices)):
        assignment.add(who)
    return assignment


_AS_WRITTEN = NumberRule(
    absolute_tolerance=1e-9, accept_percent=True, accept_thousands_separators=True
)
_SEPARATORS = re.compile(r"[,_\u202f]")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[,_\u202f](?=[0-9])")


def compare_arguments(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> list[str]:
    """What is wrong with the arguments of a call; extra arguments are allowed."""
    wrong: list[str] = []
    for name, value in expected.items():
        if name not in actual:
            wrong.append(f"argument '{name}' is missing, expected {_matcher_words(value)}")
        elif reason := compare_argument(value, actual[name]):
            wrong.append(f"argument '{name}': {reason}")
    return wrong


def compare_argument(expected: Json, actual: Json) -> str:
    """Why one argument is not as expected."""
    kind, text = _matcher(expected)
    if kind == "fuzzy":
        same = _fuzzily_same(text, _as_text(actual))
    elif kind == "regex":
        problem = pattern_problem(text)
        if problem:
            return f"{problem}: fix the case"
        same = matches_whole(text, _as_text(actual))
    else:
        same = next(differences(expected, actual, tolerance=0.0), None) is None
    return "" if same else f"expected {_matcher_words(expected)}, found {shown(actual)}"


def _matcher(expected: Json) -> tuple[str, str]:
    """The kind of comparison and its text."""
    if isinstance(expected, Mapping) and len(expected) == 1:
        kind, value = next(iter(expected.items()))
        if kind in ("fuzzy", "regex"):
            return kind, spelled(value)
    return "literal", ""


def _matcher_words(expected: Json) -> str:
    kind, text = _matcher(expected)
    if kind == "fuzzy":
        return f"about {quoted(text)}"
    return f"text that matches {quoted(text)}" if kind == "regex" else shown(expected)


def _as_text(value: Json) -> str:
    """As Python prints it, which existing patterns rely on."""
    return value if isinstance(value, str) else str(cast("object", value))


def _fuzzily_same(expected: str, actual: str) -> bool:
    reference, answer = _AS_WRITTEN.read(expected).value, _AS_WRITTEN.read(actual).value
    if reference is not None and answer is not None:
        return _AS_WRITTEN.near(reference, answer)
    return _loosened(expected) == _loosened(actual)


def _loosened(text: str) -> str:
    """Case-folded, without commas and underscores; between digits they become a space."""
    spaced = _BETWEEN_DIGITS.sub(" ", levelled(text, fold=True))
    return " ".join(_SEPARATORS.sub("", spaced).split())


def compare_expected_tools(
    expected: Sequence[ExpectedTool], calls: Sequence[ToolCall]
) -> list[str]:
    """For each expectation, why it is not met; no call counts for two expectations.

    Expectations of fewer calls go first, and one that cannot be met in full takes no calls. If
    all can be met together, all are.
    """
    fits = [
        {
            number: compare_arguments(tool.arguments, call.arguments)
            for number, call in enumerate(calls)
            if tool.name in call.name
        }
        for tool in expected
    ]
    good = [[number for number, wrong in fit.items() if not wrong] for fit in fits]
    enough = [i for i, tool in enumerate(expected) if len(good[i]) >= tool.count]
    slots = [index for index in enough for _ in range(expected[index].count)]
    assignment = Assignment([good[index] for index in slots])
    met = {
        index
        for index in sorted(enough, key=lambda index: expected[index].count)
        if assignment.add_all([slot for slot, owner in enumerate(slots) if owner == index])
    }
    return [
        "" if index in met else _unmet(tool, calls, fits[index])
        for index, tool in enumerate(expected)
    ]


def compare_no_tools(calls: Sequence[ToolCall]) -> str:
    """Why calls are wrong if none are expected."""
    return f"expected no tool call, {_names_of(calls)}" if calls else ""


def _names_of(calls: Sequence[ToolCall]) -> str:
    if not calls:
        return "no tool was called"
    names = ", ".join(cut(call.name, 40) for call in calls[:8])
    return f"called: {names}{', …' if len(calls) > 8 else ''}"


def _unmet(expected: ExpectedTool, calls: Sequence[ToolCall], fits: Mapping[int, list[str]]) -> str:
    """Why an expectation is not met; `fits` has the problems of each call of the tool."""
    times = f" at least {expected.count} times" if expected.count > 1 else ""
    expectation = f"expected a call of '{expected.name}'{times}"
    if not fits:
        return f"{expectation}, {_names_of(calls)}"
    good = sum(not wrong for wrong in fits.values())
    if good >= expected.count:
        return f"{expectation}, but the matching calls count for other expectations"
    wrong = {number: reasons for number, reasons in fits.items() if reasons}
    if not wrong:
        return f"{expectation}, found {good}"
    nearest = min(wrong, key=lambda number: len(wrong[number]))
    fitting = f"found {good} that fit, and " if good else ""
    where = f"call {nearest + 1}, {cut(calls[nearest].name, 40)}"
    return f"{expectation}, {fitting}{where}, has {'; '.join(wrong[nearest])}"


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """How one call must match the expected one."""

    name: TextRule = EXACT_TEXT
    arguments: JsonRule = EXACT
    result: JsonRule | None = None
    """None ignores results."""


_ANY_RESULT = ToolRule()


@dataclass(frozen=True, kw_only=True)
class TrajectoryRule:
    """How the calls of a turn must match the expected ones."""

    default: ToolRule = _ANY_RESULT
    overrides: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    """Other rules by tool name."""
    order_sensitive: bool = False
    subset_matching: bool = False
    """Allow further calls."""

    def rule_for(self, name: str) -> ToolRule:
        return self.overrides.get(name, self.default)


STRICT = TrajectoryRule(order_sensitive=True)
"""Exactly these names and arguments, in this order."""


def _compare_calls(expected: ToolCall, actual: ToolCall, rule: ToolRule) -> str:
    if name := compare_texts(expected.name, actual.name, rule.name):
        return f"tool: {name}"
    arguments = compare_json(dict(expected.arguments), dict(actual.arguments), rule.arguments)
    result = "" if rule.result is None else _compare_results(expected, actual, rule.result)
    return joined([arguments and f"arguments {arguments}", result and f"result {result}"])


def _compare_results(expected: ToolCall, actual: ToolCall, rule: JsonRule) -> str:
    if rule.reads and actual.error and not expected.error:
        return f"is an error: {quoted(actual.error)}"
    return compare_json(_as_json(expected.result), _as_json(actual.result), rule)


def _as_json(result: Json) -> Json:
    """The result of a tool; a text that is JSON is parsed."""
    if not isinstance(result, str):
        return result
    read = parse_json(result)
    return result if read.problem else read.value


def compare_trajectories(
    expected: Sequence[ToolCall], calls: Sequence[ToolCall], rule: TrajectoryRule = STRICT
) -> str:
    """Why the calls are not the expected ones."""
    if not rule.order_sensitive:
        return _in_any_order(expected, calls, rule)
    if rule.subset_matching:
        return _in_order_among_others(expected, calls, rule)
    for number, (one, other) in enumerate(zip(expected, calls, strict=False), start=1):
        if reason := _compare_calls(one, other, rule.rule_for(one.name)):
            where = f"call {number} of {len(expected)}, {cut(one.name, 40)}"
            return f"{where}: {reason}; {_names_of(calls)}"
    return _surplus(expected[len(calls) :], calls[len(expected) :])


def _in_order_among_others(
    expected: Sequence[ToolCall], calls: Sequence[ToolCall], rule: TrajectoryRule
) -> str:
    start = 0
    for number, call in enumerate(expected, start=1):
        how, rest = rule.rule_for(call.name), range(start, len(calls))
        fits = (place for place in rest if not _compare_calls(call, calls[place], how))
        place = next(fits, None)
        if place is None:
            after = f", after call {start}" if start else ""
            hint = _near(call, calls[start:], rule)
            where = f"call {number} of {len(expected)}, {_call(call)}, was not made in this order"
            return f"{where}{after}: {hint or _names_of(calls)}"
        start = place + 1
    return ""


def _in_any_order(
    expected: Sequence[ToolCall], calls: Sequence[ToolCall], rule: TrajectoryRule
) -> str:
    rules = [rule.rule_for(one.name) for one in expected]
    made = assigned(
        [
            [place for place, other in enumerate(calls) if not _compare_calls(one, other, how)]
            for one, how in zip(expected, rules, strict=True)
        ]
    )
    extra = [call for place, call in enumerate(calls) if place not in made.taken]
    missing = [call for who, call in enumerate(expected) if who not in made.place_of]
    near = next(filter(None, (_near(call, extra, rule) for call in missing)), "")
    return _surplus(missing, () if rule.subset_matching else extra, near)


def _surplus(missing: Sequence[ToolCall], extra: Sequence[ToolCall], near: str = "") -> str:
    hint = f" ({near})" if near else ""
    return joined(
        [
            f"expected but not made: {_listed(missing)}{hint}" if missing else "",
            f"made but not expected: {_listed(extra)}" if extra else "",
        ]
    )


def _near(expected: ToolCall, calls: Sequence[ToolCall], rule: TrajectoryRule) -> str:
    """How the first call of the same tool differs, if there is one."""
    how = rule.rule_for(expected.name)
    for call in calls:
        if not compare_texts(expected.name, call.name, how.name):
            return f"{cut(call.name, 40)} was called, but {_compare_calls(expected, call, how)}"
    return ""


def _listed(calls: Sequence[ToolCall]) -> str:
    return listed([*map(_call, calls)], 3)


def _call(call: ToolCall) -> str:
    return f"{cut(call.name, 40)}({shown(dict(call.arguments), 60)})"
