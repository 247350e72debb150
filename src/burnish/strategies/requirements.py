"""What is settled before a search: shared settings, the baseline it needs, accepts by luck."""

import math
import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from burnish.core.comparisons import commonest_reason, silent_metrics, unmeasured
from burnish.core.content import stream
from burnish.core.errors import BaselineUnmeasured
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.formatting import counted
from burnish.core.protocols import DescribedMetric, Metric
from burnish.journal.limits import Budget
from burnish.runs.evaluation import Conditions
from burnish.runs.events import ALARM, Warned
from burnish.runs.run import Run

# -- Settings that several strategies share --------------------------------------------------------


_PATIENCE = 10
"""Trials in a row without an accept that end a search which nothing else would end."""
_GOALS = ("score_threshold", "pass_rate_threshold", "required_metrics", "metric_thresholds")


def budget_with_an_end(budget: Budget) -> tuple[Budget, tuple[str, ...]]:
    """The budget, with patience if nothing else would end the search, and a note about that.

    A model that writes never runs out of words, and a goal may never be reached.
    """
    limits = [getattr(budget, each.name) for each in fields(budget) if each.name not in _GOALS]
    if any(limit is not None for limit in limits):
        return budget, ()
    note = f"the search ends after {_PATIENCE} trials in a row without an accept"
    return replace(budget, patience=_PATIENCE), (f"no limit is set: {note}",)


# -- The baseline ----------------------------------------------------------------------------------


_UNMEASURED = (
    "nothing can be compared with it, so nothing was tried. Fix the cause, then start a new run "
    "that retries what is missing: --fork RUN --retry-missing"
)
_SILENT = (
    "a loss without it would not be the one that was asked for, so nothing was tried. Remove it "
    "from the loss, or give the cases what it needs"
)
_CRASHED = (
    "every candidate would fail in the same way, and no model of this search can change that, so "
    "nothing was tried. Run one case with `burnish eval` and mend the agent first"
)


def require_baseline(
    run: Run, *sides: Evaluation | None, max_missing: float, primary: str = ""
) -> None:
    """Raise BaselineUnmeasured if the search has nothing to start from.

    An agent whose answers are all of no use is measured: it scores 0. But the user should know at
    once, and only a proposer that reads the errors can mend it. Where a single number decides, a
    scorer that does not run has measured nothing.
    """
    require_measured(*sides, conditions=run.setup, max_missing=max_missing, primary=primary)
    crashed = [side for side in sides if side is not None and _crash(side)]
    if not crashed:
        return
    # Numbers and choices are moved by no model that could read the error.
    reads = bool(run.setup.strategy.roles)
    hopeless = [side for side in crashed if not reads or (primary and not _is_mendable(side))]
    if hopeless and not run.replaying:
        raise BaselineUnmeasured(_crash(hopeless[0]), remedy=_CRASHED)
    message = f"{_crash(crashed[0])}. The search tries to mend that"
    run.tell(Warned(message=message), f"{ALARM}:baseline")


def require_measured(
    *sides: Evaluation | None, conditions: Conditions, max_missing: float, primary: str = ""
) -> None:
    """Raise BaselineUnmeasured if nothing can be compared with the baseline.

    `sides` are its evaluations, one per split; `primary` is the number to compare if it is not
    the loss.
    """
    objective = conditions.objective
    for side in sides:
        if side is None:
            continue
        why = unmeasured(side, objective, max_missing=max_missing, primary=primary)
        if not why:
            continue
        silent = silent_metrics(side, objective.weights)
        needs = [f"; {needed}" for m in conditions.metrics if (needed := _needs(m, silent))]
        raise BaselineUnmeasured(
            f"the baseline could not be measured: {why}{''.join(needs)}",
            remedy=_SILENT if needs else _UNMEASURED,
        )


def _crash(side: Evaluation) -> str:
    """How the agent failed if it did so in every run; empty if one went well or is missing."""
    failures = {r.case: r.outcome.failure for r in side.results if r.outcome.failed}
    if not side.results or not all(result.outcome.failed for result in side.results):
        return ""
    common = commonest_reason(failure.message for failure in failures.values() if failure)
    return f"the agent failed on every case of {side.split.value}, in {common}"


def _is_mendable(side: Evaluation) -> bool:
    """Whether another candidate could avoid a failure of this evaluation."""
    failures = (result.outcome.failure for result in side.results)
    return any(failure is not None and failure.mendable for failure in failures)


def _needs(metric: Metric, silent: Collection[str]) -> str:
    """What a metric that is silent needs, if it says so."""
    needs = metric.needs if isinstance(metric, DescribedMetric) and metric.name in silent else ""
    return f"{metric.name} needs {needs}" if needs else ""


