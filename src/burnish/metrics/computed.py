"""Metrics that compute their score from the answer and the tool calls of a turn."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from burnish.core.errors import ConfigError, Problem
from burnish.metrics.json_matching import (
    EXACT as SAME_JSON,
)
from burnish.metrics.json_matching import (
    JsonReading,
    JsonRule,
    compare_json_texts,
    parse_json,
    read_path,
)
from burnish.metrics.rouge import RougeMatch, RougeRule, compare_rouge
from burnish.metrics.text_matching import (
    EXACT_TEXT,
    LengthRule,
    Match,
    NumberRule,
    TextRule,
    Unit,
    a_kind,
    all_of,
    check_length,
    compare_numbers,
    compare_texts,
    difference,
    length_of,
    levelled,
    off_length,
    spelled,
)
from burnish.metrics.text_matching import (
    EXACT_TEXT as SAME_TEXT,
)
from burnish.metrics.tool_matching import (
    STRICT,
    TrajectoryRule,
    compare_expected_tools,
    compare_no_tools,
    compare_trajectories,
)
from burnish.metrics.turns import ComputedMetric, Exchange, Verdict
from burnish.metrics.xml_matching import WELL_FORMED, XmlRule, compare_xml


@dataclass(frozen=True, kw_only=True)
class _AnswerText:
    """The text of an answer, or why there is none to compare."""

    text: str = ""
    problem: str = ""


def _answer_json(exchange: Exchange) -> JsonReading:
    """The structured answer where the agent gives one, else the reply read as JSON."""
    if exchange.data is not None:
        return JsonReading(value=exchange.data)
    return parse_json(exchange.reply)


def answer_text(exchange: Exchange, response_path: str = "") -> _AnswerText:
    """The reply, or what stands at a path of the answer."""
    if not response_path:
        return _AnswerText(text=exchange.reply)
    answer = _answer_json(exchange)
    reading = answer if answer.problem else read_path(answer.value, response_path)
    if reading.problem:
        return _AnswerText(problem=reading.problem)
    if isinstance(reading.value, dict | list) or reading.value is None:
        problem = f"at '{response_path}' there is {a_kind(reading.value)}, not one plain value"
        return _AnswerText(problem=problem)
    return _AnswerText(text=spelled(reading.value))


# -- The same text, as strictly as you like -------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Equality(ComputedMetric):
    """1 where the answer is the expected text. Strict: space around it counts until told not to."""

    name: str = "equality"
    case_insensitive: bool = False
    strip_whitespace: bool = False
    """Space around the text does not count, and any space within it is one space."""
    strip_punctuation: bool = False
    """Marks of punctuation do not count, in any script."""
    response_path: str = ""
    """Where in a JSON answer to look; empty for the whole reply."""

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; only where something is expected."""
        if exchange.expected is None:
            return None
        answer = answer_text(exchange, self.response_path)
        if answer.problem:
            return Verdict.of(held=False, reason=answer.problem)
        expected, reply = self._plain(exchange.expected), self._plain(answer.text)
        held = expected == reply
        return Verdict.of(held=held, reason="" if held else difference(expected, reply))

    def _plain(self, text: str) -> str:
        plain = levelled(text, fold=self.case_insensitive)
        if self.strip_punctuation:
            plain = "".join(sign for sign in plain if not _punctuates(sign))
        return " ".join(plain.split()) if self.strip_whitespace else plain


def _punctuates(sign: str) -> bool:
    return sign in string.punctuation or unicodedata.category(sign).startswith("P")


# -- The tools that should be used in a turn, in whatever order -----------------------------------


