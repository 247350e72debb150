"""How long a prompt may become."""

import math
from collections.abc import Mapping

_ASCII_PER_TOKEN = 4
"""Characters of plain text that make about one token; others are taken for a token each."""


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its ASCII characters, and every other one.

    No tokenizer is asked: it would be another one for every model.
    """
    plain = sum(character.isascii() for character in text)
    return math.ceil(plain / _ASCII_PER_TOKEN) + len(text) - plain


def prompt_limits(
    values: Mapping[str, str], *, max_chars: int | None, max_tokens: int | None
) -> dict[str, int]:
    """The most characters of each field; tokens are turned into characters of its own language."""
    limits: dict[str, int] = {}
    for name, text in values.items():
        per_token = len(text) / estimated_tokens(text) if text else _ASCII_PER_TOKEN
        in_tokens = None if max_tokens is None else math.floor(max_tokens * per_token)
        said = [limit for limit in (max_chars, in_tokens) if limit is not None]
        if said:
            limits[name] = min(said)
    return limits
