"""Patterns that users and clients write end in time, and say so."""

import time
from typing import Any

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.errors import ConfigError
from burnish.metrics.document_matching import check_schema
from burnish.metrics.text_matching import TextRule, compare_texts
from burnish.metrics.tool_matching import compare_argument
from burnish.runs.case_work import _score  # pyright: ignore[reportPrivateUsage]
from burnish.system.user_code import BadPattern, SlowPattern, matches_whole, require_pattern, search
from burnish.targets.graph.graphs import Condition

_SLOW = "(a|aa)+$"
_TEXT = "a" * 50 + "!"


def test_the_classic_one_ends() -> None:
    began = time.process_time()
    assert not search("(a+)+$", _TEXT)
    assert time.process_time() - began < 2


def test_a_slow_pattern_is_stopped_with_a_message() -> None:
    with pytest.raises(SlowPattern, match=r"took more than 1 s on a text of 51 characters"):
        search(_SLOW, _TEXT)


@pytest.mark.parametrize(
    "use",
    [
        lambda: compare_texts(_SLOW, _TEXT, TextRule(match="regex")),
        lambda: compare_argument({"regex": _SLOW}, _TEXT),
        lambda: check_schema(_TEXT, {"type": "string", "pattern": _SLOW}),
        lambda: check_schema({_TEXT: 1}, {"patternProperties": {_SLOW: {}}}),
        lambda: check_schema(
            {_TEXT: 1}, {"patternProperties": {_SLOW: {}}, "additionalProperties": False}
        ),
        lambda: Condition(kind="matches", text=_SLOW).reads(_TEXT),
    ],
)
def test_everywhere(use: Any) -> None:
    with pytest.raises(SlowPattern):
        use()


async def test_its_case_has_no_score_rather_than_0() -> None:
    class Slow:
        name = "slow"

        async def score(self, case: Case, outcome: Outcome, *, effects: Any) -> Any:
            return compare_texts(_SLOW, outcome.output, TextRule(match="regex"))

    metric: Any = Slow()
    outcome = Outcome(replies=(_TEXT,))
    (score,) = await _score(metric, Case.single("q", _SLOW), outcome, None)  # pyright: ignore[reportArgumentType]
    assert score.missing
    assert "took more than" in score.reason


@pytest.mark.parametrize(
    "pattern", ["(", "a{4294967290}", "(?:a{1000}){1000}", "a" * 20_000, "(" * 3000 + ")" * 3000]
)
def test_patterns_that_cannot_be_used(pattern: str) -> None:
    with pytest.raises(BadPattern):
        require_pattern(pattern)
    with pytest.raises(ConfigError):
        Condition(kind="matches", text=pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("ab{e<=1}", "ac", False),
        ("ab{e<=1}", "ab{e<=1}", True),
        (r"\N{DEGREE SIGN}C", "9 °C", True),
        (r"\d{4}-\d{2}", "on 2026-11", True),
        ("(?i)ABC", "xabcx", True),
        ("x{}", "x{}", True),
    ],
)
def test_patterns_mean_what_they_mean_to_python(pattern: str, text: str, found: bool) -> None:
    assert search(pattern, text) is found


def test_whole_lines_and_letter_case() -> None:
    assert matches_whole("a+", "aaa")
    assert not matches_whole("a+", "aaab")
    assert search("^b$", "a\nb", lines=True)
    assert search("ABC", "abc", fold=True)
