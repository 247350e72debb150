"""Comparing tool calls: arguments, sets of calls, trajectories."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from burnish.core.cases import ExpectedTool
from burnish.core.content import Json
from burnish.core.outcomes import ToolCall
from burnish.metrics.json_matching import (
    EXACT as SAME_JSON,
)
from burnish.metrics.json_matching import (
    JsonRule,
    compare_json,
    differences,
    parse_json,
)
from burnish.metrics.text_matching import (
    EXACT_TEXT as SAME_TEXT,
)
from burnish.metrics.text_matching import (
    HELD,
    Match,
    NumberRule,
    TextRule,
    all_of,
    compare_texts,
    cut,
    levelled,
    pattern_problem,
    quoted,
    shown,
    spelled,
)


class Assignment:
    """Who has which place; grows by augmenting paths, so that nobody blocks another for good."""

    def __init__(self, choices: Sequence[Sequence[int]]) -> None:
        self._choices = choices
        """For each who, the places that would do."""
        self.place_of: dict[int, int] = {}
        self._holder: dict[int, int] = {}

    @property
    def taken(self) -> frozenset[int]:
        """The places that somebody has."""
        return frozenset(self._holder)

    def add(self, who: int) -> bool:
        """Find a place for one more, moving others where needed; whether there is one."""
        came_from: dict[int, int] = {}
        waiting = deque([who])
        while waiting:
            asking = waiting.popleft()
            for place in self._choices[asking]:
                if place in came_from:
                    continue
                came_from[place] = asking
                if place not in self._holder:
                    self._settle(place, came_from)
                    return True
                waiting.append(self._holder[place])
        return False

    def add_all(self, group: Sequence[int]) -> bool:
        """Find a place for every one of a group, or for none of them."""
        before = dict(self.place_of), dict(self._holder)
        if all(self.add(who) for who in group):
            return True
        self.place_of, self._holder = before
        return False

    def _settle(self, place: int, came_from: dict[int, int]) -> None:
        free: int | None = place
        while free is not None:
            who = came_from[free]
            left = self.place_of.get(who)
            self.place_of[who], self._holder[free] = free, who
            free = left


def assigned(choices: Sequence[Sequence[int]]) -> Assignment:
    """The largest assignment there is; who comes first keeps a place once there is one."""
    assignment = Assignment(choices)
    for who in range(len(choices)):
        assignment.add(who)
    return assignment


# -- Comparing the arguments of tools -------------------------------------------------------------


_AS_WRITTEN = NumberRule(
    absolute_tolerance=1e-9, accept_percent=True, accept_thousands_separators=True
)
_SEPARATORS = re.compile(r"[,_\u202f]")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[,_\u202f](?=[0-9])")


def compare_arguments(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> list[str]:
    """What is wrong with the arguments of a call; arguments not spoken of do not count."""
    return list(_wrong(expected, actual))


def _wrong(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> Iterator[str]:
    for name, value in expected.items():
        if name not in actual:
            yield f"argument '{name}' is missing, expected {_matcher_words(value)}"
            continue
        match = compare_argument(value, actual[name])
        if not match.held:
            yield f"argument '{name}': {match.reason}"


def compare_argument(expected: Json, actual: Json) -> Match:
    """Whether one argument is as expected."""
    kind, text = _matcher(expected)
    if kind == "fuzzy":
        held = _fuzzily_same(text, _as_text(actual))
        return HELD if held else _missed(expected, actual)
    if kind == "regex":
        problem = pattern_problem(text)
        if problem:
            return Match.missed(f"{problem}: mend the case")
        held = re.fullmatch(text, _as_text(actual)) is not None
        return HELD if held else _missed(expected, actual)
    same = next(differences(expected, actual, tolerance=0.0), None) is None
    return HELD if same else _missed(expected, actual)


def _matcher(expected: Json) -> tuple[str, str]:
    """Which way to compare, and with which text."""
    if isinstance(expected, Mapping) and len(expected) == 1:
        kind, value = next(iter(expected.items()))
        if kind in ("fuzzy", "regex"):
            return kind, spelled(value)
    return "literal", ""


def _matcher_words(expected: Json) -> str:
    kind, text = _matcher(expected)
    if kind == "fuzzy":
        return f"about {quoted(text)}"
    return f"what matches {quoted(text)}" if kind == "regex" else shown(expected)


def _missed(expected: Json, actual: Json) -> Match:
    return Match.missed(f"expected {_matcher_words(expected)}, found {shown(actual)}")


def _as_text(value: Json) -> str:
    """As Python writes it, which is what patterns in existing files are written for."""
    return value if isinstance(value, str) else str(cast("object", value))


def _fuzzily_same(expected: str, actual: str) -> bool:
    reference, answer = _AS_WRITTEN.read(expected).value, _AS_WRITTEN.read(actual).value
    if reference is not None and answer is not None:
        return _AS_WRITTEN.near(reference, answer)
    return _loosened(expected) == _loosened(actual)


def _loosened(text: str) -> str:
    """Without letter case, commas and underscores, any space as one space.

    Between digits a comma becomes a space: 1,2 is not 12.
    """
    spaced = _BETWEEN_DIGITS.sub(" ", levelled(text, fold=True))
    return " ".join(_SEPARATORS.sub("", spaced).split())


# -- Which expected tools were used ---------------------------------------------------------------


_NAMES_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """How one call fares against one expectation."""

    number: int
    call: ToolCall
    wrong: tuple[str, ...]


def compare_expected_tools(
    expected: Sequence[ExpectedTool], calls: Sequence[ToolCall]
) -> list[Match]:
    """For each expectation whether calls meet it; no call counts for two expectations.

    Expectations of fewer calls come first, and one that cannot be met in full takes no call
    away from others. Where all can be met together, all are.
    """
    fits = [_fits(tool, calls) for tool in expected]
    good = [[fit.number for fit in candidates if not fit.wrong] for candidates in fits]
    enough = [i for i, tool in enumerate(expected) if len(good[i]) >= tool.count]
    slots = [index for index in enough for _ in range(expected[index].count)]
    assignment = Assignment([good[index] for index in slots])
    met = {
        index
        for index in sorted(enough, key=lambda index: expected[index].count)
        if assignment.add_all([slot for slot, owner in enumerate(slots) if owner == index])
    }
    return [
        HELD if index in met else _unmet(tool, calls, fits[index])
        for index, tool in enumerate(expected)
    ]


def compare_no_tools(calls: Sequence[ToolCall]) -> Match:
    """Whether no tool was called, where none should be."""
    return Match.missed(f"expected no call of any tool, {_names_of(calls)}") if calls else HELD


def _names_of(calls: Sequence[ToolCall]) -> str:
    """The names of the tools that were called, in order."""
    if not calls:
        return "no tool was called"
    names = ", ".join(cut(call.name, 40) for call in calls[:_NAMES_SHOWN])
    return f"called: {names}{', …' if len(calls) > _NAMES_SHOWN else ''}"


def _fits(expected: ExpectedTool, calls: Sequence[ToolCall]) -> list[_Fit]:
    return [
        _Fit(
            number=number,
            call=call,
            wrong=tuple(compare_arguments(expected.arguments, call.arguments)),
        )
        for number, call in enumerate(calls)
        if expected.name in call.name
    ]


def _unmet(expected: ExpectedTool, calls: Sequence[ToolCall], fits: Sequence[_Fit]) -> Match:
    times = f" at least {expected.count} times" if expected.count > 1 else ""
    expectation = f"expected a call of '{expected.name}'{times}"
    if not fits:
        return Match.missed(f"{expectation}, {_names_of(calls)}")
    good = sum(not fit.wrong for fit in fits)
    if good >= expected.count:
        return Match.missed(f"{expectation}, but the calls that fit count for other expectations")
    wrong = [fit for fit in fits if fit.wrong]
    if not wrong:
        return Match.missed(f"{expectation}, found {good}")
    nearest = min(wrong, key=lambda fit: len(fit.wrong))
    fitting = f"found {good} that fit, and " if good else ""
    where = f"call {nearest.number + 1}, {cut(nearest.call.name, 40)}"
    return Match.missed(f"{expectation}, {fitting}{where}, has {'; '.join(nearest.wrong)}")


# -- Rules for the calls of a trajectory ----------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """How one call should agree with the expected one."""

    name: TextRule = SAME_TEXT
    arguments: JsonRule = SAME_JSON
    result: JsonRule | None = None
    """None does not look at results."""


_ANY_RESULT = ToolRule()


@dataclass(frozen=True, kw_only=True)
class TrajectoryRule:
    """How the calls of a turn should agree with the expected ones."""

    default: ToolRule = _ANY_RESULT
    overrides: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    """Other rules, by the name of the expected tool."""
    order_sensitive: bool = False
    subset_matching: bool = False
    """Calls beyond the expected ones are allowed."""

    def rule_for(self, name: str) -> ToolRule:
        """The rule for an expected tool."""
        return self.overrides.get(name, self.default)


STRICT = TrajectoryRule(order_sensitive=True)
"""Names and arguments, in order, nothing more and nothing less."""


def _compare_calls(expected: ToolCall, actual: ToolCall, rule: ToolRule = _ANY_RESULT) -> Match:
    """Whether one call is as another."""
    name = compare_texts(expected.name, actual.name, rule.name)
    if not name.held:
        return Match.missed(f"tool: {name.reason}")
    arguments = compare_json(dict(expected.arguments), dict(actual.arguments), rule.arguments)
    result = HELD if rule.result is None else _compare_results(expected, actual, rule.result)
    return all_of(
        [
            arguments if arguments.held else Match.missed(f"arguments {arguments.reason}"),
            result if result.held else Match.missed(f"result {result.reason}"),
        ]
    )


def _compare_results(expected: ToolCall, actual: ToolCall, rule: JsonRule) -> Match:
    if rule.reads and actual.error and not expected.error:
        return Match.missed(f"is an error: {quoted(actual.error)}")
    return compare_json(_as_json(expected.result), _as_json(actual.result), rule)


def _as_json(result: Json) -> Json:
    """What a tool gave; where it gave JSON as text, what the text says."""
    if not isinstance(result, str):
        return result
    read = parse_json(result)
    return result if read.problem else read.value


# -- Comparing the calls that were made with those of a model trajectory --------------------------


_SHOWN = 3


def compare_trajectories(
    expected: Sequence[ToolCall], calls: Sequence[ToolCall], rule: TrajectoryRule = STRICT
) -> Match:
    """Whether the calls that were made are those expected."""
    if not rule.order_sensitive:
        return _in_any_order(expected, calls, rule)
    if rule.subset_matching:
        return _in_order_among_others(expected, calls, rule)
    return _one_by_one(expected, calls, rule)


def _one_by_one(
    expected: Sequence[ToolCall], calls: Sequence[ToolCall], rule: TrajectoryRule
) -> Match:
    for number, (one, other) in enumerate(zip(expected, calls, strict=False), start=1):
        match = _compare_calls(one, other, rule.rule_for(one.name))
        if not match.held:
            where = f"call {number} of {len(expected)}, {cut(one.name, 40)}"
            return Match.missed(f"{where}: {match.reason}; {_names_of(calls)}")
    return _surplus(expected[len(calls) :], calls[len(expected) :])


def _in_order_among_others(
    expected: Sequence[ToolCall], calls: Sequence[ToolCall], rule: TrajectoryRule
) -> Match:
    start = 0
    for number, call in enumerate(expected, start=1):
        how, rest = rule.rule_for(call.name), range(start, len(calls))
        fits = (place for place in rest if _compare_calls(call, calls[place], how).held)
        place = next(fits, None)
        if place is None:
            after = f", after call {start}" if start else ""
            hint = _near(call, calls[start:], rule)
            where = f"call {number} of {len(expected)}, {_call(call)}, was not made in this order"
            return Match.missed(f"{where}{after}: {hint or _names_of(calls)}")
        start = place + 1
    return HELD


def _in_any_order(
    expected: Sequence[ToolCall], calls: Sequence[ToolCall], rule: TrajectoryRule
) -> Match:
    choices = [
        [
            place
            for place, other in enumerate(calls)
            if _compare_calls(one, other, rule.rule_for(one.name)).held
        ]
        for one in expected
    ]
    made = assigned(choices)
    extra = [call for place, call in enumerate(calls) if place not in made.taken]
    lacking = [call for who, call in enumerate(expected) if who not in made.place_of]
    near = next(filter(None, (_near(call, extra, rule) for call in lacking)), "")
    return _surplus(lacking, () if rule.subset_matching else extra, near)


def _surplus(lacking: Sequence[ToolCall], extra: Sequence[ToolCall], near: str = "") -> Match:
    missing = [f"expected but not made: {_listed(lacking)}{f' ({near})' if near else ''}"]
    more = [f"made but not expected: {_listed(extra)}"]
    parts = [*(missing if lacking else []), *(more if extra else [])]
    return Match.missed("; ".join(parts)) if parts else HELD


def _near(expected: ToolCall, calls: Sequence[ToolCall], rule: TrajectoryRule) -> str:
    """How the first call of the same tool differs, if there is one."""
    how = rule.rule_for(expected.name)
    same = (call for call in calls if compare_texts(expected.name, call.name, how.name).held)
    nearest = next(same, None)
    if nearest is None:
        return ""
    return (
        f"{cut(nearest.name, 40)} was called, but {_compare_calls(expected, nearest, how).reason}"
    )


def _listed(calls: Sequence[ToolCall]) -> str:
    text = ", ".join(_call(call) for call in calls[:_SHOWN])
    return f"{text} and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else text


def _call(call: ToolCall) -> str:
    return f"{cut(call.name, 40)}({shown(dict(call.arguments), 60)})"
