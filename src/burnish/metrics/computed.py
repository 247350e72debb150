"""Metrics that compute their score from the answer and the tool calls of a turn."""

import re
import string
import unicodedata
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from burnish.core.errors import ConfigError, Problem
from burnish.metrics.document_matching import (
    JsonReading,
    JsonRule,
    XmlRule,
    compare_json_texts,
    compare_xml,
    parse_json,
    path_problem,
    read_path,
)
from burnish.metrics.rouge import RougeRule, compare_rouge
from burnish.metrics.text_matching import (
    EXACT_TEXT,
    LengthRule,
    NumberRule,
    TextRule,
    Unit,
    a_kind,
    check_length,
    compare_numbers,
    compare_texts,
    difference,
    joined,
    length_of,
    levelled,
    spelled,
)
from burnish.metrics.tool_matching import (
    STRICT,
    TrajectoryRule,
    compare_expected_tools,
    compare_no_tools,
    compare_trajectories,
)
from burnish.metrics.turns import (
    NEEDS_REFERENCE,
    TOOLS_UNKNOWN,
    ComputedMetric,
    Exchange,
    Verdict,
)


@dataclass(frozen=True, kw_only=True)
class ReferenceMetric(ComputedMetric):
    """Compares the answer with the expected text; skips turns that expect none."""

    response_path: str = ""
    """Where in a JSON answer to look; empty for the whole reply."""

    needs: ClassVar[str] = NEEDS_REFERENCE

    def __post_init__(self) -> None:
        if self.response_path and (problem := path_problem(self.response_path)):
            raise ConfigError([Problem(where=f"{self.name}.response_path", message=problem)])

    def compute(self, exchange: Exchange) -> Verdict | None:
        if exchange.expected is None:
            return None
        if not self.response_path:
            return self.compare(exchange.expected, exchange.reply)
        data = exchange.data
        reading = parse_json(exchange.reply) if data is None else JsonReading(value=data)
        if not reading.problem:
            reading = read_path(reading.value, self.response_path)
        problem, value = reading.problem, reading.value
        if not problem and (value is None or isinstance(value, dict | list)):
            problem = f"'{self.response_path}' is {a_kind(value)}, not a plain value"
        if problem:
            return Verdict.of(held=False, reason=problem)
        return self.compare(exchange.expected, spelled(value))

    @abstractmethod
    def compare(self, expected: str, reply: str) -> Verdict:
        """The verdict on an answer."""


@dataclass(frozen=True, kw_only=True)
class Equality(ReferenceMetric):
    """1 if the answer is the expected text; whitespace counts unless it is stripped."""

    name: str = "equality"
    case_insensitive: bool = False
    strip_whitespace: bool = False
    """Ignore whitespace at both ends and collapse it in between."""
    strip_punctuation: bool = False
    """Ignore punctuation, in any script."""

    def compare(self, expected: str, reply: str) -> Verdict:
        expected, reply = self._plain(expected), self._plain(reply)
        held = expected == reply
        return Verdict.of(held=held, reason="" if held else difference(expected, reply))

    def _plain(self, text: str) -> str:
        plain = levelled(text, fold=self.case_insensitive)
        if self.strip_punctuation:
            plain = "".join(sign for sign in plain if not _punctuates(sign))
        return " ".join(plain.split()) if self.strip_whitespace else plain


def _punctuates(sign: str) -> bool:
    return sign in string.punctuation or unicodedata.category(sign).startswith("P")


@dataclass(frozen=True, kw_only=True)
class Answered(ComputedMetric):
    """1 if there is a reply at all; for agents that are run without metrics of their own."""

    name: str = "answered"

    def compute(self, exchange: Exchange) -> Verdict | None:
        held = bool(exchange.reply.strip())
        return Verdict.of(held=held, reason="" if held else "the reply is empty")


@dataclass(frozen=True, kw_only=True)
class ExpectedTools(ComputedMetric):
    """The share of expected tools that were used; an empty list allows no tool at all."""

    name: str = "expected_tools"

    needs: ClassVar[str] = "expected_tools"

    def compute(self, exchange: Exchange) -> Verdict | None:
        expected = exchange.turn.expected_tools
        if expected is None:
            return None
        if not exchange.tools_known:
            return Verdict.missing(TOOLS_UNKNOWN)
        if not expected:
            reason = compare_no_tools(exchange.tools)
            return Verdict.of(held=not reason, reason=reason)
        reasons = compare_expected_tools(expected, exchange.tools)
        value = reasons.count("") / len(expected)
        return Verdict(value=value, passed=not any(reasons), reason=joined(reasons))


@dataclass(frozen=True, kw_only=True)
class FinalResponse(ComputedMetric):
    """1 if every given rule holds; without any rule, if the text is as expected."""

    name: str = "final_response_avg_score"

    needs: ClassVar[str] = NEEDS_REFERENCE

    text: TextRule | None = None
    json: JsonRule | None = None
    xml: XmlRule | None = None
    rouge: RougeRule | None = None

    def compute(self, exchange: Exchange) -> Verdict | None:
        rules = [rule for rule in (self.text, self.json, self.xml, self.rouge) if rule is not None]
        text = self.text if rules else EXACT_TEXT
        expected, reply = exchange.expected, exchange.reply
        if expected is None and any(rule.needs_reference for rule in rules or [EXACT_TEXT]):
            return None
        reasons = {
            "text": compare_texts(expected, reply, text) if text else "",
            "json": self.json
            and compare_json_texts(expected, reply, self.json, data=exchange.data),
            "xml": compare_xml(expected, reply, self.xml) if self.xml else "",
        }
        lines = [f"{rule}: {reason}" for rule, reason in reasons.items() if reason]
        numbers: dict[str, float] = {}
        if self.rouge and not self.rouge.ignore and expected is not None:
            reason, numbers[self.rouge.kind] = compare_rouge(expected, reply, self.rouge)
            lines.append(reason)
        reason = joined(lines)
        return Verdict.of(held=not reason, reason=reason, **numbers)


