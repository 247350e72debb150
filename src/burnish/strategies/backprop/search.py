"""The search: rounds, decisions, and the stages that others watch."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, TypeAlias

from burnish.core.cases import Split
from burnish.core.comparisons import Pair
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import guarded, min_gain, sigma
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Role
from burnish.core.strict_gate import best_incumbent, strict
from burnish.core.structures import Structured
from burnish.core.surfaces import EPSILON, Candidate, Origin
from burnish.core.trials import MAX_MISSING, Decision, SplitResult, Trial
from burnish.runs.evaluation import GIVE_UP_AFTER, require_baseline
from burnish.runs.events import BASELINE, EventData, Warned
from burnish.runs.run import Run
from burnish.strategies.backprop.packets import shown_value
from burnish.strategies.backprop.prompts import (
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
)
from burnish.strategies.backprop.rounds import (
    Attempt,
    Learner,
    Patched,
    Patcher,
    RejectedPatches,
    Round,
    crash_words,
    why_missing,
)
from burnish.strategies.backprop.settings import BackpropSettings


class IncumbentJudge:
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


Stage: TypeAlias = Literal[
    "structure_snapshot",
    "baseline_validation",
    "round_started",
    "round_train_evaluation",
    "round_losses",
    "round_backward",
    "round_aggregation",
    "round_patch_set",
    "round_output_profile",
    "round_validation",
    "round_completed",
]


@dataclass(frozen=True, kw_only=True)
class StageBegun(EventData):
    """A stage is over, and about to be shown."""

    kinds: ClassVar[tuple[str, ...]] = ("stage",)

    stage: str = ""
    round: int = 0


class Watcher(Protocol):
    """Someone who is shown each stage as it is over, on a replay too."""

    def __call__(self, stage: Stage, subject: Round | Attempt | Evaluation | None, /) -> None:
        """Look at what a stage found."""
        ...


# -- The search -----------------------------------------------------------------------------------


_DRAWS = 1_000_000
"""Draws set aside for each round."""


class Search:
    """Where the search stands."""

    def __init__(
        self,
        run: Run,
        settings: BackpropSettings,
        *,
        backwarder: Role[BackwardRequest, BackwardAnswer],
        aggregator: Role[MergeRequest, MergeAnswer],
        patcher: Role[PatchRequest, PatchAnswer],
        targets: Collection[str],
        watch: Watcher | None,
    ) -> None:
        structure = run.target.structure if isinstance(run.target, Structured) else None
        self._run = run
        self._settings = settings
        self._watch = watch
        self._rejected = RejectedPatches(secrets=run.secrets)
        self._judge = IncumbentJudge(run, settings)
        self._learner = Learner(
            run, settings, backwarder, aggregator, targets=targets, structure=structure
        )
        self._patcher = Patcher(
            run,
            patcher,
            self._rejected,
            structure=structure,
            parallel=settings.patch_parallelism,
        )
        self._needed = (backwarder.name, patcher.name)
        self._without_accept = 0
        self._on_train: set[str] = set()
        self.number = 0

    @property
    def need(self) -> Spend:
        """What a round costs at least in runs of cases; what was measured costs nothing again."""
        if self._run.incumbent.id in self._on_train:
            return self._judge.need
        train = self._run.estimate(Split.TRAIN, repeats=self._settings.repeats)
        return train + self._judge.need

    async def baseline(self) -> str:
        """Measure where the search starts; why it is over already, if it is."""
        run, start = self._run, self._run.target.baseline
        self._show("structure_snapshot", None)
        evaluation = await run.evaluate(start, split=Split.HOLDOUT, repeats=self._settings.repeats)
        result = SplitResult.of(evaluation, run.objective)
        run.record(Trial(candidate=start, phase=BASELINE, holdout=result))
        run.advance(start)
        self._judge.start(start, evaluation)
        self._show("baseline_validation", evaluation)
        require_baseline(evaluation, objective=run.objective, max_missing=MAX_MISSING)
        return "target_score" if self._good_enough() else ""

    async def next(self) -> str:
        """One round; why the search is over after it, if it is. Stopped inside, it is dropped."""
        self.number += 1
        self._show("round_started", None)
        current = await self._with_losses()
        if not current.losses:
            self._show("round_completed", current)
            return self._without_losses(current)
        if self._stopped(self._learner.need(current) + self._judge.need):
            return ""
        attempts = await self._attempts(await self._learned(current))
        accepted = await self._decided(attempts)
        if self._run.stopped is not None:
            return ""
        self._without_accept = 0 if accepted else self._without_accept + 1
        self._run.answering.require(*self._needed, after=GIVE_UP_AFTER)
        return self._over(attempts)

    # -- what is learned from train --------------------------------------------------------

    async def _with_losses(self) -> Round:
        train = await self._run.evaluate(
            self._run.incumbent, split=Split.TRAIN, repeats=self._settings.repeats
        )
        self._tell_crashes(train)
        self._on_train.add(self._run.incumbent.id)
        self._judge.begin(train)
        current = Round(number=self.number, parent=self._run.incumbent, train=train)
        self._show("round_train_evaluation", current)
        current = self._learner.with_losses(current)
        self._show("round_losses", current)
        return current

    def _without_losses(self, current: Round) -> str:
        """Nothing failed; or nobody knows, which is not the same."""
        if not current.missing:
            return "no_losses"
        count = len(current.missing)
        self._warn(
            f"train:{self.number}:missing",
            f"no case of train failed, but {count} of {len(current.train.cases)} are missing"
            f"{why_missing(current.train)}",
        )
        return "train_missing"

    def _tell_crashes(self, train: Evaluation) -> None:
        """An agent that raises is a bug more often than a bad text: it should not go unseen."""
        message = crash_words(train)
        if message and self._run.incumbent.id not in self._on_train:
            self._run.tell(Warned(message=message), f"train:{self.number}:failed")

    async def _learned(self, current: Round) -> Round:
        draw = _DRAWS * self.number
        current = await self._learner.walked(current, draw=draw)
        self._show("round_backward", current)
        current = await self._learner.merged(current, draw=draw)
        self._show("round_aggregation", current)
        return current

    # -- candidates ------------------------------------------------------------------------

    async def _attempts(self, current: Round) -> list[Attempt]:
        """The candidates that the patches make, each checked before anything is paid."""
        sets = await self._patcher.patched(
            current.merged or {},
            current.parent,
            sets=self._settings.candidates_per_round if current.merged else 1,
            draw=_DRAWS * self.number,
        )
        attempts: list[Attempt] = []
        there: set[str] = set()
        for place, patched in enumerate(sets):
            attempt = await self._attempt(current, patched, first=place == 0)
            if attempt.candidate.id in there and not attempt.problems:
                same = Problem(message="another candidate of this round is the same")
                attempt = replace(attempt, problems=(same,))
            there.add(attempt.candidate.id)
            attempts.append(attempt)
            self._show("round_patch_set", attempt)
        return attempts

    async def _attempt(self, current: Round, patched: Patched, *, first: bool) -> Attempt:
        changed = {patch.surface: patch.value for patch in patched.patches}
        origin = Origin(kind="proposal", by="backprop", note=f"patch {', '.join(changed)}")
        attempt = Attempt(
            round=current,
            candidate=current.parent.child(changed, origin=origin) if changed else current.parent,
            patches=patched.patches,
            refused=patched.refused,
            lost=patched.lost,
            proposals=patched.proposals,
            first=first,
        )
        if not changed:
            return replace(attempt, problems=(Problem(message="there is no patch to try"),))
        problems = await self._run.check(attempt.candidate, parent=current.parent)
        return replace(attempt, problems=tuple(problems))

    async def _decided(self, attempts: Sequence[Attempt]) -> bool:
        """Measure and decide on each candidate in turn; whether one was accepted."""
        accepted = False
        for attempt in attempts:
            self._show("round_output_profile", attempt)
            if self._stopped(NOTHING if attempt.problems else self._judge.need):
                break
            done = await self._judge.judged(attempt)
            self._show("round_validation", done)
            self._run.record(done.trial(self._run.objective))
            if done.decision is not None and done.decision.accepted:
                accepted = True
                self._run.advance(done.candidate)
                self._judge.advance(done)
            else:
                self._remember(done)
            self._show("round_completed", done)
        return accepted

    def _remember(self, done: Attempt) -> None:
        """What was turned down is shown to whoever patches next."""
        for patch in done.patches:
            self._rejected.add(patch.surface, shown_value(patch.value), done.shown_why)
        for refused in done.refused:
            if refused.offered is not None:
                self._rejected.add(refused.surface, refused.offered, refused.why)

    # -- the end ---------------------------------------------------------------------------

    def _over(self, attempts: Sequence[Attempt]) -> str:
        settings = self._settings
        if self._good_enough():
            return "target_score"
        if not any(attempt.all_proposals for attempt in attempts):
            return "nothing_to_blame"
        if self.number >= settings.max_rounds:
            return "max_rounds"
        limit = settings.max_rounds_without_acceptance
        return "max_rounds_without_acceptance" if 0 < limit <= self._without_accept else ""

    def _good_enough(self) -> bool:
        score, target = self._judge.score, self._settings.target_score
        return target is not None and score is not None and score >= target - EPSILON

    def _stopped(self, need: Spend) -> bool:
        return self._run.stop_reason(need) is not None

    def _warn(self, key: str, what: str) -> None:
        message = (
            f"{what}. Nothing can be learned from what is missing. Mend it, then make a new run "
            "that asks for it again (--retry-missing)"
        )
        self._run.tell(Warned(message=message), key)

    def _show(self, stage: Stage, subject: Round | Attempt | Evaluation | None) -> None:
        slot = "" if not isinstance(subject, Attempt) else f":{subject.candidate.id}"
        begun = StageBegun(stage=stage, round=self.number)
        self._run.tell(begun, f"round:{self.number}:{stage}{slot}")
        if self._watch is not None:
            self._watch(stage, subject)
