"""An edit on its way to keep, discard or crash, with the settings and what the editor sees."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import Field, JsonValue, model_validator

from burnish.core.comparisons import Pair, broken_constraint, decide
from burnish.core.content import AboveZero, AtLeastOne, Json, NotNegative
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective, Score
from burnish.core.gates import Direction, is_less_broken, strict, sweep_means
from burnish.core.protocols import Target, surfaces_of
from burnish.core.surfaces import Candidate, FileSurface, Origin, diff
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails
from burnish.metrics.text_matching import without_middle
from burnish.runs.events import PERSON
from burnish.runs.run import Run
from burnish.runs.spec import StrategySettings
from burnish.runs.steering import Suggestion
from burnish.strategies.edits.editors import EditRequest
from burnish.strategies.requirements import broken_constraints, left_behind
from burnish.system.settings import Access, Door, Text
from burnish.system.workspaces import count_changed_lines, summarize_diff

_PROGRAM = (
    *("command", "recipe", "arguments", "home", "timeout_seconds", "env", "network"),
    "usd_per_edit",
)
_RecipeName: TypeAlias = Literal["claude", "codex", "aider", "gemini"]


class EditsSettings(StrategySettings):
    """How the loop works."""

    task: Annotated[str, Door(file=False)] = ""
    """What the files are for, in the words of the task; the editor reads it."""
    primary: Annotated[str, Door(file=False)] = "score"
    """The number that counts."""
    direction: Annotated[Direction, Door(file=False)] = "maximize"
    tolerance: Annotated[NotNegative, Door(file=False)] = 0.0
    """Primary numbers that are no further apart than this are a tie."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """A difference within so many times its noise is a tie; without repeats there is no noise."""
    max_files: AtLeastOne | None = None
    """Files that one edit may touch."""
    max_changed_lines: AtLeastOne | None = None
    """Lines added and lines removed, together, in one edit."""
    candidates_per_iteration: AtLeastOne = 1
    """Edits that are made and run side by side, and decided on in order."""
    incumbents: AtLeastOne = 1
    """States of the files that edits start from: the leader, and the next best that ran."""
    max_failures: AtLeastOne | None = None
    """Crashes after which the loop ends."""
    target_score: float | None = None
    """The loop ends when the primary number of the best is as good as this, in its own unit."""
    on_failure: Literal["discard", "stop"] = "discard"
    """What a crash does besides losing the candidate: nothing, or end the run."""
    keep_if: Literal["better_primary"] = "better_primary"
    """What is kept."""
    mode: Literal["direct_edit", "command"] = "direct_edit"
    """`direct_edit` asks a model for an edit; `command` lets a program edit a copy."""
    command: Text | None = None
    """The program of mode `command`, such as the command line of a coding agent."""
    recipe: _RecipeName | None = None
    """A coding agent whose command line is known: no `command` is needed."""
    arguments: str = ""
    """More arguments for the recipe's program, such as its model."""
    home: Text | None = None
    """A folder whose copy is the program's HOME, with its login and settings."""
    timeout_seconds: AboveZero = 900.0
    """The time limit of that program."""
    env: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = ()
    """Names of environment variables that the program may see, such as its API key."""
    network: bool = True
    """Whether the program may use the network, to talk to its model."""
    usd_per_edit: NotNegative | None = None
    """What an edit by the program costs in US dollars; unknown if not set."""

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, data: Any) -> Any:
        """A recipe is a program, without saying so again."""
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        implied = fields.get("recipe") is not None and "mode" not in fields
        return {**fields, "mode": "command"} if implied else fields

    @model_validator(mode="after")
    def _whole(self) -> "EditsSettings":
        if self.mode == "command" and self.command is None and self.recipe is None:
            raise ValueError("mode: command needs a command or a recipe")
        if self.command is not None and self.recipe is not None:
            raise ValueError("a recipe has its own command: set one of the two")
        if self.arguments and self.recipe is None:
            raise ValueError("arguments are for a recipe: write them into the command")
        unused = [name for name in sorted(_PROGRAM) if name in self.model_fields_set]
        if self.mode == "direct_edit" and unused:
            raise ValueError(f"{', '.join(unused)} can only be set with mode: command")
        return self

    def deciding(self) -> dict[str, JsonValue]:
        """The settings that decide what is kept: neither limits nor who edits."""
        limits = {"max_failures", "on_failure", "target_score"}
        newer = set[str]() if self.incumbents > 1 else {"incumbents"}
        return self.model_dump(exclude={*limits, *_PROGRAM, *newer, "mode", "keep_if"})


