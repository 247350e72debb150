"""The search: rounds, decisions, and the stages that others watch."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, TypeAlias

from burnish.core.cases import Split
from burnish.core.comparisons import Pair
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import best_incumbent, guarded, min_gain, sigma, strict
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import EPSILON, Candidate, Structured, value_key
from burnish.core.trials import MAX_MISSING, Decision, SplitResult, Trial, Verdict
from burnish.runs.events import BASELINE, EventData, Warned
from burnish.runs.roles import GIVE_UP_AFTER
from burnish.runs.run import Run
from burnish.strategies.backprop.backward import Learner
from burnish.strategies.backprop.packets import BackpropSettings, Round, shown_value
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
    Patch,
    Patched,
    Patcher,
    RefusedPatch,
    RejectedPatches,
    crash_words,
    why_missing,
)
from burnish.strategies.partial_evaluations import BLOCK, Heat, Stopped, race
from burnish.strategies.races import Course, may_end_early
from burnish.strategies.requirements import require_baseline


class _Judge:
    """Decides on attempts, against the incumbent's evaluations."""

    def __init__(self, run: Run, settings: BackpropSettings) -> None:
        self._run = run
        self._settings = settings
        self._holdout: Evaluation | None = None
        self._train: Evaluation | None = None
        self._best: Evaluation | None = None
        """The incumbent so far that was best on holdout: a tie is a tie with it."""
        order = list(run.dataset.holdout)
        run.rng("race order").shuffle(order)
        self._order = tuple(order)

    @property
    def score(self) -> float | None:
        return None if self._holdout is None else self._run.objective.measure(self._holdout).score

    def begin(self, train: Evaluation) -> None:
        """Take the incumbent's evaluation on train, as a round begins."""
        self._train = train

    def lead(self, holdout: Evaluation, train: Evaluation | None = None) -> None:
        """Take the evaluations of a new incumbent: the next attempt is compared with them."""
        self._holdout = holdout
        self._best = best_incumbent(self._best, holdout, objective=self._run.objective)
        self._train = train or self._train

    @property
    def need(self) -> Spend:
        settings = self._settings
        return total(self._run.estimate(s, repeats=settings.repeats) for s in settings.deciding)

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
        heat = await self._raced(attempt)
        attempt = replace(attempt, holdout=heat.evaluation, whole=heat.whole)
        if heat.lost is not None:
            return replace(attempt, decision=heat.lost)
        assert self._holdout is not None
        pair = Pair(candidate=heat.evaluation, incumbent=self._holdout)
        decision = guarded(
            self._by_gate(attempt, pair),
            pair=pair,
            objective=self._run.objective,
            guards=self._settings.guards.guards(),
        )
        return replace(attempt, decision=decision)

    async def _raced(self, attempt: Attempt) -> Heat:
        """All of holdout; a patch alone is stopped where it can no longer win, or hardly."""
        assert self._holdout is not None
        early = self._needs_gain and may_end_early(self._holdout, self._run.objective)
        if not (attempt.alone and early):
            holdout = await self._measured(attempt.candidate, Split.HOLDOUT)
            return Heat(evaluation=holdout, whole=True)
        course = Course(
            order=self._order,
            incumbent=self._holdout,
            repeats=self._settings.repeats,
            block=BLOCK,
            early=True,
        )
        return (await race(self._run, [attempt.candidate], course))[0]

    @property
    def _needs_gain(self) -> bool:
        """Whether the gate accepts nothing that does not gain on holdout."""
        settings = self._settings
        if settings.gate == "strict":
            return not self._run.objective.tie_breakers
        return settings.gate == "min_gain" and settings.min_score_gain >= 0

    def _by_gate(self, attempt: Attempt, pair: Pair) -> Decision:
        settings, objective = self._settings, self._run.objective
        if settings.gate == "sigma":
            return self._by_sigma(attempt, pair)
        if settings.gate == "strict":
            bar = settings.accept_sigma
            return strict(objective=objective, pair=pair, best=self._best, accept_sigma=bar)
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
    """A stage has ended, and is about to be shown."""

    kinds: ClassVar[tuple[str, ...]] = ("stage",)

    stage: str = ""
    round: int = 0


