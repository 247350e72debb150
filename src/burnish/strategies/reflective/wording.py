"""What the reflector is told and answers."""

from pydantic import BaseModel, ConfigDict

from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt

ROLE = "reflector"


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReflectRequest(_Words):
    """What the reflector sees."""

    field: str
    """The text to rewrite."""
    current_text: str
    records: str
    """The cases of the minibatch: asked, expected, said, and what each metric says of it."""
    other_texts: str
    """The texts beside it, which stay as they are."""
    rejected: str
    """What was tried from this text and turned down, and why."""
    must_keep: str
    """Placeholders and frozen parts."""
    max_chars: int


class Reflection(_Words):
    """A diagnosis, and the text that follows from it."""

    diagnosis: str
    new_text: str


def reflector(client: ModelClient, prompt: RolePrompt) -> ModelRole[ReflectRequest, Reflection]:
    """The role that rewrites one text."""
    return ModelRole(
        name=ROLE,
        request_type=ReflectRequest,
        answer_type=Reflection,
        prompt=prompt,
        client=client,
    )