MAX_MISSING = 0.0
"""One case is all there is: if it is missing, nothing can be decided."""
KEEP, DISCARD, CRASH = "keep", "discard", "crash"
HOLDOUT = "holdout_"
"""The prefix of the code of a decision that holdout made."""
_MOST_DIFF = 6000
"""Characters of a file's diff in the ledger, which also holds the whole candidate."""
_MOST_SAID = 3000
"""Characters of one remark of a metric, or of one log."""
_REMEMBERED = 5
"""Rejected edits that the editor sees."""


@dataclass(frozen=True, kw_only=True)
class _FileChange:
    """How one file differs."""

    path: str
    added: int
    removed: int
    diff: str
    """The beginning of the unified diff."""


def file_surfaces(target: Target, candidate: Candidate) -> list[FileSurface]:
    """The files of a candidate: those of the target, and those that it has added."""
    own = {surface.id for surface in target.surfaces}
    return [
        surface
        for surface in surfaces_of(target, candidate).values()
        if isinstance(surface, FileSurface)
        and (surface.id in own or str(candidate.values[surface.id]).strip())
    ]


def _file_changes(before: Candidate, after: Candidate) -> tuple[_FileChange, ...]:
    return tuple(
        file_change(
            change.surface,
            None if change.before is None else str(change.before),
            str(change.after or ""),
        )
        for change in diff(before, after)
    )


def size_problems(before: Candidate, after: Candidate, settings: EditsSettings) -> list[Problem]:
    """Whether an edit touches too many files or lines."""
    files = _file_changes(before, after)
    lines = sum(file.added + file.removed for file in files)
    most_files, most_lines = settings.max_files, settings.max_changed_lines
    problems: list[Problem] = []
    if most_files is not None and len(files) > most_files:
        message = f"the edit touches {len(files)} files, {most_files} are allowed"
        problems.append(Problem(message=message, remedy="touch fewer files"))
    if most_lines is not None and lines > most_lines:
        message = f"the edit changes {lines} lines, {most_lines} are allowed"
        problems.append(Problem(message=message, remedy="make a smaller edit"))
    return problems


def file_change(path: str, before: str | None, after: str) -> _FileChange:
    """How a file differs, line by line; a new one has nothing before."""
    count = count_changed_lines(before or "", after)
    old = {} if before is None else {path: before.encode()}
    shown = summarize_diff(old, {path: after.encode()}, max_chars=_MOST_DIFF)
    return _FileChange(path=path, added=count.added, removed=count.removed, diff=shown.text)


def decision_of(
    candidate: Evaluation,
    incumbent: Evaluation,
    objective: Objective,
    settings: EditsSettings,
    *,
    best: Evaluation | None = None,
) -> Decision:
    """Whether the candidate is clearly better; `best` is the best incumbent so far."""
    if incumbent.failed_cases() and not candidate.failed_cases():
        # Whatever runs and keeps the constraints is better than an incumbent that does not run.
        if candidate.missing_cases(objective.weights):
            return decide("strict", "missing", "cannot tell: the run is missing", {})
        broken = broken_constraint("strict", objective, objective.measure(candidate))
        return broken or decide("strict", "better", "it runs, and what was there did not", {})
    if (closer := _less_broken(candidate, incumbent, objective)) is not None:
        return closer
    return strict(
        objective=objective,
        pair=Pair(candidate=candidate, incumbent=incumbent),
        best=best,
        primary=settings.primary,
        direction=settings.direction,
        tolerance=settings.tolerance,
        accept_sigma=settings.accept_sigma,
        max_missing=MAX_MISSING,
    )


def may_be_noisy(evaluation: Evaluation, primary: str) -> bool:
    """Whether a number differs between repeats, or might: one run alone shows no noise."""
    means = sweep_means(evaluation, primary)
    return len(means) < 2 or len(set(means)) > 1


def _less_broken(
    candidate: Evaluation, incumbent: Evaluation, objective: Objective
) -> Decision | None:
    """Accept what is closer to keeping the constraints than an incumbent that breaks one."""
    if candidate.missing_cases(objective.weights):
        return None
    if not is_less_broken(candidate, incumbent, objective):
        return None
    left = broken_constraints(candidate, objective)
    words = (
        f"it is the least broken so far: {'; '.join(left)}"
        if left
        else ("it keeps all constraints, and what was there did not")
    )
    return decide("strict", "better", words, {})