class Watcher(Protocol):
    """Is called with each stage as it ends, also on a replay."""

    def __call__(self, stage: Stage, subject: Round | Attempt | Evaluation | None, /) -> None:
        """Look at the result of a stage."""
        ...


DRAWS = 1_000_000
"""Draws set aside for each round."""


class Search:
    """Makes rounds."""

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
        self._rejected = RejectedPatches()
        self._judge = _Judge(run, settings)
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
        """What a round costs at least in runs of cases; results on train are not paid twice."""
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
        self._judge.lead(evaluation)
        self._show("baseline_validation", evaluation)
        require_baseline(run, evaluation, max_missing=MAX_MISSING)
        return "target_score" if self._good_enough() else ""

    async def next(self) -> str:
        """One round; why the search is over after it, if it is. Stopped inside, it is dropped."""
        self.number += 1
        self._show("round_started", None)
        current = await self._with_losses()
        if not current.losses:
            self._show("round_completed", current)
            return self._without_losses(current)
        if self._run.stop_reason(self._learner.need(current) + self._judge.need) is not None:
            return ""
        draw = DRAWS * self.number
        current = await self._learner.walked(current, draw=draw)
        self._show("round_backward", current)
        current = await self._learner.merged(current, draw=draw)
        self._show("round_aggregation", current)
        attempts = await self._attempts(current)
        accepted = await self._decided(attempts)
        if self._run.stopped is not None:
            return ""
        self._without_accept = 0 if accepted else self._without_accept + 1
        self._run.answering.require(*self._needed, after=GIVE_UP_AFTER)
        return self._over(attempts)

    async def _with_losses(self) -> Round:
        train = await self._run.evaluate(
            self._run.incumbent, split=Split.TRAIN, repeats=self._settings.repeats
        )
        message = crash_words(train)
        if message and self._run.incumbent.id not in self._on_train:
            # An agent that raises is a bug more often than a bad text.
            self._run.tell(Warned(message=message), f"train:{self.number}:failed")
        self._on_train.add(self._run.incumbent.id)
        self._judge.begin(train)
        current = Round(number=self.number, parent=self._run.incumbent, train=train)
        self._show("round_train_evaluation", current)
        current = self._learner.with_losses(current)
        self._show("round_losses", current)
        return current

    def _without_losses(self, current: Round) -> str:
        """Why the search ends: nothing failed, or it is not known."""
        if not current.missing:
            return "no_losses"
        message = (
            f"no case of train failed, but {len(current.missing)} of {len(current.train.cases)} "
            f"are missing{why_missing(current.train)}. Nothing can be learned from what is "
            "missing. Fix the cause, then fork this run with --retry-missing"
        )
        self._run.tell(Warned(message=message), f"train:{self.number}:missing")
        return "train_missing"

    async def _attempts(self, current: Round) -> list[Attempt]:
        """The candidates of the patches, each checked before anything is spent on it."""
        merged = current.merged or {}
        sets = await self._patcher.patched(
            merged,
            current.parent,
            sets=self._settings.candidates_per_round if merged else 1,
            draw=DRAWS * self.number,
        )
        attempts: list[Attempt] = []
        ids: set[str] = set()
        for place, patched in enumerate(sets):
            attempt = await self._attempt(current, patched, first=place == 0)
            if attempt.candidate.id in ids and not attempt.problems:
                same = Problem(message="another candidate of this round is the same")
                attempt = replace(attempt, problems=(same,))
            ids.add(attempt.candidate.id)
            attempts.append(attempt)
            self._show("round_patch_set", attempt)
        return attempts

    async def _attempt(
        self, current: Round, patched: Patched, *, first: bool, alone: bool = False
    ) -> Attempt:
        parent = self._run.incumbent
        attempt = Attempt(
            round=current,
            candidate=patched.on(parent),
            patches=patched.patches,
            refused=patched.refused,
            lost=patched.lost,
            proposals=patched.proposals,
            first=first,
            alone=alone,
        )
        if not patched.patches:
            return replace(attempt, problems=(Problem(message="there is no patch to try"),))
        problems = await self._run.check(attempt.candidate, parent=parent)
        if problems and len(patched.patches) > 1:
            sound = await self._without_unsound(patched, parent)
            if 0 < len(sound.patches) < len(patched.patches):
                return await self._attempt(current, sound, first=first)
        return replace(attempt, problems=tuple(problems))

    async def _without_unsound(self, patched: Patched, parent: Candidate) -> Patched:
        """The patches that pass their check by themselves; the others are refused."""
        refused: list[RefusedPatch] = []
        for patch in patched.patches:
            by_itself = Patched(patches=(patch,)).on(parent)
            # It may have been tried before, and be right beside the others.
            if problems := await self._run.check(by_itself, parent=parent, again=True):
                why = "; ".join(map(str, problems))
                offered = shown_value(patch.value)
                refused.append(RefusedPatch(surface=patch.surface, offered=offered, why=why))
        return self._patcher.without(patched, refused)

    async def _decided(self, attempts: Sequence[Attempt]) -> bool:
        """Measure and decide on each candidate in turn; whether one was accepted."""
        decided: list[Attempt] = []
        for attempt in attempts:
            done = await self._tried(attempt)
            if done is None:
                break
            decided.append(done)
        accepted = any(done.accepted for done in decided)
        if accepted or len(decided) < len(attempts) or not self._settings.patches_alone:
            return accepted
        return await self._alone(decided)

    async def _tried(self, attempt: Attempt) -> Attempt | None:
        """The attempt, decided on and recorded; None if there is a reason to stop."""
        self._show("round_output_profile", attempt)
        need = NOTHING if attempt.problems else self._judge.need
        if self._run.stop_reason(need) is not None:
            return None
        try:
            done = await self._judge.judged(attempt)
        except Stopped:
            return None
        self._show("round_validation", done)
        self._run.record(done.trial(self._run.objective))
        if done.accepted and done.holdout is not None:
            self._run.advance(done.candidate)
            self._judge.lead(done.holdout, done.train)
        else:
            self._remember(done)
        self._show("round_completed", done)
        return done

    async def _alone(self, rejected: Sequence[Attempt]) -> bool:
        """Try the patches of rejected candidates one by one; whether one was accepted.

        One harmful patch sinks a candidate with all that is right in it. Each patch is tried on
        top of those accepted before it. What fails its check is turned down without a trial.
        """
        accepted = False
        for current, patch in _patches_to_part(rejected):
            attempt = await self._attempt(
                current, Patched(patches=(patch,)), first=False, alone=True
            )
            if attempt.problems:
                self._remember(attempt)
                continue
            self._show("round_patch_set", attempt)
            done = await self._tried(attempt)
            if done is None:
                break
            accepted = accepted or done.accepted
        return accepted

    def _remember(self, done: Attempt) -> None:
        """The patcher sees what was rejected: a patch only for what it did alone."""
        unknown = done.decision is not None and done.decision.verdict is Verdict.CANNOT_TELL
        for patch in done.patches if len(done.patches) == 1 and not unknown else ():
            self._rejected.add(patch.surface, shown_value(patch.value), done.shown_why)
        for refused in done.refused:
            if refused.offered is not None:
                self._rejected.add(refused.surface, refused.offered, refused.why)

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

    def _show(self, stage: Stage, subject: Round | Attempt | Evaluation | None) -> None:
        slot = f":{subject.candidate.id}" if isinstance(subject, Attempt) else ""
        begun = StageBegun(stage=stage, round=self.number)
        self._run.tell(begun, f"round:{self.number}:{stage}{slot}")
        if self._watch is not None:
            self._watch(stage, subject)


def _patches_to_part(rejected: Sequence[Attempt]) -> list[tuple[Round, Patch]]:
    """The patches of candidates with several that were measured or failed a check, each once."""
    patches: dict[tuple[str, str], tuple[Round, Patch]] = {}
    for attempt in rejected:
        told = attempt.decision is None or attempt.decision.verdict is not Verdict.CANNOT_TELL
        for patch in attempt.patches if told and len(attempt.patches) > 1 else ():
            key = patch.surface, str(value_key(patch.value))
            patches.setdefault(key, (attempt.round, patch))
    return sorted(patches.values(), key=lambda each: each[0].blame(each[1].surface))
