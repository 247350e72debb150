"""Rules for the calls of a trajectory, and comparing one call with another."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from burnish.core.content import Json
from burnish.core.outcomes import ToolCall
from burnish.evaluation.matching.excerpts import quoted
from burnish.evaluation.matching.json_texts import parse_json
from burnish.evaluation.matching.json_trees import EXACT as SAME_JSON
from burnish.evaluation.matching.json_trees import JsonRule, compare_json
from burnish.evaluation.matching.match import HELD, Match, all_of
from burnish.evaluation.matching.texts import EXACT as SAME_TEXT
from burnish.evaluation.matching.texts import TextRule, compare_texts


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """How one call should agree with the expected one."""

    name: TextRule = SAME_TEXT
    arguments: JsonRule = SAME_JSON
    result: JsonRule | None = None
    """None does not look at results."""


ANY_RESULT = ToolRule()


@dataclass(frozen=True, kw_only=True)
class TrajectoryRule:
    """How the calls of a turn should agree with the expected ones."""

    default: ToolRule = ANY_RESULT
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


def compare_calls(expected: ToolCall, found: ToolCall, rule: ToolRule = ANY_RESULT) -> Match:
    """Whether one call is as another."""
    name = compare_texts(expected.name, found.name, rule.name)
    if not name.held:
        return Match.missed(f"tool: {name.reason}")
    arguments = compare_json(dict(expected.arguments), dict(found.arguments), rule.arguments)
    result = HELD if rule.result is None else _compare_results(expected, found, rule.result)
    return all_of(
        [
            arguments if arguments.held else Match.missed(f"arguments {arguments.reason}"),
            result if result.held else Match.missed(f"result {result.reason}"),
        ]
    )


def _compare_results(expected: ToolCall, found: ToolCall, rule: JsonRule) -> Match:
    if rule.reads and found.error and not expected.error:
        return Match.missed(f"is an error: {quoted(found.error)}")
    return compare_json(_as_json(expected.result), _as_json(found.result), rule)


def _as_json(result: Json) -> Json:
    """What a tool gave; where it gave JSON as text, what the text says."""
    if not isinstance(result, str):
        return result
    read = parse_json(result)
    return result if read.problem else read.value