def crashed(candidate: Evaluation) -> Decision | None:
    """The decision on a candidate that does not run, whatever the incumbent does."""
    if not candidate.failed_cases():
        return None
    failure = next(r.outcome.failure for r in candidate.results if r.outcome.failure)
    if failure.error == "Tampering":  # It touched what it must leave alone.
        return decide("strict", "tampering", failure.message, {})
    reason = f"the candidate crashed: {failure.message}"
    return decide("strict", "crash", reason, {"crashed": 1.0})


def with_left_behind(decision: Decision, candidate: Evaluation, incumbent: Evaluation) -> Decision:
    """The decision, and what this candidate wrote that its scorer did not get."""
    words = left_behind(candidate)
    if not words or words in decision.reason or words == left_behind(incumbent):
        return decision
    return replace(decision, reason=f"{decision.reason}; {words}")


def remarks_on(evaluation: Evaluation) -> list[str]:
    """The reasons that metrics gave for the last run, and where judges disagreed."""
    return [
        f"{score.metric}: {without_middle(remark, _MOST_SAID)}"
        for score in _scores(evaluation)
        for remark in (score.reason, disagreement(score))
        if remark
    ]


def disagreements(evaluation: Evaluation) -> tuple[str, ...] | None:
    """Where judges disagreed, for the ledger."""
    scores = _scores(evaluation)
    apart = tuple(f"{s.metric}: {words}" for s in scores if (words := disagreement(s)))
    return apart or None


def disagreement(score: Score) -> str:
    """How far apart the judges of a score are; empty if they agree or there is only one."""
    judges = score.details.get("judges")
    rows = [each for each in judges if isinstance(each, dict)] if isinstance(judges, list) else []
    verdicts = [
        (row.get("judge"), v) for row in rows if isinstance(v := row.get("value"), int | float)
    ]
    if len({value for _, value in verdicts}) < 2:
        return ""
    return (
        f"the judges do not agree: {', '.join(f'{name} {value:.3g}' for name, value in verdicts)}"
    )


def _scores(evaluation: Evaluation) -> tuple[Score, ...]:
    ran = evaluation.results and not evaluation.failed_cases()
    return evaluation.results[-1].scores if ran else ()


@dataclass(frozen=True, kw_only=True)
class EditAttempt:
    """What is known so far; each stage returns a copy with more in it."""

    iteration: int
    parent: Candidate
    proposal: Proposal | None = None
    sent: Suggestion | None = None
    """What a person sent, if it is a person's own edit."""
    rationale: str = ""
    candidate: Candidate | None = None
    problems: tuple[Problem, ...] = ()
    train: Evaluation | None = None
    holdout: Evaluation | None = None
    decision: Decision | None = None

    @property
    def word(self) -> str:
        if self.decision is not None and self.decision.accepted:
            return KEEP
        crashed = self.decision is not None and self.decision.code in (CRASH, HOLDOUT + CRASH)
        return CRASH if crashed else DISCARD

    @property
    def why(self) -> str:
        reason = self.decision.reason if self.decision else ""
        return "; ".join(map(str, self.problems)) or reason

    @property
    def origin(self) -> Origin:
        """Where the candidate comes from, with the idea as its note."""
        if self.sent is not None:
            return self.sent.origin
        note = self.rationale.strip().split("\n")[0][:60] or "an edit"
        return Origin(kind="proposal", by="edits", note=note)

    def _broken(self, objective: Objective) -> tuple[str, ...] | None:
        """The constraints that an edit breaks which was kept nevertheless."""
        if self.word != KEEP:
            return None
        sides = (side for side in (self.train, self.holdout) if side is not None)
        return tuple(each for side in sides for each in broken_constraints(side, objective)) or None

    def trial(self, objective: Objective, primary: str) -> Trial:
        candidate = self.candidate or self.parent.child({}, origin=self.origin)
        return Trial(
            candidate=candidate,
            phase="edit" if self.sent is None else PERSON,
            cycle=self.iteration,
            touched=tuple(change.surface for change in diff(self.parent, candidate)),
            proposals=() if self.proposal is None else (self.proposal,),
            problems=self.problems,
            train=None if self.train is None else SplitResult.of(self.train, objective),
            holdout=None if self.holdout is None else SplitResult.of(self.holdout, objective),
            decision=None if self.problems else self.decision,
            details=EditDetails(
                proposal_source=None if self.sent is None else self.sent.details.proposal_source,
                decision=self.word,
                rationale=self.rationale,
                changes=_file_changes(self.parent, candidate),
                primary=primary_values(primary, objective, self.train, self.holdout),
                disagreement=None if self.train is None else disagreements(self.train),
                broken=self._broken(objective),
            ).to_json(),
        )


