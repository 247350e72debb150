"""Files that go with a case: pictures as pictures, everything else as text."""

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from burnish.core.cases import Attachment
from burnish.core.messages import Image
from burnish.effects.retries import RetryPolicy
from burnish.targets.agent.documents import (
    bounded_content,
    sent_content,
    text_in,
    text_of,
    trouble,
)
from burnish.targets.agent.documents_bounds import Unreadable
from burnish.targets.agent.documents_download import PATIENCE, download, kept_download
from burnish.targets.agent.documents_kinds import (
    PICTURES,
    looks_like,
    name_of,
    picture_type,
)
from burnish.targets.agent.documents_parts import Part


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
        told = f": it looks like {likeness}" if likeness else ""
        cause = f"it is no picture that models read ({PICTURES}){told}"
        raise Unreadable(cause, remedy=f"Save it as {PICTURES}, or mend its `type`.")
    return Image(media_type=media_type, base64=base64.b64encode(content).decode())


def _named(attachment: Attachment) -> str:
    about = attachment.description
    told = f" description={quoteattr(about)}" if about else ""
    return f"name={quoteattr(name_of(attachment))}{told}"
