"""A text that repeats itself is found out, ordinary prose is not."""

import pytest

from burnish.core.cases import Case, Outcome
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Score
from burnish.journal.once import DirectEffects
from burnish.metrics.computed import DistinctPhrases
from burnish.testing.doubles import check_metric

PROSE = """Read the task before you write. Name the reader, say what the text is for, and keep to
one idea a paragraph. Prefer short words; where a long one is right, explain it once. When you are
done, cut what the reader does not need, and check every number against its source."""
CASE = Case.single("write")


async def scored(text: str, size: int = 3) -> Score:
    metric, outcome = DistinctPhrases(size=size), Outcome(replies=(text,))
    [score] = await metric.score(CASE, outcome, effects=DirectEffects())
    return score


async def test_it_keeps_the_contract_of_metrics() -> None:
    await check_metric(DistinctPhrases(), CASE, [Outcome(replies=(PROSE * 2,))])


async def test_prose_repeats_little_and_stuffing_much() -> None:
    assert (await scored(PROSE)).value == 1.0
    stuffed = await scored(PROSE + " clear and concise and helpful" * 20)
    assert stuffed.value is not None
    assert stuffed.value < 0.6
    assert "'clear and concise' 20 times" in stuffed.reason


@pytest.mark.parametrize(("text", "value"), [("", 1.0), ("one two", 1.0), ("a b a b a b", 0.5)])
async def test_short_texts(text: str, value: float) -> None:
    assert (await scored(text)).value == value


async def test_case_and_punctuation_do_not_count() -> None:
    assert (await scored("Do it now! do it, NOW", size=3)).value == pytest.approx(0.75)


def test_a_size_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be counted"):
        DistinctPhrases(size=0)
