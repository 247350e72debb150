"""Messages of an EvalSet: their text, and how a text is put back into one."""

from typing import TypeVar

from pydantic import ValidationError

from burnish.core.content import Json
from burnish.core.messages import Speaker
from burnish.evaluation.datasets.evalset_message_shapes import MessageShape, PartShape, Shape

S = TypeVar("S", bound=Shape)

EVALSET, PROMPTITER = "evalset", "promptiter"


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
    if message is None or format_of(message) != format:
        return plain(text, speaker, format)
    if text_of(message) == text:
        return message.kept()
    if format == PROMPTITER:
        rest = {k: v for k, v in message.kept().items() if k != "content_parts"}
        return {**rest, "content": text}
    others: list[Json] = [part.kept() for part in message.parts or () if not _is_said(part)]
    return {**message.kept(), "parts": [{"text": text}, *others]}


def shape_of(kept: Json, model: type[S]) -> S | None:
    """What was kept, looked into; None where it is not what it should be."""
    try:
        return None if kept is None else model.model_validate(kept)
    except ValidationError:
        return None


def format_of(message: MessageShape) -> str:
    """Whose files have such messages."""
    return PROMPTITER if message.parts is None else EVALSET


def _is_said(part: PartShape) -> bool:
    return part.text is not None and not part.thought