@dataclass(frozen=True, kw_only=True)
class ExpectedTools(ComputedMetric):
    """The share of the expected tools that were used as expected; passes where all were.

    Where the list is there and empty, no tool may be used at all.
    """

    name: str = "expected_tools"

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Look for a call for each expectation; only where the turn has a list of them."""
        expected = exchange.turn.expected_tools
        if expected is None:
            return None
        if not expected:
            match = compare_no_tools(exchange.tools)
            return Verdict.of(held=match.held, reason=match.reason)
        matches = compare_expected_tools(expected, exchange.tools)
        met = sum(match.held for match in matches)
        whole = all_of(matches)
        return Verdict(value=met / len(expected), passed=whole.held, reason=whole.reason)


# -- The final response of a turn against several rules at once -----------------------------------


@dataclass(frozen=True, kw_only=True)
class FinalResponse(ComputedMetric):
    """1 where every rule that is given holds; without any, where the text is as expected."""

    name: str = "final_response_avg_score"
    text: TextRule | None = None
    json: JsonRule | None = None
    xml: XmlRule | None = None
    rouge: RougeRule | None = None

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected answer."""
        rules = [rule for rule in (self.text, self.json, self.xml, self.rouge) if rule is not None]
        return any(rule.needs_reference for rule in rules or [EXACT_TEXT])

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Hold the reply against the rules; where one needs what is not there, say nothing."""
        if self.needs_reference and exchange.expected is None:
            return None
        rouge = self._rouge(exchange)
        match = all_of([*self._matches(exchange), *([rouge.match] if rouge else [])])
        numbers = {self.rouge.kind: rouge.value} if self.rouge and rouge else {}
        return Verdict.of(held=match.held, reason=match.reason, **numbers)

    def _matches(self, exchange: Exchange) -> list[Match]:
        expected, reply = exchange.expected, exchange.reply
        ruled = (self.text, self.json, self.xml, self.rouge) != (None, None, None, None)
        text = self.text if ruled else EXACT_TEXT
        return [
            *([_about("text", compare_texts(expected, reply, text))] if text else []),
            *([_about("json", self._json(exchange, self.json))] if self.json else []),
            *([_about("xml", compare_xml(expected, reply, self.xml))] if self.xml else []),
        ]

    def _json(self, exchange: Exchange, rule: JsonRule) -> Match:
        return compare_json_texts(exchange.expected, _answer_json(exchange), rule)

    def _rouge(self, exchange: Exchange) -> RougeMatch | None:
        if self.rouge is None or self.rouge.ignore or exchange.expected is None:
            return None
        return compare_rouge(exchange.expected, exchange.reply, self.rouge)


def _about(rule: str, match: Match) -> Match:
    return match if match.held else Match.missed(f"{rule}: {match.reason}")


# -- How long an answer is ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Length(ComputedMetric):
    """1 where the reply is within bounds, both ends included; space around it does not count."""

    name: str = "length"
    min: int | None = None
    max: int | None = None
    unit: Unit = "characters"

    def __post_init__(self) -> None:
        _refuse_empty(self.name, self.min, self.max)

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Measure the reply."""
        rule = LengthRule(min=self.min, max=self.max, unit=self.unit)
        match = check_length(exchange.reply, rule)
        length = length_of(exchange.reply, self.unit)
        return Verdict.of(held=match.held, reason=match.reason, length=length)


@dataclass(frozen=True, kw_only=True)
class LengthCompliance(ComputedMetric):
    """1 within the preferred bounds, one half within those one can live with, else 0."""

    name: str = "final_response_length_compliance"
    min: int | None = None
    max: int | None = None
    preferred_min: int | None = None
    """None takes `min`; so does `preferred_max` with `max`."""
    preferred_max: int | None = None

    def __post_init__(self) -> None:
        _refuse_empty(self.name, self.min, self.max)
        preferred, accepted = self._preferred, self._accepted
        _refuse_empty(f"{self.name}, preferred", preferred.min, preferred.max)
        ends = [end for end in (preferred.min, preferred.max) if end is not None]
        if not all(accepted.allows(end) for end in ends):
            message = f"{self.name}: preferred are {preferred}, but accepted are {accepted}"
            raise ConfigError([Problem(message=message, remedy="prefer what is accepted")])

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Measure the reply, in characters."""
        length = length_of(exchange.reply)
        if self._preferred.allows(length):
            return Verdict(value=1.0, details={"length": length})
        value = 0.5 if self._accepted.allows(length) else 0.0
        reason = off_length(length, self._preferred)
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
        message = f"{name}: no length is at least {low} and at most {high}"
        raise ConfigError([Problem(message=message, remedy="swap the two, or drop one")])


_Answer = TypeVar("_Answer")
_Rule = TypeVar("_Rule", TextRule, JsonRule, XmlRule)


def _by_rule(
    compare: Callable[[str | None, _Answer, _Rule], Match],
    exchange: Exchange,
    answer: _Answer,
    rule: _Rule,
) -> Verdict | None:
    if rule.needs_reference and exchange.expected is None:
        return None
    match = compare(exchange.expected, answer, rule)
    return Verdict.of(held=match.held, reason=match.reason)


# -- One rule as a metric -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TextMatch(ComputedMetric):
    """1 where the reply agrees with the expected text as the rule asks."""

    name: str = "text_match"
    rule: TextRule = SAME_TEXT

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; a rule that needs an expected text applies only where there is one."""
        return _by_rule(compare_texts, exchange, exchange.reply, self.rule)


