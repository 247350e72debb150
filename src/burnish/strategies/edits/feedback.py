"""What the editor reads of the runs so far: numbers, logs, and what was turned down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnish.core.candidates import Candidate
from burnish.core.content import Json
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.surfaces import FileSurface
from burnish.evaluation.matching.excerpts import without_middle
from burnish.strategies.edits.attempts import Attempt
from burnish.strategies.edits.judging import remarks_on
from burnish.strategies.edits.settings import EditsSettings
from burnish.strategies.edits.wording import EditRequest

REMEMBERED = 5
"""Edits turned down that the editor is told of."""
MOST_LOG = 3000
"""Characters of one log."""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Writes requests to the editor. What holdout says never lies on it."""

    settings: EditsSettings
    objective: Objective
    surfaces: Sequence[FileSurface]
    rules: Sequence[str] = ()
    """What the target itself says of edits, such as the types of files."""

    def request(
        self, candidate: Candidate, train: Evaluation, turned_down: Sequence[Attempt]
    ) -> EditRequest:
        """What to ask, from where the loop stands."""
        return EditRequest(
            task=self.settings.task or "(the task has no description)",
            files="\n\n".join(self._file(s, candidate) for s in self.surfaces),
            feedback="\n\n".join([self._numbers(train), *remarks_on(train), *logs_of(train)]),
            bounds="\n".join(self._bounds()),
            turned_down="\n\n".join(map(_turned_down, turned_down[-REMEMBERED:])) or "(nothing)",
            texts={surface.path: str(candidate.values[surface.id]) for surface in self.surfaces},
        )

    def _file(self, surface: FileSurface, candidate: Candidate) -> str:
        return f"=== {surface.path}\n{candidate.values[surface.id]}\n=== end of {surface.path}"

    def _numbers(self, train: Evaluation) -> str:
        values = self.objective.measure(train).values
        told = [f"{name}: {value:g}" for name, value in sorted(values.items())]
        return "\n".join(told) or "(the present files gave no numbers)"

    def _bounds(self) -> list[str]:
        settings = self.settings
        goal = "as high" if settings.direction == "maximize" else "as low"
        told = [f"- {settings.primary} should be {goal} as can be"]
        told += [f"- must hold: {constraint}" for constraint in self.objective.constraints]
        told += [
            f"- at a tie, {breaker.prefer} {breaker.metric} wins"
            for breaker in self.objective.tie_breakers
        ]
        if settings.max_files is not None:
            told.append(f"- an edit may touch at most {settings.max_files} files")
        if settings.max_changed_lines is not None:
            told.append(f"- and change at most {settings.max_changed_lines} lines, added + removed")
        return [*told, *(f"- {rule}" for rule in self.rules)]


def logs_of(evaluation: Evaluation) -> list[str]:
    """What runner and scorer said in the last run, and why it failed if it did."""
    if not evaluation.results:
        return []
    outcome = evaluation.results[-1].outcome
    told = (
        [f"it failed: {without_middle(outcome.failure.message, MOST_LOG)}"]
        if (outcome.failure is not None)
        else []
    )
    parts: Mapping[str, Json] = outcome.data if isinstance(outcome.data, dict) else {}
    for part, said in parts.items():
        told += [
            f"{part} {stream}:\n{without_middle(text, MOST_LOG)}"
            for stream, text in _texts(said)
            if text.strip()
        ]
    return told


def _texts(said: Json) -> list[tuple[str, str]]:
    given = said if isinstance(said, dict) else {}
    return [(name, text) for name, text in given.items() if isinstance(text, str)]


def _turned_down(attempt: Attempt) -> str:
    idea = attempt.rationale or "(no rationale)"
    if attempt.holdout is not None:
        # Neither numbers nor logs of holdout may reach an editor.
        return f"- {idea}\n  {attempt.word}: better here, and not where it is decided"
    told = f"- {idea}\n  {attempt.word}: {attempt.why}"
    crashed = attempt.train is not None and bool(attempt.train.failed_cases())
    if not crashed or attempt.train is None:
        return told
    return "\n".join([told, *(f"  {log}" for log in logs_of(attempt.train))])
