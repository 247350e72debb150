"""What the role `textgrad` is told and answers."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from burnish.models.calling import ModelClient
from burnish.models.prompts import RolePrompt
from burnish.models.roles import ModelRole

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
