"""What is measured once the search is over: a second judge, the sealed test, the winner again."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from burnish.core.cases import Split
from burnish.core.comparisons import (
    Comparison,
    Pair,
    broken_constraint,
    cases,
    commonest_reason,
    compare,
)
from burnish.core.content import short_id
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Penalties, mean
from burnish.core.gates import OfferRule
from burnish.core.protocols import forgeable
from burnish.core.statistics import (
    SAVED_WORDS,
    Interval,
    paired_interval,
    saving,
    unit_of,
    unpaired_interval,
)
from burnish.core.surfaces import EPSILON
from burnish.core.trials import MAX_MISSING, Decision, StopReason, Verdict
from burnish.runs.claims import (
    conclusion,
    forgeable_words,
    sealed_claim,
    second_look,
    strongest,
)
from burnish.runs.events import Claim, SealedResult, SecondOpinion, read_all
from burnish.runs.run import Run

_UNFINISHED = frozenset({"signal", "price_unknown"})
"""Ends of a search after which nothing more is paid."""
_LEAST_VARYING = 0.2
"""The share of cases that must score differently from run to run: on the others fresh draws repeat
the scores that chose the winner."""


@dataclass(frozen=True, kw_only=True)
class FinalResults:
    """What the last measurements of a run show."""

    sealed: SealedResult | None = None
    claim: Claim | None = None


async def measure_winner(run: Run, reason: StopReason) -> FinalResults:
    """Measure baseline and best for the last time, as far as the end of the search allows it."""
    run.confirmations.count_earlier()
    over = reason.code not in _UNFINISHED
    if run.setup.second_metrics and run.changed and over:
        await _second_opinion(run)
    # The test needs a measured baseline, a search that is over, and known prices.
    scored = run.standing.best_score is not None or bool(_primary(run))
    measured = run.standing.tracked_candidates > 0 and scored
    # Of the baseline alone the test would show nothing, and could not be read for a winner later.
    due = run.changed or run.directory.journal.sealed_read
    tested = bool(run.dataset.test) and measured and over and due
    sealed = await _sealed_test(run) if tested else None
    if sealed is None:
        return FinalResults(claim=await _unsealed_claim(run, "" if over else reason.detail))
    claim = sealed_claim(sealed, run.incumbent.id, changed=run.changed)
    if run.changed:
        _tell(run, claim)
    return FinalResults(sealed=sealed, claim=claim)


def unmeasured_baseline(run: Run) -> str:
    """What the baseline failed with if it has no number; empty if it has one."""
    side = run.offers.evaluation(run.target.baseline.id)
    if side is None or _number(side, run) is not None:
        return ""
    failures = (result.outcome.failure for result in side.results)
    reasons = [failure.message for failure in failures if failure is not None]
    return commonest_reason(reasons) or "nothing gave its number"


def without_measuring(run: Run, reason: StopReason) -> FinalResults:
    """The same for a run that was broken off."""
    run.confirmations.count_earlier()
    if not run.changed:
        return FinalResults(claim=_unchanged(run))
    return FinalResults(claim=_selected(run, reason.detail))


async def _second_opinion(run: Run) -> None:
    """Let a second judge look at baseline and best, before the sealed test."""
    repeats = run.setup.test_repeats
    # Runs that were made before are not repeated: only the judge is paid.
    before, after = await run.evaluate_side_by_side(
        (run.target.baseline, run.incumbent),
        split=run.deciding_split,
        draws=range(repeats),
        metrics=run.setup.second_metrics,
    )
    seen = _compare(before, after, run.objective, OfferRule())
    opinion = SecondOpinion(
        split=run.deciding_split.value,
        baseline_score=seen.before,
        best_score=seen.after,
        gain=seen.gain,
    )
    # A resumed run may end with another winner, which needs its own opinion.
    run.tell(opinion, f"second_opinion:{run.incumbent.id}")


async def _sealed_test(run: Run) -> SealedResult:
    sides = (run.target.baseline, run.incumbent) if run.changed else (run.incumbent,)
    draws = range(run.setup.test_repeats)
    measured = await run.evaluate_side_by_side(sides, split=Split.TEST, draws=draws)
    before, after = measured[0], measured[-1]
    seen = _compare(before, after, run.objective, run.offers.rule)
    result = SealedResult(
        baseline_score=seen.before,
        best_score=seen.after,
        gain=seen.gain if run.changed else None,
        missing=seen.missing,
        primary=seen.saves or _primary(run) or None,
        fault=seen.fault or None,
        unchecked=(seen.unchecked or None) if run.changed else None,
        score_change=seen.score_change,
        margin=run.offers.rule.margin if seen.saves else None,
        forgeable=_forgeable(run, Split.TEST),
    )
    if run.directory.header.sealed_test == "spent":
        result = second_look(result)
    run.directory.journal.set_mark("sealed_done", "yes")
    run.tell(result, "sealed_test")
    return result


# -- The claim of a run without a sealed test -----------------------------------------------------


async def _unsealed_claim(run: Run, stopped: str) -> Claim | None:
    """Measure the winner again on draws that no decision has seen, if that is possible."""
    if not run.changed:
        return _unchanged(run)
    if run.dataset.test:
        return _selected(run, f"the sealed test was not read: {stopped or 'nothing was measured'}")
    if not run.confirmations.wanted:
        return _selected(run, "it was not measured again, as set")
    earlier = strongest(read_all(run.directory.events, Claim), run.incumbent.id)
    if earlier is not None and earlier.basis == "fresh draws":
        return earlier  # a search that went on came back to the same winner
    why = stopped or run.confirmations.no_room(run.incumbent.id, run.spent)
    return _selected(run, f"it was not measured again: {why}") if why else await _confirmed(run)


async def confirm(run: Run) -> list[Evaluation]:
    """Run and score baseline and winner on the cases that decided, under draws of the winner's own.

    No gate, proposer or offer sees the results. Models and judges are asked again.
    """
    winner, confirmations = run.incumbent, run.confirmations
    return await run.evaluate_side_by_side(
        (run.target.baseline, winner),
        split=run.deciding_split,
        draws=confirmations.begin(winner.id),
        confirmation=confirmations.name(winner.id),
    )


async def _confirmed(run: Run) -> Claim:
    before, after = await confirm(run)
    sides = (run.target.baseline.id, before), (run.incumbent.id, after)
    earlier = [run.offers.results(candidate) for candidate, _ in sides]
    if all(earlier):
        varying = {
            case
            for seen, (_, side) in zip(earlier, sides, strict=True)
            for case in _varying([*seen, *side.results], _primary(run))
        }
        if why := _nothing_new(len(varying), len(after.cases)):
            return _selected(run, f"measured again, {why}")
    seen = _compare(before, after, run.objective, run.offers.rule)
    own = _forgeable(run, run.deciding_split)
    verdict, reason = conclusion(
        seen.gain, fault=seen.fault, unchecked=seen.unchecked, forgeable=own
    )
    return _tell(
        run,
        Claim(
            candidate=run.incumbent.id,
            basis="fresh draws",
            split=run.deciding_split.value,
            baseline_score=seen.before,
            best_score=seen.after,
            primary=seen.saves or _primary(run),
            gain=seen.gain,
            missing=seen.missing,
            verdict=verdict,
            reason=reason,
            score_change=seen.score_change,
            margin=run.offers.rule.margin if seen.saves else None,
            forgeable=own,
        ),
    )


def _forgeable(run: Run, split: Split) -> tuple[str, ...] | None:
    """The numbers that decide about the winner, and that its own code may have written."""
    objective = run.objective
    numbers = [_primary(run), *objective.weights, *objective.constrained_names]
    cases = run.dataset.cases(split)
    return forgeable(run.target, run.incumbent, cases, filter(None, numbers)) or None


def _unchanged(run: Run) -> Claim | None:
    if not run.standing.tracked_candidates:
        return None
    score = _number(run.offers.evaluation(run.incumbent.id), run)
    return Claim(
        candidate=run.incumbent.id,
        split=run.deciding_split.value,
        baseline_score=score,
        best_score=score,
        primary=_primary(run),
        verdict="unchanged",
    )


def _selected(run: Run, reason: str) -> Claim:
    """A claim that rests on the scores that chose the winner, so that it claims no gain."""
    before, after = (
        _number(run.offers.evaluation(candidate.id), run)
        for candidate in (run.target.baseline, run.incumbent)
    )
    own = _forgeable(run, run.deciding_split)
    claim = Claim(
        candidate=run.incumbent.id,
        split=run.deciding_split.value,
        baseline_score=before,
        best_score=run.standing.best_score if after is None and not _primary(run) else after,
        primary=_primary(run),
        reason=f"{reason}; {forgeable_words(own)}" if own else reason,
        forgeable=own,
    )
    return _tell(run, claim)


def _tell(run: Run, claim: Claim) -> Claim:
    """Store a claim; a resume that comes to the same one does not repeat it."""
    key = f"claim:{claim.candidate}:{short_id([claim.basis, claim.reason])}"
    run.tell(claim, key)
    return strongest(read_all(run.directory.events, Claim), claim.candidate) or claim


def _primary(run: Run) -> str:
    return "" if run.offers.rule.primary == "loss" else run.offers.rule.primary


def _number(side: Evaluation | None, run: Run) -> float | None:
    """The number that decides, of an evaluation: the score, or the primary one."""
    if side is None:
        return None
    measured = run.objective.measure(side)
    return measured.values.get(_primary(run)) if _primary(run) else measured.score


def _varying(results: Iterable[CaseResult], primary: str) -> set[str]:
    """The cases of which two runs under the same candidate scored differently."""
    scores: dict[str, object] = {}
    varying: set[str] = set()
    for result in results:
        if result.outcome.missing or any(score.missing for score in result.scores):
            continue
        values = [(score.metric, score.value) for score in result.scores]
        seen = _number_of(result, primary) if primary else values
        if scores.setdefault(result.case, seen) != seen:
            varying.add(result.case)
    return varying


def _nothing_new(varying: int, whole: int) -> str:
    """Why runs in which so few cases score differently show nothing; empty if enough do."""
    if not varying:
        return "every score is the same, so this shows nothing new"
    if varying >= _LEAST_VARYING * whole:
        return ""
    return f"{whole - varying} of {cases(whole)} score the same, so this shows hardly anything new"


# -- Two evaluations beside each other ------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Compared:
    before: float | None
    after: float | None
    gain: Interval | None
    """None if there are too few cases."""
    missing: int
    fault: str = ""
    """What makes the candidate worse, whatever its number is."""
    unchecked: str = ""
    """Why nobody can tell, whatever the interval shows: a constraint that the baseline keeps could
    not be checked, or too much is missing."""
    saves: str = ""
    """What is compared instead of the score: an amount that is to be saved."""
    score_change: Interval | None = None


def _compare(
    before: Evaluation, after: Evaluation, objective: Objective, rule: OfferRule
) -> _Compared:
    compared = _by_score(before, after, objective, rule)
    return _by_saving(before, after, objective, rule, compared) if rule.saves else compared


def _by_saving(
    before: Evaluation, after: Evaluation, objective: Objective, rule: OfferRule, seen: _Compared
) -> _Compared:
    """What is saved, if the score is shown to stay within the margin."""
    unit = unit_of(before, faster=rule.saves == "faster")
    saved = None if unit is None else saving(after, before, objective, unit)
    if unit is None or saved is None:
        return replace(seen, gain=None, unchecked="what it costs is not known on both sides")
    change, allowed = saved.score, f"{rule.margin:g} may be lost"
    fault, unchecked = seen.fault, seen.unchecked
    if change.high < -rule.margin:
        fault = fault or f"the score falls by {-change.mean:.3f}, {allowed}"
    elif gaps := _gaps_in_score(seen.missing, len(after.cases), change, rule.margin):
        unchecked = unchecked or gaps
    elif not saved.within(rule.margin):
        unchecked = unchecked or f"the score may be lower by {-change.low:.3f}, {allowed}"
    return replace(
        seen,
        before=saved.before,
        after=saved.after,
        gain=saved.saved,
        fault=fault,
        unchecked=unchecked,
        saves=SAVED_WORDS[unit],
        score_change=change,
    )


def _gaps_in_score(gone: int, whole: int, change: Interval, margin: float) -> str:
    """Why missing cases forbid a claim: each of them could have been lost."""
    if gone > MAX_MISSING * whole:
        return f"{gone} of {cases(whole)} are missing, at most {100 * MAX_MISSING:g}% may be"
    if gone and (change.mean * (whole - gone) - gone) / whole < -margin:
        return f"{gone} of {cases(whole)} are missing, and could have turned it"
    return ""


def _by_score(
    before: Evaluation, after: Evaluation, objective: Objective, rule: OfferRule
) -> _Compared:
    primary = "" if rule.primary == "loss" else rule.primary
    also = {primary, *objective.constrained_names} - {""}
    pair = Pair(candidate=after, incumbent=before)
    seen = compare(pair, objective, max_missing=1.0, also=also)
    new, old = seen.pair.candidate, seen.pair.incumbent
    # Of a single case the spread between repeats is all there is.
    single = len(new.cases) == 1
    groups = zip(_sweeps(new), _sweeps(old), strict=True) if single else [(new, old)]
    values = [
        (
            _case_number(now, case, objective, primary),
            _case_number(then, case, objective, primary),
        )
        for now, then in groups
        for case in now.cases
    ]
    pairs = [(now, then) for now, then in values if now is not None and then is not None]
    sign = -1 if primary and rule.direction == "minimize" else 1
    gains = [sign * (now - then) for now, then in pairs]
    reach = max((abs(value) for both in pairs for value in both), default=1.0) if primary else 1.0
    # The draws of one case are no pairs.
    draws = [[sign * value for value in side] for side in zip(*pairs, strict=True)]
    apart = unpaired_interval(*draws) if single and draws else None
    measures = (seen.incumbent, seen.candidate)
    ends = [m.values.get(primary) if primary else m.score for m in measures]
    broken = _newly_broken(seen, objective)
    unknown = broken.reason if broken and broken.verdict is Verdict.CANNOT_TELL else ""
    interval = apart or paired_interval(gains, span=(-reach, reach))
    if interval is None or interval.distinguishable:
        unknown = unknown or _gaps(seen, objective, primary)
    return _Compared(
        before=ends[0],
        after=ends[1],
        gain=interval,
        missing=seen.missing.dropped + seen.missing.lost,
        fault="" if broken is None or broken.verdict is Verdict.CANNOT_TELL else broken.reason,
        unchecked=unknown,
    )


def _gaps(seen: Comparison, objective: Objective, primary: str) -> str:
    """Why the cases that were left out forbid a claim; empty if they do not.

    A candidate may be the reason that a case is missing, so a gain on the others is not enough.
    """
    gone, whole = seen.missing.dropped, seen.missing.dropped + seen.missing.compared
    if gone > MAX_MISSING * whole:
        return f"{gone} of {cases(whole)} are missing, at most {100 * MAX_MISSING:g}% may be"
    # Only losses without a price are bounded.
    bounded = not primary and objective.penalties == Penalties()
    if gone and bounded and seen.possible_gain.low <= EPSILON:
        return f"{gone} of {cases(whole)} are missing, and could have turned it"
    return ""


def _newly_broken(seen: Comparison, objective: Objective) -> Decision | None:
    """The constraint that the baseline keeps, and the candidate does not or may not."""
    broken = broken_constraint("not_worse", objective, *seen.own)
    before = broken_constraint("not_worse", objective, seen.incumbent)
    return broken if before is None else None


def _sweeps(side: Evaluation) -> list[Evaluation]:
    return [
        Evaluation(candidate=side.candidate, split=side.split, results=sweep)
        for sweep in side.sweeps
    ]


def _case_number(side: Evaluation, case: str, objective: Objective, primary: str) -> float | None:
    if not primary:
        return objective.case_score(side, case)
    numbers = [_number_of(result, primary) for result in side.of_case(case)]
    present = [number for number in numbers if number is not None]
    return mean(present) if present and len(present) == len(numbers) else None


def _number_of(result: CaseResult, primary: str) -> float | None:
    here = result.applies(primary)
    return result.value(primary) if here else result.outcome.measures.get(primary)
