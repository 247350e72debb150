"""Which part of a file a case asks for."""

from dataclasses import dataclass

from burnish.core.cases import Attachment
from burnish.core.content import Json
from burnish.system.config_errors import shown
from burnish.targets.agent.documents_bounds import Unreadable
from burnish.targets.agent.documents_kinds import KINDS

_OPTIONS = {
    "pages": ("pdf", "powerpoint"),
    "sheet": ("excel",),
    "range": ("excel",),
    "cache": KINDS,
}
"""Which part of a file can be asked for, and of which kinds."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The part of a document that is asked for; all of it where nothing is said."""

    kind: str
    pages: tuple[int, ...] = ()
    sheet: str = ""
    cells: str = ""

    @classmethod
    def of(cls, attachment: Attachment) -> "Part":
        """What an attachment asks for; Unreadable where it asks for what cannot be."""
        _require_sense(attachment)
        options = attachment.options
        return cls(
            kind=attachment.kind,
            pages=_pages(options.get("pages")),
            sheet=_words("sheet", options.get("sheet")),
            cells=_words("range", options.get("range")),
        )


def _require_sense(attachment: Attachment) -> None:
    """Rows of cases come with any kind of file and any options."""
    if attachment.kind not in KINDS:
        cause = f"there is no type of file {attachment.kind[:40]!r}"
        raise Unreadable(cause, remedy=f"Known: {', '.join(KINDS)}.")
    places = {"path": "a path", "url": "a url", "data": "data"}
    there = [words for place, words in places.items() if getattr(attachment, place)]
    if len(there) != 1:
        which = " and ".join(there) or "neither a path nor a url nor data"
        raise Unreadable(f"it has {which}", remedy="Give one of them.")
    for name in attachment.options:
        if attachment.kind not in _OPTIONS.get(name, ()):
            known = [each for each, kinds in _OPTIONS.items() if attachment.kind in kinds]
            cause = f"a file of type {attachment.kind} has no {name!r}"
            raise Unreadable(cause, remedy=f"Remove it; there is: {', '.join(known)}.")
    if not isinstance(cache := attachment.options.get("cache", False), bool):
        cause = f"expected true or false as its cache, found {shown(cache)}"
        raise Unreadable(cause, remedy="Mend its `cache`.")


def _pages(given: Json) -> tuple[int, ...]:
    if given is None:
        return ()
    pages = [page for page in given if type(page) is int] if isinstance(given, list) else []
    if not pages or pages != given:
        cause = f"expected the numbers of pages such as [1, 3], found {_told(given)}"
        raise Unreadable(cause, remedy="Mend its `pages`.")
    return tuple(pages)


def _words(name: str, given: Json) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or not given.strip():
        cause = f"expected text as its {name}, found {shown(given)}"
        raise Unreadable(cause, remedy="Put it in quotes, or leave it out.")
    return given


def _told(given: Json) -> str:
    return f"{given}"[:60] if isinstance(given, list) else shown(given)