@dataclass(frozen=True, kw_only=True)
class EditDetails(TrialDetails):
    """What the journal keeps about an edit; about the start, only its number and the judges."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {
        *("decision", "rationale", "changes", "disagreement", "broken"),
    }

    decision: str | None = None
    rationale: str | None = None
    changes: tuple[_FileChange, ...] | None = None
    disagreement: tuple[str, ...] | None = None
    """Where the judges of a score did not agree."""
    broken: tuple[str, ...] | None = None
    """Constraints that the start, or an edit that was kept, breaks."""


def primary_values(
    name: str, objective: Objective, train: Evaluation | None, holdout: Evaluation | None
) -> Json:
    """The primary number in its own unit, for the ledger and for progress."""
    sides = {"train": train, "holdout": holdout}
    values: dict[str, Json] = {
        side: objective.measure(evaluation).values.get(name)
        for side, evaluation in sides.items()
        if evaluation is not None
    }
    return {"name": name, **values}


def edit_request(
    run: Run,
    settings: EditsSettings,
    candidate: Candidate,
    train: Evaluation,
    rejected: Sequence[EditAttempt],
) -> EditRequest:
    """The request to the editor, which never includes anything about holdout."""
    values = run.objective.measure(train).values
    numbers = "\n".join(f"{name}: {value:g}" for name, value in sorted(values.items()))
    numbers = numbers or "(the present files gave no numbers)"
    surfaces = file_surfaces(run.target, candidate)
    texts = {surface.path: str(candidate.values[surface.id]) for surface in surfaces}
    context: Mapping[str, str] = getattr(run.target, "context", {})
    return EditRequest(
        context=_listed(context),
        task=settings.task or "(the task has no description)",
        files=_listed(texts),
        feedback="\n\n".join([numbers, *remarks_on(train), *_logs_of(train)]),
        bounds="\n".join(f"- {bound}" for bound in _bounds(run, settings)),
        turned_down="\n\n".join(map(_rejection, rejected[-_REMEMBERED:])),
        texts=texts,
        hints=run.steering.hints,
    )


def _listed(texts: Mapping[str, str]) -> str:
    return "\n\n".join(f"=== {path}\n{text}\n=== end of {path}" for path, text in texts.items())


def _bounds(run: Run, settings: EditsSettings) -> Iterator[str]:
    goal = "as high" if settings.direction == "maximize" else "as low"
    yield f"{settings.primary} should be {goal} as can be"
    yield from (f"must hold: {constraint}" for constraint in run.objective.constraints)
    for breaker in run.objective.tie_breakers:
        yield f"at a tie, {breaker.prefer} {breaker.metric} wins"
    if settings.max_files is not None:
        yield f"an edit may touch at most {settings.max_files} files"
    if settings.max_changed_lines is not None:
        yield f"and change at most {settings.max_changed_lines} lines, added + removed"
    if pinned := sorted(run.steering.pinned):
        yield f"these files must stay as they are: {', '.join(pinned)}"
    yield from getattr(run.target, "rules", ())


def _logs_of(evaluation: Evaluation) -> list[str]:
    """The logs of runner and scorer in the last run, and why it failed if it did."""
    if not evaluation.results:
        return []
    outcome = evaluation.results[-1].outcome
    lines: list[str] = []
    if outcome.failure is not None:
        lines.append(f"it failed: {without_middle(outcome.failure.message, _MOST_SAID)}")
    for part, streams in (outcome.data if isinstance(outcome.data, dict) else {}).items():
        for stream, text in (streams if isinstance(streams, dict) else {}).items():
            if isinstance(text, str) and text.strip():
                lines.append(f"{part} {stream}:\n{without_middle(text, _MOST_SAID)}")
    return lines


def _rejection(attempt: EditAttempt) -> str:
    idea = attempt.rationale or "(no rationale)"
    if attempt.holdout is not None:
        # Neither numbers nor logs of holdout may reach an editor.
        return f"- {idea}\n  {attempt.word}: better here, and not where it is decided"
    lines = [f"- {idea}\n  {attempt.word}: {attempt.why}"]
    if attempt.train is not None and attempt.train.failed_cases():
        lines += [f"  {log}" for log in _logs_of(attempt.train)]
    return "\n".join(lines)
