"""Groundedness, relevance, coherence, fluency: 1 to 5 never leaks out of [0, 1]."""

from dataclasses import replace

import pytest

from burnish.core.errors import ConfigError
from burnish.metrics.geval import Fluency, QualityJudge
from tests.metrics.judge_bench import KINDS, panel, prompt, said, score, scripted

NAMES = ["groundedness", "relevance", "coherence", "fluency"]


def fluency(given: int, threshold: float | None = None) -> Fluency:
    asked = panel(said(reasoning="some faults", score=given))
    return Fluency(panel=asked, prompt=prompt("judge_fluency"), threshold=threshold)


@pytest.mark.parametrize(("given", "value"), [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75), (5, 1.0)])
async def test_a_score_is_brought_to_a_share_and_the_raw_one_kept(given: int, value: float) -> None:
    found = await score(fluency(given))
    assert (found.value, found.details) == (value, {"raw": given})
    assert found.reason == ("" if given == 5 else f"{given} of 5: some faults")


@pytest.mark.parametrize(
    ("threshold", "given", "passed"),
    [
        (None, 3, None),
        (None, 2, None),
        (0.75, 4, True),
        (0.75, 3, False),
        (4.0, 4, True),
        (4.0, 3, False),
        (3.5, 4, True),
        (3.5, 3, False),
        (1.0, 4, False),
        (1.0, 5, True),
        (0.0, 1, True),
        (5.0, 4, False),
        (5.0, 5, True),
    ],
)
async def test_a_threshold_may_be_on_either_scale(
    threshold: float | None, given: int, passed: bool | None
) -> None:
    assert (await score(fluency(given, threshold))).passed is passed


@pytest.mark.parametrize("threshold", [-1.0, 5.1, float("nan")])
def test_a_threshold_on_no_scale_is_refused(threshold: float) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1, or above 1 and up to 5"):
        fluency(3, threshold)


@pytest.mark.parametrize("name", NAMES)
async def test_rules_of_the_project_go_with_the_instructions(name: str) -> None:
    backend = scripted(said(reasoning="r", score=5))
    plain = KINDS[name].make(panel(backend))
    assert isinstance(plain, QualityJudge)
    own = replace(plain, custom_prompt="Rhymes are faults.")
    await score(plain)
    await score(own)
    assert "where they differ:\n(none)\n" in backend.asked[0].messages[0].content
    assert "where they differ:\nRhymes are faults.\n" in backend.asked[1].messages[0].content
    assert plain.fingerprint != own.fingerprint
