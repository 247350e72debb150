"""Asking for a better text: one question a text, the most promising answer wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Split
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.money import Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import Proposal, TrialDetails
from burnish.delegation.policy import MOST_CHARS
from burnish.delegation.training.settings import step_words
from burnish.metrics.text_matching import without_middle
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RewrittenText, RolePrompt
from burnish.runs.roles import transcript
from burnish.runs.run import Run

ROLE = "textgrad"
_SHOWN_UPDATES = 6
_SHOWN_CHARS = 2000
"""How many earlier updates the role sees, and how much of the text of each."""


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
        return 0.0 if self.artifact_name is None else self.expected_loss_reduction * self.confidence


def textgrad(client: ModelClient, prompt: RolePrompt) -> ModelRole[TextGradRequest, TextGrad]:
    """The role that proposes how one text should change, if it is to blame."""
    return ModelRole(
        name=ROLE,
        request_type=TextGradRequest,
        answer_type=TextGrad,
        prompt=prompt,
        client=client,
        check=_unfit,
        rewrite=RewrittenText(
            part="proposed_content",
            current=lambda request: request.current_text,
            proposes=lambda answer: answer.artifact_name is not None,
        ),
    )


def _unfit(request: TextGradRequest, answer: TextGrad) -> str:
    if answer.artifact_name is None:
        return ""
    if answer.artifact_name != request.artifact_name:
        return f"artifact_name must be '{request.artifact_name}', or null to leave it as it is"
    if not answer.proposed_content.strip():
        return "proposed_content is empty; give the whole new text, or null for artifact_name"
    if (length := len(answer.proposed_content)) > request.max_chars:
        return f"proposed_content has {length} characters, {request.max_chars} are allowed"
    return ""


@dataclass(frozen=True, kw_only=True)
class _Proposed:
    """The result of asking about every text."""

    ranked: tuple[TextGrad, ...]
    """The real changes, the most promising first; at most one a text."""
    proposals: tuple[Proposal, ...]
    """The requests and answers, for the record."""
    declined: bool
    """Whether all requests were answered and nothing should change."""


@dataclass(frozen=True, kw_only=True)
class TextUpdate:
    """A change of one text and its expected gain."""

    artifact: str = ""
    rationale: str = ""
    expected_loss_reduction: int | float | None = None
    confidence: int | float | None = None


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """The ledger's entry for one run of a task."""

    run_id: str | None = None
    task: str = ""
    draw: int = 0
    split: Split = Split.TRAIN
    loss: int | float | None = None
    status: str = ""
    parts: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class EpochDetails(TrialDetails):
    """The ledger's entry for one epoch."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {
        *("learning_rate", "update", "runs", "stays"),
    }

    epoch: int = 0
    learning_rate: int | float | None = None
    update: TextUpdate | None = None
    runs: tuple[TaskRun, ...] | None = None
    stays: bool | None = None
    """Whether the candidate is kept without being better."""


@dataclass(frozen=True, kw_only=True)
class _Tried:
    """An update and what came of it."""

    artifact: str
    text: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Proposing:
    """Asks the role about every text."""

    run: Run
    role: Role[TextGradRequest, TextGrad]
    tried: list["_Tried"] = field(default_factory=list["_Tried"])
    """The updates that were tried or turned away."""

    @property
    def surfaces(self) -> Sequence[TextSurface]:
        return [s for s in self.run.target.surfaces if isinstance(s, TextSurface)]

    def cost(self, candidate: Candidate, train: Evaluation, rate: float) -> Spend:
        """What it may cost to ask about every text."""
        requests = (self.request(each, candidate, train, rate) for each in self.surfaces)
        return total(map(self.role.estimate, requests))

    async def propose(
        self, candidate: Candidate, train: Evaluation, *, rate: float, epoch: int
    ) -> _Proposed:
        """The most promising change of one text."""
        requests = [self.request(each, candidate, train, rate) for each in self.surfaces]
        # The same evidence may be looked at again: another draw, another view.
        replies = await self.run.ask_together(self.role, requests, draw=epoch * len(requests))
        answers = [each.answer for each in replies if each.answer is not None]
        useful = [
            each
            for each in answers
            if each.promise > 0
            and str(candidate.values.get(str(each.artifact_name), "")) != each.proposed_content
        ]
        return _Proposed(
            ranked=tuple(sorted(useful, key=lambda answer: -answer.promise)),
            proposals=tuple(each.proposal for each in replies),
            declined=not useful and len(answers) == len(replies),
        )

    def remember(self, update: TextGrad, outcome: str) -> None:
        """Note what came of an update, for later requests; one that comes again is noted once."""
        name = str(update.artifact_name)
        words = f"{name}: {update.rationale or 'no reason given'} → {outcome}"
        if self.run.secrets.shows([words, update.proposed_content]) and all(
            (each.artifact, each.text) != (name, update.proposed_content) for each in self.tried
        ):
            self.tried.append(_Tried(artifact=name, text=update.proposed_content, words=words))

    def _tried_words(self, artifact: str) -> str:
        """The latest updates; those of this text with the text that was tried."""
        return "\n".join(
            f"{each.words}\n{indent(without_middle(each.text, _SHOWN_CHARS), '  | ')}"
            if each.artifact == artifact
            else each.words
            for each in self.tried[-_SHOWN_UPDATES:]
        )

    def request(
        self, surface: TextSurface, candidate: Candidate, train: Evaluation, rate: float
    ) -> TextGradRequest:
        """What the role sees of one text."""
        values = {name: str(value) for name, value in candidate.values.items()}
        others = [f"## {n}\n{text.strip()}" for n, text in values.items() if n != surface.id]
        loss = self.run.objective.measure(train).loss
        required = [*surface.placeholders, *surface.frozen]
        return TextGradRequest(
            artifact_name=surface.id,
            current_text=values[surface.id],
            mean_loss="unknown" if loss is None else f"{loss:.4f}",
            runs=self._runs(train),
            other_texts="\n\n".join(others),
            tried=self._tried_words(surface.id),
            learning_rate=f"{rate:g}: {step_words(rate)}",
            must_keep="\n".join(required),
            max_chars=surface.max_chars or MOST_CHARS,
        )

    def _runs(self, train: Evaluation) -> str:
        """The worst run of each task with its feedback, the worst task first."""
        cases = {case.id: case for case in self.run.dataset.train}
        results = [result for result in train.results if not result.outcome.missing]

        def score(result: CaseResult) -> float:
            return min((each.value or 0.0 for each in result.scores), default=0.0)

        worst: dict[str, CaseResult] = {}
        for result in sorted(results, key=score):
            worst.setdefault(result.case, result)
        transcripts = (transcript(result, cases[case]) for case, result in worst.items())
        shown = [text for text in transcripts if self.run.secrets.shows(text)]
        return "\n\n".join(shown[:12]) or "(none)"
