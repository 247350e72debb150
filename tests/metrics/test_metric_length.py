"""Length compliance: 1 where one likes it, one half where one can live with it, else 0."""

from collections.abc import Callable

import pytest

from burnish.core.errors import ConfigError
from burnish.metrics.computed import Length, LengthCompliance
from tests.metrics.exchange_of import exchange_of, verdict_of

BOTH = LengthCompliance(min=10, max=40, preferred_min=20, preferred_max=30)
PLAIN = LengthCompliance(min=10, max=40)


@pytest.mark.parametrize(
    ("metric", "length", "score", "words"),
    [
        (BOTH, 20, 1, ""),
        (BOTH, 30, 1, ""),
        (BOTH, 31, 0.5, "too long: 31 characters, expected 20 to 30; cut 1 character (10 to 40"),
        (BOTH, 10, 0.5, "too short: 10 characters, expected 20 to 30; add 10 characters (10 to 40"),
        (BOTH, 40, 0.5, "cut 10 characters"),
        (BOTH, 41, 0, "cut 11 characters (10 to 40 would be accepted, for half the score)"),
        (BOTH, 9, 0, "add 11 characters"),
        (PLAIN, 10, 1, ""),
        (PLAIN, 40, 1, ""),
        (PLAIN, 9, 0, "too short: 9 characters, expected 10 to 40; add 1 character"),
        (PLAIN, 50, 0, "too long: 50 characters, expected 10 to 40; cut 10 characters"),
        (LengthCompliance(max=5, preferred_max=3), 4, 0.5, "expected at most 3; cut 1 character"),
        (LengthCompliance(min=5), 1000, 1, ""),
        (LengthCompliance(min=5), 0, 0, "add 5 characters"),
        (LengthCompliance(), 0, 1, ""),
    ],
)
def test_scores(metric: LengthCompliance, length: int, score: float, words: str) -> None:
    verdict = verdict_of(metric, exchange_of(f"  {'é' * length}\n"))
    assert verdict.value == score
    assert words in verdict.reason
    assert bool(verdict.reason) == (score < 1)
    assert verdict.details["length"] == length


def test_code_points_are_counted() -> None:
    assert verdict_of(LengthCompliance(max=5), exchange_of("👨\u200d👩\u200d👧")).value == 1
    assert verdict_of(LengthCompliance(max=4), exchange_of("👨\u200d👩\u200d👧")).value == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Length(min=5, max=3), "min 5 is greater than max 3"),
        (lambda: LengthCompliance(min=5, max=3), "min 5 is greater than max 3"),
        (lambda: LengthCompliance(preferred_min=5, preferred_max=3), "preferred: min 5"),
        (lambda: LengthCompliance(max=10, preferred_max=20), "but the accepted one is at most 10"),
    ],
)
def test_bounds_that_cannot_be_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()
