"""The verdict on a run for the top of its page: the claim, its picture, and what to do about it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.core.formatting import number
from burnish.core.statistics import Interval
from burnish.runs.claims import claim_words, opinion_words
from burnish.runs.directory import RunRecord
from burnish.runs.events import Claim, TextWithheld, Withheld, read_all
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import alarms

Tone: TypeAlias = Literal["good", "bad", "open"]

_TITLES: dict[str, tuple[str, Tone]] = {
    "improved": ("Improved", "good"),
    "worse": ("Worse than the baseline", "bad"),
    "not shown": ("No gain is shown", "open"),
    "unchanged": ("Nothing better was found", "open"),
}
_WIDTH, _EDGE = 600.0, 40.0
"""Of the picture, in its own units."""


@dataclass(frozen=True, kw_only=True)
class IntervalPicture:
    """Where zero, the mean and the ends of an interval are on a line."""

    zero: float
    low: float
    mean: float
    high: float

    @classmethod
    def of(cls, gain: Interval) -> "IntervalPicture":
        least, most = min(0.0, gain.low), max(0.0, gain.high)
        scale = (_WIDTH - 2 * _EDGE) / ((most - least) or 1.0)

        def place(value: float) -> float:
            return round(_EDGE + (value - least) * scale, 1)

        return cls(
            zero=place(0.0), low=place(gain.low), mean=place(gain.mean), high=place(gain.high)
        )


@dataclass(frozen=True, kw_only=True)
class VerdictCard:
    """What a reader should know first."""

    title: str
    tone: Tone
    words: str
    """The claim in one sentence."""
    meaning: str
    """What its numbers mean."""
    advice: str
    """Whether to adopt, and why not."""
    name: str = "score"
    before: float | None = None
    after: float | None = None
    gain: Interval | None = None
    warnings: tuple[str, ...] = ()

    @property
    def picture(self) -> IntervalPicture | None:
        return None if self.gain is None else IntervalPicture.of(self.gain)

    @property
    def adopt(self) -> bool:
        return self.tone == "good"


def verdict_card(run: RunRecord) -> VerdictCard:
    """The verdict on a run, as its claim allows it."""
    claim, warnings = run.claim, _warnings(run)
    if claim is None:
        return VerdictCard(
            title="Nothing is measured yet" if run.driven else "Nothing was measured",
            tone="open",
            words="The baseline is measured first."
            if run.driven
            else "This run has no measured baseline.",
            meaning="",
            advice="" if run.driven else "There is nothing to adopt.",
            warnings=warnings,
        )
    if not run.trials and claim.verdict == "unchanged":
        return VerdictCard(
            title="Measured once",
            tone="open",
            words="No other candidate was tried, so nothing was compared.",
            meaning="",
            advice="There is nothing to adopt.",
            name=claim.primary or "score",
            after=claim.best_score,
            warnings=warnings,
        )
    title, tone = _TITLES[claim.verdict]
    if claim.basis == "selected on holdout" and claim.verdict == "not shown":
        title = "Better where it was chosen"
    if run.second_opinion is not None and not run.second_opinion.agrees:
        tone = "bad" if tone == "bad" else "open"
    words = claim_words(claim)
    return VerdictCard(
        title=title,
        tone=tone,
        words=f"{words[:1].upper()}{words[1:]}.",
        meaning=_meaning(claim),
        advice=_advice(run, claim),
        name=claim.primary or "score",
        before=claim.baseline_score,
        after=claim.best_score,
        gain=claim.gain,
        warnings=warnings,
    )


def _meaning(claim: Claim) -> str:
    gain = claim.gain
    if gain is None:
        return ""
    line = (
        f"Over {gain.cases} cases the best is {number(gain.mean)} ahead of the baseline. "
        f"The true difference is between {number(gain.low)} and {number(gain.high)} "
        "with 95 % confidence"
    )
    if gain.low > 0:
        return f"{line}: all of that is above zero."
    if gain.high < 0:
        return f"{line}: all of that is below zero."
    return f"{line}: that includes zero, so this may be chance."


def _advice(run: RunRecord, claim: Claim) -> str:
    if claim.verdict == "unchanged":
        return "There is nothing to adopt: your current version stays."
    if claim.verdict == "worse":
        return "Do not adopt this: it is worse than what you have."
    if run.second_opinion is not None and not run.second_opinion.agrees:
        return "Read some answers first: the second judge does not see a gain."
    if claim.verdict == "improved" and claim.basis == "sealed test":
        return "Adopt it: cases that the search never saw show a gain."
    if claim.verdict == "improved":
        return (
            "Adopt it if these cases are like those in production: fresh answers show a gain, on "
            "cases that the search has seen."
        )
    if claim.basis == "selected on holdout" and strategy_plugin(run.header.strategy).over:
        # One task by nature: there are no other cases to measure it on.
        return "Read the result before you use it: the grades that chose it are too optimistic."
    if claim.basis == "selected on holdout":
        return (
            "Measure it before you rely on it: the scores that chose this result are too "
            "optimistic. A sealed test would show what it is worth."
        )
    return (
        "Do not adopt it on this evidence. More cases in the test, or more repeats, would show a "
        "gain if there is one."
    )


def _warnings(run: RunRecord) -> tuple[str, ...]:
    opinion = run.second_opinion
    return (
        *([opinion_words(opinion)] if opinion is not None and not opinion.agrees else []),
        *(withheld.words for withheld in read_all(run.events, Withheld)),
        *(withheld.words for withheld in read_all(run.events, TextWithheld)),
        *alarms(run),
    )
