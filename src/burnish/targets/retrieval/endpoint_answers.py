"""What an endpoint answers to a request for embeddings."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError


@dataclass(frozen=True, kw_only=True)
class Embeddings:
    """What an endpoint gave for some texts."""

    vectors: Sequence["array[float]"]
    tokens: int = 0
    model: str = ""
    """What the endpoint says it is."""


class _Item(BaseModel):
    embedding: list[float]
    index: int | None = None


class _Used(BaseModel):
    prompt_tokens: int = 0


class _Answer(BaseModel):
    data: list[_Item]
    usage: _Used | None = None
    model: str | None = None


def read_answer(body: bytes, texts: int) -> Embeddings | None:
    """The vectors in the order of the texts; None where the answer does not fit them."""
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError:
        return None
    items = sorted(answer.data, key=lambda item: item.index or 0)
    lengths = {len(item.embedding) for item in items}
    finite = all(math.isfinite(number) for item in items for number in item.embedding)
    if len(items) != texts or len(lengths) != 1 or 0 in lengths or not finite:
        return None
    return Embeddings(
        vectors=[array("f", item.embedding) for item in items],
        tokens=answer.usage.prompt_tokens if answer.usage else 0,
        model=answer.model or "",
    )
