"""An edit on its way to keep, discard or crash: changes, decision, feedback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from burnish.core.comparisons import Pair, broken_constraint, decide
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective, Score
from burnish.core.strict_gate import strict
from burnish.core.surfaces import Candidate, FileSurface, Origin, diff
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails
from burnish.metrics.text_matching import without_middle
from burnish.strategies.edits.editors import EditRequest
from burnish.strategies.edits.settings import EditsSettings
from burnish.system.workspaces import count_changed_lines, summarize_diff

_MOST_CHARS = 6000
"""Of a file's diff in the ledger; the candidate itself is there whole."""


@dataclass(frozen=True, kw_only=True)
class _FileChange:
    """How one file differs."""

    path: str
    added: int
    removed: int
    diff: str
    """The unified diff, as much of it as a summary holds."""

    @property
    def changed(self) -> int:
        """Lines added and lines removed, together."""
        return self.added + self.removed


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How two candidates differ."""

    files: tuple[_FileChange, ...]

    @classmethod
    def between(cls, before: Candidate, after: Candidate) -> "Changes":
        """What was changed."""
        files = [
            file_change(change.surface, str(change.before or ""), str(change.after or ""))
            for change in diff(before, after)
        ]
        return cls(files=tuple(files))

    @property
    def changed(self) -> int:
        """Changed lines, of all files together."""
        return sum(file.changed for file in self.files)

    def problems(self, *, max_files: int | None, max_lines: int | None) -> list[Problem]:
        """What is too much."""
        problems: list[Problem] = []
        if max_files is not None and len(self.files) > max_files:
            message = f"the edit touches {len(self.files)} files, {max_files} are allowed"
            problems.append(Problem(message=message, remedy="touch fewer files"))
        if max_lines is not None and self.changed > max_lines:
            message = f"the edit changes {self.changed} lines, {max_lines} are allowed"
            problems.append(Problem(message=message, remedy="make a smaller edit"))
        return problems


def file_change(path: str, before: str, after: str) -> _FileChange:
    """How a file differs, line by line."""
    count = count_changed_lines(before, after)
    shown = summarize_diff({path: before.encode()}, {path: after.encode()}, max_chars=_MOST_CHARS)
    return _FileChange(path=path, added=count.added, removed=count.removed, diff=shown.text)


# -- The decision of the artifact loop ------------------------------------------------------------


_TAMPERING = "Tampering"
"""The error of a run that touched what it must leave alone."""
MAX_MISSING = 0.0
"""One case is all there is: if it is missing, nobody can tell."""


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
        return _runs_at_last(candidate, objective)
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


def crashed(candidate: Evaluation) -> Decision | None:
    """The decision on a candidate that does not run, whatever the incumbent does."""
    if not candidate.failed_cases():
        return None
    failure = next(r.outcome.failure for r in candidate.results if r.outcome.failure)
    if failure.error == _TAMPERING:
        return decide("strict", "tampering", failure.message, {})
    reason = f"the candidate crashed: {failure.message}"
    return decide("strict", "crash", reason, {"crashed": 1.0})


def _runs_at_last(candidate: Evaluation, objective: Objective) -> Decision:
    """Where what was there did not run, whatever runs and keeps the constraints is better."""
    if candidate.missing_cases(objective.weights):
        return decide("strict", "missing", "cannot tell: the run is missing", {})
    broken = broken_constraint("strict", objective, objective.measure(candidate))
    return broken or decide("strict", "better", "it runs, and what was there did not", {})


# -- What metrics said of a run beside their numbers ----------------------------------------------


_MOST = 3000
"""Characters of one remark."""


def remarks_on(evaluation: Evaluation) -> list[str]:
    """What the metrics found fault with in the last run, and where judges did not agree."""
    return [
        f"{score.metric}: {without_middle(remark, _MOST)}"
        for score in _scores(evaluation)
        for remark in (score.reason, disagreement(score))
        if remark
    ]


def disagreements(evaluation: Evaluation) -> tuple[str, ...] | None:
    """Where judges did not agree, for the ledger; None where they did."""
    scores = _scores(evaluation)
    apart = tuple(f"{s.metric}: {words}" for s in scores if (words := disagreement(s)))
    return apart or None


def disagreement(score: Score) -> str:
    """How far apart the judges of a score are, in words; '' where they agree or one judged."""
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


# -- An attempt -----------------------------------------------------------------------------------


_PHASE = "edit"
KEEP, DISCARD, CRASH = "keep", "discard", "crash"
HOLDOUT = "holdout_"
"""Begins the code of a decision that holdout made."""


@dataclass(frozen=True, kw_only=True)
class EditIncumbent:
    """The files that are ahead, with everything that was measured of them."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None = None
    trial: int = 0