@dataclass(frozen=True, kw_only=True)
class JsonMatch(ComputedMetric):
    """1 where the answer is JSON as the rule asks."""

    name: str = "json_match"
    rule: JsonRule = SAME_JSON

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; a rule that needs an expected value applies only where there is one."""
        return _by_rule(compare_json_texts, exchange, _answer_json(exchange), self.rule)


@dataclass(frozen=True, kw_only=True)
class XmlMatch(ComputedMetric):
    """1 where the reply is XML as the rule asks."""

    name: str = "xml_match"
    rule: XmlRule = WELL_FORMED

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; a rule that needs an expected document applies only where there is one."""
        return _by_rule(compare_xml, exchange, exchange.reply, self.rule)


# -- The same number, within tolerances -----------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Numeric(ComputedMetric):
    """1 where the answer is the expected number; what is no number scores 0."""

    name: str = "numeric"
    absolute_tolerance: float = 1e-6
    """This far off is still right; either tolerance is enough."""
    relative_tolerance: float = 0.0
    """The same, as a share of the expected number."""
    accept_percent: bool = False
    """`12%` is 0.12."""
    accept_thousands_separators: bool = False
    response_path: str = ""
    """Where in a JSON answer to look; empty for the whole reply."""

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; only where something is expected."""
        if exchange.expected is None:
            return None
        answer = answer_text(exchange, self.response_path)
        if answer.problem:
            return Verdict.of(held=False, reason=answer.problem)
        match = compare_numbers(exchange.expected, answer.text, self._rule())
        return Verdict.of(held=match.held, reason=match.reason)

    def _rule(self) -> NumberRule:
        return NumberRule(
            absolute_tolerance=self.absolute_tolerance,
            relative_tolerance=self.relative_tolerance,
            accept_percent=self.accept_percent,
            accept_thousands_separators=self.accept_thousands_separators,
        )


# -- How little a text repeats itself -------------------------------------------------------------


_WORD = re.compile(r"\w+")
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class DistinctPhrases(ComputedMetric):
    """The share of runs of `size` words that did not stand in the text before.

    Ordinary prose stays above 0.9 at three words. A text that is shorter than that repeats
    nothing.
    """

    name: str = "distinct_phrases"
    size: int = 3

    def __post_init__(self) -> None:
        if self.size < 1:
            message = f"{self.name}: runs of {self.size} words cannot be counted"
            raise ConfigError([Problem(message=message, remedy="give a size of 1 or more")])

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Count the runs of words in the reply."""
        counts = _repeated_runs(exchange.reply, self.size)
        whole = counts.total()
        again = whole - len(counts)
        value = 1.0 if whole == 0 else 1 - again / whole
        return Verdict(
            value=value,
            reason=_repetition(counts, again, whole) if again else "",
            details={"runs": whole, "repeated": again},
        )


def _repeated_runs(text: str, size: int) -> Counter[tuple[str, ...]]:
    """How often each run of so many words stands in a text; case does not count."""
    words = _WORD.findall(text.casefold())
    return Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _repetition(counts: Counter[tuple[str, ...]], again: int, whole: int) -> str:
    most = [(" ".join(run), n) for run, n in counts.most_common(_SHOWN) if n > 1]
    named = ", ".join(f"'{run}' {n} times" for run, n in most)
    return f"{again} of {whole} runs of words were there before: {named}; say each thing once"


# -- The tool calls of a turn against those of a model trajectory ---------------------------------


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory(ComputedMetric):
    """1 where the calls of a turn are those expected, as the rule compares them.

    Where the list of a turn is there and empty, no call may be made, whatever the rule. A case
    that lists calls in one turn speaks of them in all: a turn without a list is compared with
    none. A case without any list says nothing about calls.
    """

    name: str = "tool_trajectory_avg_score"
    rule: TrajectoryRule = STRICT

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare the calls."""
        expected, turns = exchange.turn.expected_calls, exchange.case.turns
        written = exchange.index < len(turns)
        if expected == ():
            match = compare_no_tools(exchange.tools)
        elif written and any(turn.expected_calls for turn in turns):
            match = compare_trajectories(expected or (), exchange.tools, self.rule)
        else:
            return None
        return Verdict.of(held=match.held, reason=match.reason)
