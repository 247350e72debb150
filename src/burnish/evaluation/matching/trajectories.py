"""Comparing the calls that were made with those of a model trajectory."""

from collections.abc import Sequence

from burnish.core.outcomes import ToolCall
from burnish.evaluation.matching.assignment import assigned
from burnish.evaluation.matching.excerpts import cut, shown
from burnish.evaluation.matching.match import HELD, Match
from burnish.evaluation.matching.texts import compare_texts
from burnish.evaluation.matching.tool_calls import names_of
from burnish.evaluation.matching.tool_rules import STRICT, TrajectoryRule, compare_calls

_SHOWN = 3


def compare_trajectories(
    expected: Sequence[ToolCall], found: Sequence[ToolCall], rule: TrajectoryRule = STRICT
) -> Match:
    """Whether the calls that were made are those expected."""
    if not rule.order_sensitive:
        return _in_any_order(expected, found, rule)
    if rule.subset_matching:
        return _in_order_among_others(expected, found, rule)
    return _one_by_one(expected, found, rule)


def _one_by_one(
    expected: Sequence[ToolCall], found: Sequence[ToolCall], rule: TrajectoryRule
) -> Match:
    for number, (one, other) in enumerate(zip(expected, found, strict=False), start=1):
        match = compare_calls(one, other, rule.rule_for(one.name))
        if not match.held:
            where = f"call {number} of {len(expected)}, {cut(one.name, 40)}"
            return Match.missed(f"{where}: {match.reason}; {names_of(found)}")
    return _surplus(expected[len(found) :], found[len(expected) :])


def _in_order_among_others(
    expected: Sequence[ToolCall], found: Sequence[ToolCall], rule: TrajectoryRule
) -> Match:
    start = 0
    for number, wanted in enumerate(expected, start=1):
        how, rest = rule.rule_for(wanted.name), range(start, len(found))
        fits = (place for place in rest if compare_calls(wanted, found[place], how).held)
        place = next(fits, None)
        if place is None:
            after = f", after call {start}" if start else ""
            told = _near(wanted, found[start:], rule)
            where = f"call {number} of {len(expected)}, {_call(wanted)}, was not made in this order"
            return Match.missed(f"{where}{after}: {told or names_of(found)}")
        start = place + 1
    return HELD


def _in_any_order(
    expected: Sequence[ToolCall], found: Sequence[ToolCall], rule: TrajectoryRule
) -> Match:
    choices = [
        [
            place
            for place, other in enumerate(found)
            if compare_calls(one, other, rule.rule_for(one.name)).held
        ]
        for one in expected
    ]
    made = assigned(choices)
    extra = [call for place, call in enumerate(found) if place not in made.taken]
    lacking = [call for who, call in enumerate(expected) if who not in made.place_of]
    near = next(filter(None, (_near(call, extra, rule) for call in lacking)), "")
    return _surplus(lacking, () if rule.subset_matching else extra, near)


def _surplus(lacking: Sequence[ToolCall], extra: Sequence[ToolCall], near: str = "") -> Match:
    told = [f"expected but not made: {_listed(lacking)}{f' ({near})' if near else ''}"]
    more = [f"made but not expected: {_listed(extra)}"]
    parts = [*(told if lacking else []), *(more if extra else [])]
    return Match.missed("; ".join(parts)) if parts else HELD


def _near(wanted: ToolCall, calls: Sequence[ToolCall], rule: TrajectoryRule) -> str:
    """How the first call of the same tool differs, if there is one."""
    how = rule.rule_for(wanted.name)
    same = (call for call in calls if compare_texts(wanted.name, call.name, how.name).held)
    nearest = next(same, None)
    if nearest is None:
        return ""
    return f"{cut(nearest.name, 40)} was called, but {compare_calls(wanted, nearest, how).reason}"


def _listed(calls: Sequence[ToolCall]) -> str:
    told = ", ".join(_call(call) for call in calls[:_SHOWN])
    return f"{told} and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else told


def _call(call: ToolCall) -> str:
    return f"{cut(call.name, 40)}({shown(dict(call.arguments), 60)})"