@dataclass(frozen=True, kw_only=True)
class EditAttempt:
    """What is known so far; each stage gives the next one, with more in it."""

    iteration: int
    parent: Candidate
    proposal: Proposal | None = None
    rationale: str = ""
    candidate: Candidate | None = None
    problems: tuple[Problem, ...] = ()
    train: Evaluation | None = None
    holdout: Evaluation | None = None
    decision: Decision | None = None

    @property
    def word(self) -> str:
        """What became of it: keep, discard or crash."""
        if self.decision is not None and self.decision.accepted:
            return KEEP
        crashed = self.decision is not None and self.decision.code in (CRASH, HOLDOUT + CRASH)
        return CRASH if crashed else DISCARD

    @property
    def why(self) -> str:
        """Why it was kept or not."""
        reason = self.decision.reason if self.decision else ""
        return "; ".join(map(str, self.problems)) or reason

    @property
    def origin(self) -> Origin:
        """Where the candidate comes from, with the idea as its note."""
        note = self.rationale.strip().split("\n")[0][:60] or "an edit"
        return Origin(kind="proposal", by="edits", note=note)

    def trial(self, objective: Objective, primary: str) -> Trial:
        """The row of the ledger."""
        candidate = self.candidate or self.parent.child({}, origin=self.origin)
        changes = Changes.between(self.parent, candidate)
        return Trial(
            candidate=candidate,
            phase=_PHASE,
            cycle=self.iteration,
            touched=tuple(change.surface for change in diff(self.parent, candidate)),
            proposals=() if self.proposal is None else (self.proposal,),
            problems=self.problems,
            train=None if self.train is None else SplitResult.of(self.train, objective),
            holdout=None if self.holdout is None else SplitResult.of(self.holdout, objective),
            decision=None if self.problems else self.decision,
            details=EditDetails(
                decision=self.word,
                rationale=self.rationale,
                changes=changes.files,
                primary=primary_values(primary, objective, self.train, self.holdout),
                disagreement=None if self.train is None else disagreements(self.train),
            ).to_json(),
        )


@dataclass(frozen=True, kw_only=True)
class EditDetails(TrialDetails):
    """What the loop keeps of each edit; of the start, only its number and the judges."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {
        *("decision", "rationale", "changes", "disagreement"),
    }

    decision: str | None = None
    """`keep`, `discard` or `crash`."""
    rationale: str | None = None
    """What the editor said of it."""
    changes: tuple[_FileChange, ...] | None = None
    disagreement: tuple[str, ...] | None = None
    """Where the judges of a score did not agree."""


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


# -- What the editor reads of the runs so far -----------------------------------------------------


_REMEMBERED = 5
"""Edits turned down that the editor is told of."""
_MOST_LOG = 3000
"""Characters of one log."""


@dataclass(frozen=True, kw_only=True)
class EditRequestWriter:
    """Writes requests to the editor. What holdout says never lies on it."""

    settings: EditsSettings
    objective: Objective
    surfaces: Sequence[FileSurface]
    rules: Sequence[str] = ()
    """What the target itself says of edits, such as the types of files."""

    def request(
        self, candidate: Candidate, train: Evaluation, turned_down: Sequence[EditAttempt]
    ) -> EditRequest:
        """What to ask, from where the loop stands."""
        return EditRequest(
            task=self.settings.task or "(the task has no description)",
            files="\n\n".join(self._file(s, candidate) for s in self.surfaces),
            feedback="\n\n".join([self._numbers(train), *remarks_on(train), *_logs_of(train)]),
            bounds="\n".join(self._bounds()),
            turned_down="\n\n".join(map(_turned_down, turned_down[-_REMEMBERED:])) or "(nothing)",
            texts={surface.path: str(candidate.values[surface.id]) for surface in self.surfaces},
        )

    def _file(self, surface: FileSurface, candidate: Candidate) -> str:
        return f"=== {surface.path}\n{candidate.values[surface.id]}\n=== end of {surface.path}"

    def _numbers(self, train: Evaluation) -> str:
        values = self.objective.measure(train).values
        lines = [f"{name}: {value:g}" for name, value in sorted(values.items())]
        return "\n".join(lines) or "(the present files gave no numbers)"

    def _bounds(self) -> list[str]:
        settings = self.settings
        goal = "as high" if settings.direction == "maximize" else "as low"
        lines = [f"- {settings.primary} should be {goal} as can be"]
        lines += [f"- must hold: {constraint}" for constraint in self.objective.constraints]
        lines += [
            f"- at a tie, {breaker.prefer} {breaker.metric} wins"
            for breaker in self.objective.tie_breakers
        ]
        if settings.max_files is not None:
            lines.append(f"- an edit may touch at most {settings.max_files} files")
        if settings.max_changed_lines is not None:
            lines.append(
                f"- and change at most {settings.max_changed_lines} lines, added + removed"
            )
        return [*lines, *(f"- {rule}" for rule in self.rules)]


def _logs_of(evaluation: Evaluation) -> list[str]:
    """What runner and scorer said in the last run, and why it failed if it did."""
    if not evaluation.results:
        return []
    outcome = evaluation.results[-1].outcome
    lines = (
        [f"it failed: {without_middle(outcome.failure.message, _MOST_LOG)}"]
        if (outcome.failure is not None)
        else []
    )
    parts: Mapping[str, Json] = outcome.data if isinstance(outcome.data, dict) else {}
    for part, streams in parts.items():
        lines += [
            f"{part} {stream}:\n{without_middle(text, _MOST_LOG)}"
            for stream, text in _texts(streams)
            if text.strip()
        ]
    return lines


def _texts(streams: Json) -> list[tuple[str, str]]:
    texts = streams if isinstance(streams, dict) else {}
    return [(name, text) for name, text in texts.items() if isinstance(text, str)]


def _turned_down(attempt: EditAttempt) -> str:
    idea = attempt.rationale or "(no rationale)"
    if attempt.holdout is not None:
        # Neither numbers nor logs of holdout may reach an editor.
        return f"- {idea}\n  {attempt.word}: better here, and not where it is decided"
    line = f"- {idea}\n  {attempt.word}: {attempt.why}"
    crashed = attempt.train is not None and bool(attempt.train.failed_cases())
    if not crashed or attempt.train is None:
        return line
    return "\n".join([line, *(f"  {log}" for log in _logs_of(attempt.train))])
