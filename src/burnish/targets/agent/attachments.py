"""Files that go with a case: pictures as pictures, everything else as text."""

import asyncio
import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from burnish.core.cases import Attachment, Case, Turn
from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.messages import Image
from burnish.effects.retries import RetryPolicy
from burnish.system import read_bytes
from burnish.system.files import Unreadable
from burnish.targets.agent.document_limits import looks_like, picture_type
from burnish.targets.agent.documents import (
    PICTURES,
    Part,
    bounded_content,
    name_of,
    require_name,
    sent_content,
    text_in,
    text_of,
    trouble,
)
from burnish.targets.agent.downloads import PATIENCE, download, full_address, kept_download


async def read_attachments(
    attachments: Sequence[Attachment], folder: Path, *, patience: RetryPolicy = PATIENCE
) -> tuple[list[str], list[Image]]:
    """The texts, each under the name of its file, and the pictures, in order.

    A picture has its name among the texts too, so that an agent can tell which is which.
    What the user has to mend is a FileTrouble; what nobody could fetch a ConnectionError.
    """
    texts: list[str] = []
    images: list[Image] = []
    for attachment in attachments:
        named = _named(attachment)
        if attachment.kind == "image":
            images.append(await _picture(attachment, folder, patience))
            texts.append(f"<image {named}/>")
        else:
            text = await _text(attachment, folder, patience)
            texts.append(f"<file {named}>\n{text}\n</file>")
    return texts, images


def picture_here(attachment: Attachment, folder: Path) -> Image:
    """A picture that is a file here, or came along; FileTrouble says what to mend."""
    try:
        Part.of(attachment)
        if attachment.data:
            return _picture_in(sent_content(attachment))
        return _picture_in(bounded_content(folder / attachment.path))
    except Unreadable as error:
        raise trouble(attachment, error) from error


def text_here(attachment: Attachment, folder: Path) -> str:
    """The text of a document that is a file here, or came along; FileTrouble likewise."""
    if not attachment.data:
        return text_of(attachment, folder / attachment.path)
    try:
        return text_in(attachment, sent_content(attachment))
    except Unreadable as error:
        raise trouble(attachment, error) from error


async def _picture(attachment: Attachment, folder: Path, patience: RetryPolicy) -> Image:
    if not attachment.url:
        return await asyncio.to_thread(picture_here, attachment, folder)
    content = await _downloaded(attachment, patience)
    try:
        return _picture_in(content)
    except Unreadable as error:
        raise trouble(attachment, error) from error


async def _text(attachment: Attachment, folder: Path, patience: RetryPolicy) -> str:
    # In a thread: a long document takes seconds to take apart, and other cases go on.
    if not attachment.url:
        return await asyncio.to_thread(text_here, attachment, folder)
    content = await _downloaded(attachment, patience)
    return await asyncio.to_thread(text_in, attachment, content)


async def _downloaded(attachment: Attachment, patience: RetryPolicy) -> bytes:
    fetch = kept_download if attachment.options.get("cache") is True else download
    try:
        Part.of(attachment)
        return await fetch(attachment.url, patience=patience)
    except Unreadable as error:
        raise trouble(attachment, error) from error


def _picture_in(content: bytes) -> Image:
    """The first bytes decide what it is: endpoints refuse a picture under a wrong name."""
    media_type = picture_type(content)
    if media_type is None:
        likeness = looks_like(content)
        hint = f": it looks like {likeness}" if likeness else ""
        cause = f"it is no picture that models read ({PICTURES}){hint}"
        raise Unreadable(cause, remedy=f"Save it as {PICTURES}, or mend its `type`.")
    return Image(media_type=media_type, base64=base64.b64encode(content).decode())


def _named(attachment: Attachment) -> str:
    about = attachment.description
    hint = f" description={quoteattr(about)}" if about else ""
    return f"name={quoteattr(name_of(attachment))}{hint}"


def check_attachments(cases: Sequence[Case], folder: Path) -> list[Problem]:
    """What would keep the files of these cases from reaching the agent.

    Files that are here are read as a run would read them; addresses are only looked at. A
    case that was recorded needs no files.
    """
    problems: list[Problem] = []
    seen: set[bytes] = set()
    for where, attachment in _all(cases):
        place: list[Json] = [attachment.kind, attachment.path, attachment.url, attachment.data]
        key = canonical([*place, dict(attachment.options)])
        if key not in seen:
            seen.add(key)
            problems += _problems(where, attachment, folder)
    return problems


def _all(cases: Sequence[Case]) -> Iterator[tuple[str, Attachment]]:
    """Every file, and the case it goes with."""
    for case in cases:
        if case.recorded is not None:
            continue
        for number, turn in enumerate(case.turns, start=1):
            at = f", turn {number}" if len(case.turns) > 1 else ""
            for attachment in turn.attachments:
                yield f"case '{case.id}'{at}", attachment


def _problems(where: str, attachment: Attachment, folder: Path) -> list[Problem]:
    try:
        _look_at(attachment, folder)
    except ConfigError as error:
        return [Problem(where=where, message=p.message, remedy=p.remedy) for p in error.problems]
    except BurnishError as error:
        return [Problem(where=where, message=error.message, remedy=error.remedy)]
    return []


def _look_at(attachment: Attachment, folder: Path) -> None:
    try:
        Part.of(attachment)
        require_name(attachment.kind, name_of(attachment))
        if attachment.url:
            full_address(attachment.url)
            return
    except Unreadable as error:
        raise trouble(attachment, error) from error
    read = picture_here if attachment.kind == "image" else text_here
    read(attachment, folder)


def pinned(cases: Sequence[Case], folder: Path) -> tuple[Case, ...]:
    """The cases with the content of their files in view, so that another content is noticed."""
    return tuple(
        replace(case, turns=tuple(_pinned(turn, folder) for turn in case.turns))
        if any(turn.attachments for turn in case.turns)
        else case
        for case in cases
    )


def _pinned(turn: Turn, folder: Path) -> Turn:
    def hashed(attachment: Attachment) -> Attachment:
        try:
            sent = sent_content(attachment) if attachment.data else None
        except Unreadable:
            return attachment  # of a recorded case, which needs no files
        content = read_bytes(folder / attachment.path) if sent is None else sent
        return replace(attachment, content=hashlib.sha256(content).hexdigest()[:16])

    files = tuple(hashed(each) if each.path or each.data else each for each in turn.attachments)
    return replace(turn, attachments=files)
