"""Messages of an EvalSet: their text, and how a text is put back into one."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from burnish.core.content import Json
from burnish.core.messages import Message, Speaker
from burnish.evaluation.datasets.complaints import listed
from burnish.evaluation.datasets.evalset_shapes import MessageShape, PartShape, Shape

S = TypeVar("S", bound=Shape)

EVALSET, PROMPTITER = "evalset", "promptiter"
_SPEAKERS: dict[str, Speaker] = {"system": "system", "model": "assistant", "assistant": "assistant"}


def text_of(message: MessageShape | None) -> str:
    """What a message says: its texts by line, without what the model only thought."""
    if message is None:
        return ""
    if message.parts is not None:
        return "\n".join(part.text or "" for part in message.parts if _is_said(part))
    if message.content_parts:
        texts = [part.get("text") for part in message.content_parts]
        return "\n".join(text for text in texts if isinstance(text, str))
    return message.content or ""


def says_nothing(message: MessageShape) -> bool:
    """Whether there is nothing at all in a message."""
    held = (message.content, message.parts, message.content_parts, message.tool_calls)
    return all(value is None or value == [] for value in held)


def plain(text: str, speaker: Speaker, format: str) -> dict[str, Json]:  # noqa: A002
    """A message of one text, as the format writes it."""
    if format == PROMPTITER:
        return {"role": speaker, "content": text}
    return {"role": "model" if speaker == "assistant" else speaker, "parts": [{"text": text}]}


def kept_message(message: MessageShape | None, speaker: Speaker) -> dict[str, Json] | None:
    """The message where it is more than a plain text, else None."""
    if message is None:
        return None
    whole, text = message.kept(), text_of(message)
    return None if whole in [plain(text, speaker, f) for f in (EVALSET, PROMPTITER)] else whole


def told(kept: Json, text: str, speaker: Speaker, format: str) -> dict[str, Json]:  # noqa: A002
    """A message that says `text`: the one that was kept, as far as the format can hold it."""
    message = shape_of(kept, MessageShape)
    if message is None or _format_of(message) != format:
        return plain(text, speaker, format)
    if text_of(message) == text:
        return message.kept()
    if format == PROMPTITER:
        rest = {k: v for k, v in message.kept().items() if k != "content_parts"}
        return {**rest, "content": text}
    others: list[Json] = [part.kept() for part in message.parts or () if not _is_said(part)]
    return {**message.kept(), "parts": [{"text": text}, *others]}


def history_of(messages: Sequence[MessageShape]) -> tuple[Message, ...]:
    """What was said before, as a case holds it; a message of calls alone says nothing."""
    return tuple(
        Message(role=_SPEAKERS.get(message.role or "", "user"), content=text_of(message))
        for message in messages
        if text_of(message) or not _has_more(message)
    )


def kept_history(messages: Sequence[MessageShape]) -> list[Json] | None:
    """The messages where they are more than plain texts, else None."""
    whole: list[Json] = [message.kept() for message in messages]
    said = history_of(messages)
    plainly = [_history_told(said, style) for style in (EVALSET, PROMPTITER)]
    return None if whole in plainly else whole


def history_told(kept: Json, said: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    """Messages that say this: those that were kept while they still do, else plain ones."""
    messages = [shape_of(one, MessageShape) for one in listed(kept)]
    whole = [message for message in messages if message]
    fits = len(whole) == len(messages) and all(_format_of(one) == format for one in whole)
    if whole and fits and history_of(whole) == tuple(said):
        return [message.kept() for message in whole]
    return _history_told(said, format)


def shape_of(kept: Json, model: type[S]) -> S | None:
    """What was kept, looked into; None where it is not what it should be."""
    try:
        return None if kept is None else model.model_validate(kept)
    except ValidationError:
        return None


def _history_told(said: Sequence[Message], format: str) -> list[Json]:  # noqa: A002
    return [plain(message.content, message.role, format) for message in said]


def _format_of(message: MessageShape) -> str:
    return PROMPTITER if message.parts is None else EVALSET


def _is_said(part: PartShape) -> bool:
    return part.text is not None and not part.thought


def _has_more(message: MessageShape) -> bool:
    return bool(message.parts or message.content_parts or message.tool_calls or message.tool_id)
