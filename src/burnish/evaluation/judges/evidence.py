"""What judges are shown: talk, passages and tool uses as text that cannot leave its tag."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from burnish.core.cases import Case
from burnish.core.content import Json, canonical
from burnish.core.outcomes import ToolCall
from burnish.evaluation.exchanges import Exchange

Shown = TypeVar("Shown", bound=BaseModel)

NONE = "(none)"
"""What stands in a tag that has nothing to show."""
EXCERPT = 160
REASON = 400
"""How much of a judge's own words goes into a reason."""

_TAG = re.compile(r"</?([A-Za-z_][\w-]*)>")
_FILLER = r"[\s/\u200b-\u200d\u2060\ufeff]*"
"""What may stand between a bracket and a name without a model minding."""
_SPEAKERS = {"assistant": "agent"}


def tags_in(*templates: str) -> frozenset[str]:
    """The names of the tags that a prompt puts around its evidence."""
    return frozenset(name for text in templates for name in _TAG.findall(text))


def guarded(text: str, tags: Collection[str]) -> str:
    """The text with every tag of the prompt made plain, so that nothing in it can close one.

    Only the prompt's own tags are touched: other markup is part of what is judged.
    """
    if not tags:
        return text
    names = "|".join(re.escape(name) for name in sorted(tags))
    return re.sub(rf"<(?={_FILLER}(?:{names})\b)", "&lt;", text, flags=re.IGNORECASE)


def sealed(request: Shown, tags: Collection[str]) -> Shown:
    """The request with all its texts guarded."""
    texts = {name: guarded(value, tags) for name, value in request if isinstance(value, str)}
    return request.model_copy(update=texts)


def excerpt(text: str, limit: int = EXCERPT) -> str:
    """The text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def said(exchange: Exchange) -> str:
    """What the agent answered; its structured answer where it said nothing."""
    if exchange.reply.strip() or exchange.data is None:
        return exchange.reply
    return as_text(exchange.data)


def shown(text: str | None) -> str:
    """The text, or that there is none."""
    return text if text is not None and text.strip() else NONE


def context_messages(case: Case) -> str:
    """What was said before the first turn."""
    return _lines((_SPEAKERS.get(m.role, m.role), m.content) for m in case.history)


def conversation(exchange: Exchange) -> str:
    """What was said in the turns before this one."""
    pairs = exchange.earlier
    return _lines(line for asked, reply in pairs for line in (("user", asked), ("agent", reply)))


def before(exchange: Exchange) -> str:
    """All that was said before this turn: the context messages and the turns."""
    told = [context_messages(exchange.case), conversation(exchange)]
    return "\n".join(text for text in told if text != NONE) or NONE


def numbered(texts: Sequence[str]) -> str:
    """The texts under their numbers, from 1; further lines of a text are set in."""
    return "\n".join(f"{n}. {_set_in(text)}" for n, text in enumerate(texts, 1)) or NONE


def tool_uses(tools: Iterable[ToolCall]) -> str:
    """Each use of a tool: what was asked and what came back."""
    return numbered([_use(tool) for tool in tools])


def brought(tool: ToolCall) -> tuple[str, ...]:
    """What a tool brought back: its passages, else its result as one text."""
    if tool.passages:
        return tool.passages
    whole = "" if tool.result is None else as_text(tool.result)
    return (whole,) if whole.strip() else ()


def as_text(value: Json) -> str:
    """A string as it is, anything else as JSON."""
    return value if isinstance(value, str) else canonical(value).decode()


def _use(tool: ToolCall) -> str:
    call = f"{tool.name}({as_text(dict(tool.arguments))})"
    failed = [f"error: {tool.error}"] if tool.error else []
    return "\n".join([call, *(f"gave: {text}" for text in brought(tool)), *failed])


def _lines(spoken: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{who}: {_set_in(text)}" for who, text in spoken) or NONE


def _set_in(text: str) -> str:
    # So that no text can begin a line that looks like the next item, or the next speaker.
    return text.strip().replace("\n", "\n    ")
