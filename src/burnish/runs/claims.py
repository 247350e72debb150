"""What a run may say of its winner, and the words for it. Every page and view takes them here."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from burnish.core.errors import NotImproved
from burnish.core.formatting import counted, listed, number
from burnish.core.statistics import Interval, paired_interval
from burnish.core.trials import SplitResult, TrialRow
from burnish.runs.events import Claim, ClaimBasis, ClaimVerdict, SealedResult, SecondOpinion

_BASES: tuple[ClaimBasis, ...] = ("selected on holdout", "fresh draws", "sealed test")
"""The weakest first."""
_TITLES: dict[ClaimVerdict, str] = {
    "improved": "Improved",
    "worse": "Worse than the baseline",
    "not shown": "Not sure",
    "unchanged": "Nothing better was found",
    "looked at before": "Looked at before",
}
NO_SPREAD = "one case that is run once shows no spread"
LOOKED_AT_BEFORE = (
    "an earlier run, from which this one was forked, had read the sealed test, so it shows no "
    "gain: only other cases can"
)


def _verdict_of(gain: Interval | None) -> ClaimVerdict:
    """What an interval shows of a gain."""
    if gain is None or not gain.distinguishable:
        return "not shown"
    return "improved" if gain.low > 0 else "worse"


def conclusion(
    gain: Interval | None, *, fault: str, unchecked: str, forgeable: Sequence[str] | None
) -> tuple[ClaimVerdict, str]:
    """The verdict on a changed candidate and the reason, if it is not the interval alone.

    `fault` makes it worse whatever the interval shows; with `unchecked`, nobody can tell whether it
    keeps every constraint, or too much is missing; numbers that are `forgeable` may be the
    candidate's own. So no gain is claimed.
    """
    verdict = _verdict_of(gain)
    if fault:
        return "worse", fault
    if forgeable and verdict != "worse":
        return "not shown", forgeable_words(forgeable)
    if unchecked and verdict != "worse":
        return "not shown", unchecked
    return verdict, NO_SPREAD if gain is None else ""


def forgeable_words(names: Sequence[str]) -> str:
    """Why numbers show no gain that code of the candidate could have written."""
    are = "is" if len(names) == 1 else "are"
    return f"{listed(names)} {are} measured by the candidate's own process"


def second_look(sealed: SealedResult) -> SealedResult:
    """The result of a sealed test that an earlier run had read: scores, and no gain."""
    return replace(sealed, gain=None, score_change=None, looked_at_before=True)


def sealed_claim(sealed: SealedResult, candidate: str, *, changed: bool) -> Claim:
    """The claim of a run with a sealed test; `changed` says whether the best is a new candidate."""
    gain = sealed.gain
    if gain is not None and gain.low == gain.high and gain.cases > 1:
        # Of a run from when equal gains over cases had an interval without width.
        gain = paired_interval([gain.mean] * gain.cases)
    fault = sealed.fault or ""
    verdict, reason = conclusion(
        gain, fault=fault, unchecked=sealed.unchecked or "", forgeable=sealed.forgeable
    )
    if sealed.looked_at_before:
        verdict, reason = "looked at before", "; ".join(filter(None, (fault, LOOKED_AT_BEFORE)))
    return Claim(
        candidate=candidate,
        basis="sealed test",
        split="test",
        baseline_score=sealed.baseline_score,
        best_score=sealed.best_score,
        gain=gain,
        primary=sealed.primary or "",
        missing=sealed.missing,
        verdict=verdict if changed else "unchanged",
        reason=reason if changed else "",
        score_change=sealed.score_change,
        margin=sealed.margin,
        forgeable=sealed.forgeable,
    )


def strongest(claims: Iterable[Claim], candidate: str) -> Claim | None:
    """Of the claims about a candidate, the one with the best basis; of equal ones the last."""
    own = [claim for claim in claims if claim.candidate == candidate]
    return max(reversed(own), key=lambda claim: _BASES.index(claim.basis), default=None)


def claim_of_rows(
    baseline: TrialRow | None,
    best: TrialRow | None,
    *,
    claims: Sequence[Claim],
    sealed: SealedResult | None,
    reason: str = "",
) -> Claim | None:
    """The claim about the best trial of a run, also of one that has recorded none.

    `reason` says why nothing was measured at its end.
    """
    if baseline is None or best is None:
        return None
    winner, changed = best.trial.candidate.id, best is not baseline
    if changed and (claim := strongest(claims, winner)) is not None:
        return claim
    if sealed is not None:
        return sealed_claim(sealed, winner, changed=changed)
    held = best.trial.holdout is not None
    scores = [_score(row.trial.holdout if held else row.trial.train) for row in (baseline, best)]
    return Claim(
        candidate=winner,
        split="holdout" if held else "train",
        baseline_score=scores[0],
        best_score=scores[1],
        verdict="not shown" if changed else "unchanged",
        reason=reason,
    )


def _score(result: SplitResult | None) -> float | None:
    return None if result is None else result.measurement.score


def require_improved(claim: Claim | None) -> None:
    """Raise unless the claim of a run that ended is a gain, by the sealed test or fresh draws."""
    if claim is None:
        raise NotImproved("required: improved; nothing was measured")
    if claim.verdict == "improved":
        return
    title = verdict_title(claim)
    numbers = "" if claim.verdict == "unchanged" else f": {claim_words(claim)}"
    raise NotImproved(f"required: improved; the run says {title[0].lower()}{title[1:]}{numbers}")


def claim_words(claim: Claim) -> str:
    """The claim in one line: where it was measured, the numbers, and what they show."""
    lost = f", {counted(claim.missing, 'case')} missing" if claim.missing else ""
    where, scores = _claim_label(claim), _scores_words(claim)
    why = f"; {claim.reason}" if claim.reason else ""
    if claim.verdict == "unchanged":
        here = claim.basis == "sealed test"
        return f"{where}: {scores}{lost}" if here else f"unchanged: the baseline stays{why}"
    if claim.basis == "selected on holdout":
        known = claim.baseline_score is not None or claim.best_score is not None
        numbers = f": {scores}{lost}" if known else ""
        return f"{where}{numbers}, optimistic since these scores chose the result{why}"
    if claim.verdict == "looked at before":
        return f"{where}: {scores}{lost}{why}"
    return f"{where}: {scores}{lost}, {_verdict_words(claim)}"


def _claim_label(claim: Claim) -> str:
    """What the claim rests on, in a few words."""
    if claim.verdict == "looked at before":
        return "sealed test, looked at before"
    if claim.basis == "sealed test":
        return "sealed test, looked at once"
    if claim.basis == "fresh draws":
        return f"measured again on fresh draws of {claim.split}"
    return f"selected on {claim.split}"


def _scores_words(claim: Claim) -> str:
    before, after = number(claim.baseline_score), number(claim.best_score)
    name = claim.primary or "score"
    if claim.verdict == "unchanged" and claim.baseline_score == claim.best_score:
        return f"{name} {before}, baseline and best alike"
    words = f"{name} {before} → {after}"
    if (gain := claim.gain) is None:
        return words
    if claim.margin is None:
        return f"{words}   gain {_interval_words(gain)}"
    words = f"{words}   saved {_interval_words(gain)}"
    if claim.score_change is None:
        return words
    return f"{words}; score {_interval_words(claim.score_change)}"


def _interval_words(interval: Interval) -> str:
    return f"{number(interval.mean)} [{number(interval.low)}, {number(interval.high)}]"


def _verdict_words(claim: Claim) -> str:
    if claim.verdict == "improved":
        within = "a saving, and the score loses"
        return "improved" if claim.margin is None else f"{within} no more than {claim.margin:g}"
    if claim.verdict == "worse":
        return f"worse than the baseline{f': {claim.reason}' if claim.reason else ''}"
    if claim.gain is None or claim.reason:
        return f"not sure: {claim.reason or 'there are too few cases'}"
    return "not distinguishable from noise"


def verdict_title(claim: Claim) -> str:
    """The verdict as a title."""
    if _is_selected(claim):
        return "Better where it was chosen"
    return _TITLES[claim.verdict]


def verdict_cell(claim: Claim | None, *, over: bool = True) -> str:
    """The verdict in one or two words, for a cell of a table."""
    # A search that was cut off has not said that nothing is better.
    if claim is None or not (over or claim.verdict != "unchanged"):
        return "—"
    if _is_selected(claim):
        return "selected"
    return "not sure" if claim.verdict == "not shown" else claim.verdict


def _is_selected(claim: Claim) -> bool:
    """Whether all that speaks for the winner are numbers that chose it."""
    selected = claim.basis == "selected on holdout" and claim.verdict != "unchanged"
    return selected and not claim.forgeable


def claim_summary(claim: Claim | None) -> str:
    """The claim without scores and reasons, for a comparison of runs."""
    if claim is None or claim.verdict == "unchanged":
        return verdict_cell(claim)
    if claim.gain is None:
        return _claim_label(claim) + (", not sure" if claim.forgeable else "")
    what = "gain" if claim.margin is None else f"saved {claim.primary},"
    return f"{claim.basis}: {what} {_interval_words(claim.gain)}, {verdict_cell(claim)}"


def sealed_words(sealed: SealedResult) -> str:
    """The result of the sealed test in one line, and whether it is distinguishable from noise."""
    # Without an interval and with equal scores, baseline and best are the same candidate.
    changed = sealed.gain is not None or sealed.baseline_score != sealed.best_score
    again = bool(sealed.looked_at_before)
    return claim_words(sealed_claim(sealed, "", changed=changed or again))


def opinion_words(opinion: SecondOpinion) -> str:
    """The second judge's opinion in one line."""
    before, after = number(opinion.baseline_score), number(opinion.best_score)
    words = f"second judge, on {opinion.split}: score {before} → {after}"
    if opinion.agrees:
        return f"{words}, it agrees that this is a gain"
    return f"{words}: IT DISAGREES, so read some answers before you adopt this"