@dataclass(frozen=True, kw_only=True)
class Length(ComputedMetric):
    """1 if the length of the reply is within the bounds, surrounding space ignored."""

    name: str = "length"
    min: int | None = None
    max: int | None = None
    unit: Unit = "characters"

    def __post_init__(self) -> None:
        _refuse_empty(self.name, self.min, self.max)

    def compute(self, exchange: Exchange) -> Verdict | None:
        length = length_of(exchange.reply, self.unit)
        reason = check_length(length, LengthRule(min=self.min, max=self.max, unit=self.unit))
        return Verdict.of(held=not reason, reason=reason, length=length)


@dataclass(frozen=True, kw_only=True)
class LengthCompliance(ComputedMetric):
    """1 within the preferred bounds, 0.5 within the accepted ones, else 0."""

    name: str = "final_response_length_compliance"
    min: int | None = None
    max: int | None = None
    preferred_min: int | None = None
    """If None, `min`; likewise `preferred_max` and `max`."""
    preferred_max: int | None = None

    def __post_init__(self) -> None:
        _refuse_empty(self.name, self.min, self.max)
        preferred, accepted = self._preferred, self._accepted
        _refuse_empty(f"{self.name}, preferred", preferred.min, preferred.max)
        ends = [end for end in (preferred.min, preferred.max) if end is not None]
        if not all(accepted.allows(end) for end in ends):
            bounds = f"the preferred length is {preferred}, but the accepted one is {accepted}"
            remedy = "keep the preferred bounds within the accepted ones"
            raise ConfigError([Problem(message=f"{self.name}: {bounds}", remedy=remedy)])

    def compute(self, exchange: Exchange) -> Verdict | None:
        length = length_of(exchange.reply)
        reason = check_length(length, self._preferred)
        if not reason:
            return Verdict(value=1.0, details={"length": length})
        value = 0.5 if self._accepted.allows(length) else 0.0
        if self._preferred != self._accepted:
            reason += f" ({self._accepted} would be accepted, for half the score)"
        return Verdict(value=value, reason=reason, details={"length": length})

    @property
    def _accepted(self) -> LengthRule:
        return LengthRule(min=self.min, max=self.max)

    @property
    def _preferred(self) -> LengthRule:
        low = self.min if self.preferred_min is None else self.preferred_min
        high = self.max if self.preferred_max is None else self.preferred_max
        return LengthRule(min=low, max=high)


def _refuse_empty(name: str, low: int | None, high: int | None) -> None:
    if low is not None and high is not None and low > high:
        message = f"{name}: min {low} is greater than max {high}"
        raise ConfigError([Problem(message=message, remedy="swap them, or remove one")])


@dataclass(frozen=True, kw_only=True)
class Numeric(ReferenceMetric):
    """1 if the answer is the expected number; an answer that is not a number scores 0."""

    name: str = "numeric"
    absolute_tolerance: float = 1e-6
    relative_tolerance: float = 0.0
    accept_percent: bool = False
    accept_thousands_separators: bool = False

    def compare(self, expected: str, reply: str) -> Verdict:
        rule = NumberRule(
            absolute_tolerance=self.absolute_tolerance,
            relative_tolerance=self.relative_tolerance,
            accept_percent=self.accept_percent,
            accept_thousands_separators=self.accept_thousands_separators,
        )
        reason = compare_numbers(expected, reply, rule)
        return Verdict.of(held=not reason, reason=reason)


@dataclass(frozen=True, kw_only=True)
class DistinctPhrases(ComputedMetric):
    """The share of `size`-word phrases that are not repeats; ordinary prose is above 0.9."""

    name: str = "distinct_phrases"
    size: int = 3

    def __post_init__(self) -> None:
        if self.size < 1:
            message = f"{self.name}: phrases of {self.size} words cannot be counted"
            raise ConfigError([Problem(message=message, remedy="set size to 1 or more")])

    def compute(self, exchange: Exchange) -> Verdict | None:
        words = re.findall(r"\w+", exchange.reply.casefold())
        starts = range(len(words) - self.size + 1)
        counts = Counter(tuple(words[start : start + self.size]) for start in starts)
        whole = counts.total()
        again = whole - len(counts)
        most = [(" ".join(run), n) for run, n in counts.most_common(3) if n > 1]
        named = ", ".join(f"'{run}' {n} times" for run, n in most)
        reason = f"{again} of {whole} phrases are repeats: {named}; say each thing once"
        return Verdict(
            value=1 - again / whole if whole else 1.0,
            reason=reason if again else "",
            details={"runs": whole, "repeated": again},
        )


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory(ComputedMetric):
    """1 if the calls of a turn are the expected ones, as the rule compares them.

    An empty list allows no call, whatever the rule. If any turn of a case lists calls, turns
    without a list must have none; a case without lists is skipped.
    """

    name: str = "tool_trajectory_avg_score"
    rule: TrajectoryRule = STRICT

    needs: ClassVar[str] = "a list of expected tool calls"

    def compute(self, exchange: Exchange) -> Verdict | None:
        expected, turns = exchange.turn.expected_calls, exchange.case.turns
        listed = exchange.index < len(turns) and any(turn.expected_calls for turn in turns)
        if expected is None and not listed:
            return None
        if not exchange.tools_known:
            return Verdict.missing(TOOLS_UNKNOWN)
        if expected == ():
            reason = compare_no_tools(exchange.tools)
        else:
            reason = compare_trajectories(expected or (), exchange.tools, self.rule)
        return Verdict.of(held=not reason, reason=reason)
