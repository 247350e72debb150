"""What the engine answered: its chunks as a reply, or as the trouble they tell of."""

from collections.abc import Sequence
from typing import cast

from pydantic import BaseModel, ValidationError

from burnish.core.outcomes import Usage
from burnish.models.chat import ChatReply, Finish
from burnish.models.embedded.engine import Chunk, Heard
from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRejected, ModelUnavailable

_FINISHES = {"stop", "length", "content_filter"}
_SERVER_ERROR = 500


class _Error(BaseModel):
    code: int = _SERVER_ERROR
    message: str = ""
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class _Delta(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    finish_reason: str | None = None
    delta: _Delta = _Delta()


class _Tokens(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Piece(BaseModel):
    """A chunk, read."""

    choices: list[_Choice] = []
    usage: _Tokens | None = None
    error: _Error | None = None
    model: str = ""


def read_reply(ref: ModelRef, heard: Heard) -> ChatReply:
    """The whole answer; what kept it from being whole is raised."""
    pieces = _read(ref, heard.chunks)
    choices = [choice for piece in pieces for choice in piece.choices]
    finish = next((c.finish_reason for c in choices if c.finish_reason), None)
    if finish is None:
        raise ModelUnavailable(f"{ref.label} stopped in the middle of its answer")
    tokens = next((p.usage for p in reversed(pieces) if p.usage), _Tokens())
    return ChatReply(
        text="".join(choice.delta.content or "" for choice in choices),
        finish=cast("Finish", finish) if finish in _FINISHES else "other",
        usage=Usage(
            requests=1, input_tokens=tokens.prompt_tokens, output_tokens=tokens.completion_tokens
        ),
        model=pieces[-1].model,
        seconds=heard.seconds,
    )


def _read(ref: ModelRef, chunks: Sequence[Chunk]) -> list[_Piece]:
    try:
        pieces = [_Piece.model_validate(chunk) for chunk in chunks]
    except ValidationError as error:
        raise ModelUnavailable(f"{ref.label} gave an answer that cannot be read") from error
    for piece in pieces:
        if piece.error is not None:
            raise _trouble(ref, piece.error)
    return pieces


def _trouble(ref: ModelRef, error: _Error) -> ModelRejected | ModelUnavailable:
    if error.n_prompt_tokens is not None and error.n_ctx is not None:
        return ModelRejected(
            f"the prompt has {error.n_prompt_tokens} tokens; {ref.label} takes {error.n_ctx}, "
            "its answer included"
        )
    if error.code >= _SERVER_ERROR:
        return ModelUnavailable(f"{ref.label} failed: {error.message}")
    return ModelRejected(f"{ref.label} cannot take this request: {error.message}")
