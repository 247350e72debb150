"""Which expected tools were used: in any order, each call for one expectation only."""

from collections.abc import Sequence
from dataclasses import dataclass

from burnish.core.cases import ExpectedTool
from burnish.core.outcomes import ToolCall
from burnish.evaluation.matching.assignment import Assignment
from burnish.evaluation.matching.excerpts import cut
from burnish.evaluation.matching.match import HELD, Match
from burnish.evaluation.matching.tool_arguments import compare_arguments

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
    good = [[fit.number for fit in found if not fit.wrong] for found in fits]
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
    return Match.missed(f"expected no call of any tool, {names_of(calls)}") if calls else HELD


def names_of(calls: Sequence[ToolCall]) -> str:
    """The names of the tools that were called, in order."""
    if not calls:
        return "no tool was called"
    told = ", ".join(cut(call.name, 40) for call in calls[:_NAMES_SHOWN])
    return f"called: {told}{', …' if len(calls) > _NAMES_SHOWN else ''}"


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
    told = f"expected a call of '{expected.name}'{times}"
    if not fits:
        return Match.missed(f"{told}, {names_of(calls)}")
    good = sum(not fit.wrong for fit in fits)
    if good >= expected.count:
        return Match.missed(f"{told}, but the calls that fit count for other expectations")
    wrong = [fit for fit in fits if fit.wrong]
    if not wrong:
        return Match.missed(f"{told}, found {good}")
    nearest = min(wrong, key=lambda fit: len(fit.wrong))
    fitting = f"found {good} that fit, and " if good else ""
    where = f"call {nearest.number + 1}, {cut(nearest.call.name, 40)}"
    return Match.missed(f"{told}, {fitting}{where}, has {'; '.join(nearest.wrong)}")