def broken_constraints(evaluation: Evaluation, objective: Objective) -> tuple[str, ...]:
    """The constraints that an evaluation breaks, each with its number."""
    values = objective.measure(evaluation).values
    return tuple(
        f"{each}: {each.metric} is {values[each.metric]:g} on {evaluation.split.value}"
        for each in objective.constraints
        if each.holds(values) is False
    )


def check_constraints(run: Run, *sides: Evaluation | None, subject: str, meanwhile: str) -> None:
    """Raise if a constraint can never hold; warn if the baseline breaks one.

    `sides` are the baseline's evaluations, `subject` is what it is in words, and `meanwhile` says
    what is accepted until all constraints hold.
    """
    objective, measured = run.objective, [side for side in sides if side is not None]
    breakers = [each.metric for each in objective.tie_breakers]
    for side in measured:
        absent = _not_returned(side, objective, objective.constrained_names)
        # A run that went on before there was this check goes on.
        if absent and not run.replaying:
            raise BaselineUnmeasured(
                f"{absent}: no edit could keep the constraints",
                remedy="name one of these, or let the scorer return it",
            )
        if absent := _not_returned(side, objective, breakers):
            message = f"{absent}: this tie-breaker decides nothing"
            run.tell(Warned(message=message), f"baseline:{side.split.value}:breakers")
    if broken := [words for side in measured for words in broken_constraints(side, objective)]:
        message = f"{subject} break a constraint ({'; '.join(broken)}): {meanwhile}"
        run.tell(Warned(message=message), "baseline:constraints")


def left_behind(evaluation: Evaluation) -> str:
    """What the last run wrote that no scorer gets, in words, if its log says so."""
    log = evaluation.results[-1].outcome.data if evaluation.results else None
    runner = log.get("runner") if isinstance(log, dict) else None
    words = runner.get("left_behind") if isinstance(runner, dict) else None
    return words if isinstance(words, str) else ""


def tell_left_behind(run: Run, *sides: Evaluation | None) -> None:
    """Warn if the baseline's scorer may miss a file; one that failed says so itself."""
    for side in sides:
        if side is not None and not side.failed_cases() and (words := left_behind(side)):
            run.tell(Warned(message=f"of what the runner writes, {words}"), "baseline:left_behind")
            return


def _not_returned(evaluation: Evaluation, objective: Objective, names: Iterable[str]) -> str:
    """Which of these numbers the scorer did not return; empty if none, or if it did not run."""
    values = objective.measure(evaluation).values
    absent = [f"'{name}'" for name in dict.fromkeys(names) if name not in values]
    if not absent or evaluation.failed_cases():
        return ""
    there = ", ".join(sorted(values))
    split = evaluation.split.value
    return f"the scorer does not return {', '.join(absent)} (on {split}); there are: {there}"


# -- False accepts ---------------------------------------------------------------------------------


_RUNS, _NORMAL_RUNS = 600, 240
"""Simulated runs: the rates are good to about two percentage points, with normal noise to three."""
_MOST_SIGMA, _SIGMA_STEP = 6.0, 0.25
_MOST_GAIN, _GAIN_STEP = 0.5, 0.01
_MOST_REPEATS = 16
AIM = 0.05
"""The share of runs with a false accept that is still acceptable."""


_Sweeps: TypeAlias = tuple[float, float]
"""Passed cases of all repeats together, and their variance over the repeats, times repeats²."""


_Luck: TypeAlias = tuple[float, float]
"""The lowest and the highest bar under which one null edit is accepted."""
_TIE = -1e-9
"""The highest bar that a tie clears: it passes where something may be lost."""


