"""Asking for a better text: one question a text, the most promising answer wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.protocols import Role
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import Proposal, TrialDetails
from burnish.delegation.training.settings import MOST_CHARS, step_words
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.runs.roles import transcript
from burnish.runs.run import Run

ROLE = "textgrad"


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class TextGradRequest(_Words):
    """What is shown of one text, and of how the suite went under all of them."""

    artifact_name: str
    current_text: str
    mean_loss: str
    runs: str
    """The tasks of train: asked, reported, and what critic, gates and metrics said."""
    other_texts: str
    tried: str
    """What was tried before, and what came of it."""
    learning_rate: str
    """How large a step may be, as a number and in words."""
    must_keep: str
    max_chars: int


class TextGrad(_Words):
    """A new text with what it is hoped to bring; no name, and nothing is proposed."""

    artifact_name: str | None = None
    proposed_content: str = ""
    rationale: str = ""
    expected_loss_reduction: Annotated[float, Field(ge=0, le=1)] = 0.0
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.0

    @property
    def promise(self) -> float:
        """What it is expected to bring, as sure as it is."""
        return 0.0 if self.artifact_name is None else self.expected_loss_reduction * self.confidence


def textgrad(client: ModelClient, prompt: RolePrompt) -> ModelRole[TextGradRequest, TextGrad]:
    """The role that says how one text should change, if it is to blame."""
    return ModelRole(
        name=ROLE,
        request_type=TextGradRequest,
        answer_type=TextGrad,
        prompt=prompt,
        client=client,
        check=_unfit,
    )


def _unfit(request: TextGradRequest, answer: TextGrad) -> str:
    """What is wrong with an answer that keeps its schema."""
    if answer.artifact_name is None:
        return ""
    if answer.artifact_name != request.artifact_name:
        return f"artifact_name must be '{request.artifact_name}', or null to leave it as it is"
    if not answer.proposed_content.strip():
        return "proposed_content is empty; give the whole new text, or null for artifact_name"
    if (length := len(answer.proposed_content)) > request.max_chars:
        return f"proposed_content has {length} characters, {request.max_chars} are allowed"
    return ""


_REMEMBERED = 6
"""Attempts that the role is told of."""
_MOST_RUNS = 12


@dataclass(frozen=True, kw_only=True)
class TriedUpdate:
    """Something that was tried, and what came of it."""

    text: str
    """The name of the text that was changed."""
    rationale: str
    outcome: str

    def line(self) -> str:
        """In one line."""
        return f"{self.text}: {self.rationale or 'no reason given'} → {self.outcome}"


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """What six questions brought."""

    best: TextGrad | None
    """None where nobody wants a change that is one."""
    proposals: tuple[Proposal, ...]
    """What was asked and said, for the record."""
    declined: bool
    """Whether everybody answered, and nobody sees anything to change."""

    @property
    def update(self) -> "TextUpdate | None":
        """The change that is tried, for the ledger."""
        best = self.best
        if best is None:
            return None
        return TextUpdate(
            artifact=str(best.artifact_name),
            rationale=best.rationale,
            expected_loss_reduction=best.expected_loss_reduction,
            confidence=best.confidence,
        )


@dataclass(frozen=True, kw_only=True)
class TextUpdate:
    """A change of one text, and what was hoped of it."""

    artifact: str = ""
    rationale: str = ""
    expected_loss_reduction: int | float | None = None
    confidence: int | float | None = None


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """What the ledger keeps of one run of a task."""

    run_id: str | None = None
    task: str = ""
    draw: int = 0
    split: Split = Split.TRAIN
    loss: int | float | None = None
    status: str = ""
    parts: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the loss is made of."""


@dataclass(frozen=True, kw_only=True)
class EpochDetails(TrialDetails):
    """What a training keeps of each epoch."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {
        *("learning_rate", "update", "runs", "stays"),
    }

    epoch: int = 0
    learning_rate: int | float | None = None
    update: TextUpdate | None = None
    runs: tuple[TaskRun, ...] | None = None
    """Every run of a task."""
    stays: bool | None = None
    """Whether the candidate goes on without being better."""


@dataclass(frozen=True, kw_only=True)
class Proposing:
    """Asks the role about every text."""

    run: Run
    role: Role[TextGradRequest, TextGrad]
    tried: list[TriedUpdate] = field(default_factory=list[TriedUpdate])

    @property
    def surfaces(self) -> Sequence[TextSurface]:
        """The texts that may change."""
        return [s for s in self.run.target.surfaces if isinstance(s, TextSurface)]

    async def propose(
        self, candidate: Candidate, train: Evaluation, *, rate: float, epoch: int
    ) -> Proposed:
        """The most promising change of one text."""
        requests = [self.request(each, candidate, train, rate) for each in self.surfaces]
        # The same evidence may be looked at again: another draw, another view.
        replies = await self.run.ask_together(self.role, requests, draw=epoch * len(requests))
        answers = [each.answer for each in replies if each.answer is not None]
        useful = [each for each in answers if each.promise > 0 and not _unchanged(each, candidate)]
        best = max(useful, key=lambda answer: answer.promise, default=None)
        return Proposed(
            best=best,
            proposals=tuple(each.proposal for each in replies),
            declined=best is None and len(answers) == len(replies),
        )

    def request(
        self, surface: TextSurface, candidate: Candidate, train: Evaluation, rate: float
    ) -> TextGradRequest:
        """What the role sees of one text."""
        values = candidate.values
        others = {n: str(v) for n, v in values.items() if n != surface.id}
        loss = self.run.objective.measure(train).loss
        required = [*surface.placeholders, *surface.frozen]
        return TextGradRequest(
            artifact_name=surface.id,
            current_text=str(values[surface.id]),
            mean_loss="unknown" if loss is None else f"{loss:.4f}",
            runs=self._runs(train),
            other_texts=_listed(others),
            tried="\n".join(each.line() for each in self.tried[-_REMEMBERED:]) or "(nothing)",
            learning_rate=f"{rate:g}: {step_words(rate)}",
            must_keep="\n".join(required) or "(nothing)",
            max_chars=surface.max_chars or MOST_CHARS,
        )

    def _runs(self, train: Evaluation) -> str:
        """The worst run of each task, the worst task first, with all that was said of it."""
        cases = {case.id: case for case in self.run.dataset.train}
        results = [result for result in train.results if not result.outcome.missing]
        worst: dict[str, CaseResult] = {}
        for result in sorted(results, key=_score):
            worst.setdefault(result.case, result)
        transcripts = (transcript(result, cases[case]) for case, result in worst.items())
        shown = [text for text in transcripts if self.run.secrets.leaked(text) is None]
        return "\n\n".join(shown[:_MOST_RUNS]) or "(none)"


def _score(result: CaseResult) -> float:
    return min((score.value or 0.0 for score in result.scores), default=0.0)


def _unchanged(answer: TextGrad, candidate: Candidate) -> bool:
    return str(candidate.values.get(str(answer.artifact_name), "")) == answer.proposed_content


def _listed(texts: Mapping[str, str]) -> str:
    return "\n\n".join(f"## {name}\n{text.strip()}" for name, text in texts.items()) or "(none)"
