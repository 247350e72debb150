"""Looking at the files of cases before anything is paid."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from burnish.core.cases import Attachment, Case, Turn
from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.system import read_bytes
from burnish.targets.agent.attachments import picture_here, text_here
from burnish.targets.agent.documents import sent_content, trouble
from burnish.targets.agent.documents_bounds import Unreadable
from burnish.targets.agent.documents_download import full_address
from burnish.targets.agent.documents_kinds import name_of, require_name
from burnish.targets.agent.documents_parts import Part


def check_attachments(cases: Sequence[Case], folder: Path) -> list[Problem]:
    """What would keep the files of these cases from reaching the agent.

    Files that are here are read as a run would read them; addresses are only looked at. A
    case that was recorded needs no files.
    """
    found: list[Problem] = []
    seen: set[bytes] = set()
    for where, attachment in _all(cases):
        place: list[Json] = [attachment.kind, attachment.path, attachment.url, attachment.data]
        key = canonical([*place, dict(attachment.options)])
        if key not in seen:
            seen.add(key)
            found += _problems(where, attachment, folder)
    return found


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