@dataclass(frozen=True, kw_only=True)
class NullRuns:
    """Runs in which no edit changes anything, decided by a gate.

    Every case passes half of the time, independently of the others and of its repeats. That is as
    noisy as a pass or fail can be; the rates hardly depend on it where the bar is made of the
    noise itself.
    """

    train: int
    """Cases; 0 if nothing is decided on train."""
    holdout: int
    """Cases; 0 if nothing is decided on holdout."""
    repeats: int
    trials: int
    """Trials of a run, each compared with the baseline."""
    holdout_gains: bool = False
    """Whether holdout must be better, too; else it must not be worse."""
    unit: Literal["noise", "score"] = "noise"
    """What the bar of a gate counts: times the noise of both sides, or the mean score."""
    normal: bool = False
    """Whether a split gives one number with normal noise, of any size, and no passes."""
    seed: int = 0

    @cached_property
    def _runs(self) -> list[list[_Luck]]:
        rng = stream(self.seed, "false accepts")
        return [self._run(rng) for _ in range(_NORMAL_RUNS if self.normal else _RUNS)]

    def _run(self, rng: random.Random) -> list[_Luck]:
        train = self._sweeps(rng, self.train)
        holdout = self._sweeps(rng, self.holdout)
        return [self._trial(rng, train, holdout) for _ in range(self.trials)]

    def _trial(self, rng: random.Random, train: _Sweeps, holdout: _Sweeps) -> _Luck:
        high = math.inf
        if self.train:
            high = self._gain(self._sweeps(rng, self.train), train, self.train)
        if not self.holdout or high <= 0:
            return -math.inf, high
        held = self._gain(self._sweeps(rng, self.holdout), holdout, self.holdout)
        if self.holdout_gains:
            # These gates ask for more than their bar; those for a score, for as much.
            return -math.inf, min(high, held) - (1e-9 if self.unit == "noise" else 0.0)
        return 0.0 if held == _TIE else -held, high

    def _sweeps(self, rng: random.Random, cases: int) -> _Sweeps:
        repeats = self.repeats
        if not cases:
            return 0, 0
        if self.normal:
            apart = rng.gammavariate((repeats - 1) / 2, 2.0) if repeats > 1 else 0.0
            return rng.gauss(0.0, math.sqrt(repeats)), repeats * apart
        passed = [rng.getrandbits(cases).bit_count() for _ in range(repeats)]
        whole = sum(passed)
        return whole, repeats * sum(count * count for count in passed) - whole * whole

    def _gain(self, new: _Sweeps, old: _Sweeps, cases: int) -> float:
        """The gain in the unit of the bar; infinite for a gain without noise."""
        gain, noise = new[0] - old[0], new[1] + old[1]
        if not gain:
            return _TIE
        if self.unit == "score":
            return round(gain / (cases * self.repeats), 9)
        return gain / math.sqrt(noise) if noise else math.copysign(math.inf, gain)

    def per_trial(self, bar: float) -> float:
        """The share of trials that are accepted."""
        lucks = [luck for run in self._runs for luck in run]
        return sum(low <= bar <= high for low, high in lucks) / len(lucks)

    def per_run(self, bar: float) -> float:
        """The share of runs that accept anything."""
        runs = self._runs
        return sum(any(low <= bar <= high for low, high in run) for run in runs) / len(runs)


@dataclass(frozen=True, kw_only=True)
class FalseAccepts:
    """The share of null edits, and of runs of them, that are accepted; and how to have fewer."""

    trials: int
    per_trial: float
    per_run: float
    sigma: float | None = None
    """The least bar that gives AIM per run at these repeats, if one does."""
    repeats: int | None = None
    """The least repeats that give it at this bar, if any do."""
    setting: Annotated[str, Field(exclude_if=lambda name: name == "accept_sigma")] = "accept_sigma"
    """The setting that is the bar."""

    @property
    def words(self) -> str:
        """`an edit that changes nothing is accepted in 10 % of trials, …`."""
        share = f"{_percent(self.per_trial)} of trials, and in {_percent(self.per_run)} of runs"
        length = counted(self.trials, "trial")
        words = f"an edit that changes nothing is accepted in {share} of {length}"
        ways = [f"{self.setting} {self.sigma:g}"] if self.sigma is not None else []
        ways += [f"repeats {self.repeats}"] if self.repeats is not None else []
        if self.per_run <= AIM:
            return words
        return f"{words}; {_percent(AIM)} of runs takes {' or '.join(ways) or 'more cases'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "under 1 %"


@lru_cache(maxsize=32)  # A plan and its run ask for the same.
def false_accepts(runs: NullRuns, bar: float) -> FalseAccepts:
    """The rates of a run, and the settings that would give AIM."""
    by_score = runs.unit == "score"
    most, step = (_MOST_GAIN, _GAIN_STEP) if by_score else (_MOST_SIGMA, _SIGMA_STEP)
    bars = (round(bar + step * number, 9) for number in range(round((most - bar) / step) + 1))
    enough = (each for each in bars if runs.per_run(each) <= AIM)
    return FalseAccepts(
        trials=runs.trials,
        per_trial=runs.per_trial(bar),
        per_run=runs.per_run(bar),
        sigma=next(enough, None) if runs.repeats > 1 or by_score else None,
        repeats=_enough_repeats(runs, bar),
        setting="min_score_gain" if by_score else "accept_sigma",
    )


def _enough_repeats(runs: NullRuns, bar: float) -> int | None:
    """The least repeats that give AIM; more repeats never accept more often, so it bisects."""
    low, high = runs.repeats, _MOST_REPEATS
    if low >= high or replace(runs, repeats=high).per_run(bar) > AIM:
        return None
    while low < high:
        middle = (low + high) // 2
        if replace(runs, repeats=middle).per_run(bar) <= AIM:
            high = middle
        else:
            low = middle + 1
    return high
