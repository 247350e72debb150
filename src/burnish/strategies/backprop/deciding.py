"""Deciding: candidates measured where the gate looks, then held against the incumbent."""

from dataclasses import replace

from burnish.core.candidates import Candidate
from burnish.core.cases import Split
from burnish.core.comparisons import Pair
from burnish.core.decisions import Decision
from burnish.core.evaluations import Evaluation
from burnish.core.gates import guarded, min_gain, sigma, strict
from burnish.core.gates.strict import best_incumbent
from burnish.core.money import Spend
from burnish.runs.run import Run
from burnish.strategies.backprop.rounds import Attempt
from burnish.strategies.backprop.settings import BackpropSettings


class Judge:
    """Knows the incumbent's evaluations, and decides."""

    def __init__(self, run: Run, settings: BackpropSettings) -> None:
        self._run = run
        self._settings = settings
        self._holdout: Evaluation | None = None
        self._train: Evaluation | None = None
        self._best: Evaluation | None = None
        """The incumbent so far that was best on holdout: ties are ties with it."""

    @property
    def score(self) -> float | None:
        """The incumbent's score on holdout."""
        return None if self._holdout is None else self._run.objective.measure(self._holdout).score

    def start(self, candidate: Candidate, holdout: Evaluation) -> None:
        """Where the search starts."""
        assert candidate.id == holdout.candidate
        self._lead(holdout)

    def begin(self, train: Evaluation) -> None:
        """What the incumbent does on train, as a round begins."""
        self._train = train

    def advance(self, attempt: Attempt) -> None:
        """The attempt leads now: the next one of its round is held against it."""
        assert attempt.holdout is not None
        self._lead(attempt.holdout)
        self._train = attempt.train or self._train

    def _lead(self, holdout: Evaluation) -> None:
        self._holdout = holdout
        self._best = best_incumbent(self._best, holdout, objective=self._run.objective)

    @property
    def need(self) -> Spend:
        """What deciding on one candidate may cost."""
        repeats = self._settings.repeats
        holdout = self._run.estimate(Split.HOLDOUT, repeats=repeats)
        if self._settings.gate != "sigma":
            return holdout
        return holdout + self._run.estimate(Split.TRAIN, repeats=repeats)

    async def judged(self, attempt: Attempt) -> Attempt:
        """The attempt, measured and decided on; one with problems as it is."""
        if attempt.problems:
            return attempt
        attempt = replace(attempt, before=self._holdout)
        if self._settings.gate == "sigma":
            train = await self._measured(attempt.candidate, Split.TRAIN)
            attempt = replace(attempt, train=train)
            decision = self._by_sigma(attempt)
            if not decision.accepted:
                return replace(attempt, decision=decision)
        holdout = await self._measured(attempt.candidate, Split.HOLDOUT)
        attempt = replace(attempt, holdout=holdout)
        return replace(attempt, decision=self._decision(attempt))

    def _decision(self, attempt: Attempt) -> Decision:
        assert attempt.holdout is not None
        assert attempt.before is not None
        pair = Pair(candidate=attempt.holdout, incumbent=attempt.before)
        return guarded(
            self._by_gate(attempt, pair),
            pair=pair,
            objective=self._run.objective,
            guards=self._settings.guards.guards(),
        )

    def _by_gate(self, attempt: Attempt, pair: Pair) -> Decision:
        settings, objective = self._settings, self._run.objective
        if settings.gate == "sigma":
            return self._by_sigma(attempt, pair)
        if settings.gate == "strict":
            return strict(
                objective=objective,
                pair=pair,
                best=self._best,
                accept_sigma=settings.accept_sigma,
            )
        return min_gain(objective=objective, validation=pair, gain=settings.min_score_gain)

    def _by_sigma(self, attempt: Attempt, holdout: Pair | None = None) -> Decision:
        assert attempt.train is not None
        assert self._train is not None
        return sigma(
            objective=self._run.objective,
            train=Pair(candidate=attempt.train, incumbent=self._train),
            holdout=holdout,
            accept_sigma=self._settings.accept_sigma,
        )

    async def _measured(self, candidate: Candidate, split: Split) -> Evaluation:
        return await self._run.evaluate(candidate, split=split, repeats=self._settings.repeats)
