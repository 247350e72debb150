"""Office files as what they are: zips of XML parts that point to each other."""

import posixpath
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from burnish.targets.agent.documents_bounds import Unreadable, allowed_unpacking
from burnish.targets.agent.documents_kinds import looks_like
from burnish.targets.agent.documents_xml import Mark, marks

_PIECE = 1 << 20
_MAIN = "/officeDocument"
_ROOTS = {"workbook": "excel", "document": "word", "presentation": "powerpoint"}
_DAMAGED = (BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error)
"""What the zip library raises over damaged, protected or exotic archives."""


class Package:
    """The parts of an Office file, read within bounds."""

    def __init__(self, content: bytes) -> None:
        try:
            self._zip = ZipFile(BytesIO(content))
            self._parts = {part.filename.lower(): part for part in self._zip.infolist()}
        except _DAMAGED as error:
            raise _no_package(content) from error
        self._unpacking = allowed_unpacking()

    def marks(self, part: str) -> Iterator[Mark]:
        """The marks of a part; none where the part has no name."""
        if not part:
            return iter(())
        if part.lower() not in self._parts:
            raise _damaged(f"{part} is not in it")
        return marks(self._pieces(self._parts[part.lower()]))

    def main(self, root: str) -> str:
        """The name of the part where reading begins, whose root element must be `root`."""
        name = next((part for _, kind, part in self._relations("") if kind.endswith(_MAIN)), "")
        found = next((mark.name for mark in self.marks(name)), "")
        if found != root:
            raise _another_kind(found, root)
        return name

    def related(self, part: str) -> dict[str, str]:
        """The names of the parts that a part points to, by the ids it uses for them."""
        return {relation: name for relation, _, name in self._relations(part)}

    def related_as(self, part: str, kind: str) -> str:
        """The first part that a part points to as being of this kind; empty where none is."""
        found = (name for _, type_, name in self._relations(part) if type_.endswith(f"/{kind}"))
        return next(found, "")

    def _relations(self, part: str) -> Iterator[tuple[str, str, str]]:
        folder, name = posixpath.split(part)
        about = posixpath.join(folder, "_rels", f"{name}.rels")
        for mark in self.marks(about if about.lower() in self._parts else ""):
            told = mark.attributes
            if mark.kind == "start" and "Id" in told and told.get("TargetMode") != "External":
                at = posixpath.normpath(posixpath.join("/", folder, told.get("Target", "")))
                yield told["Id"], told.get("Type", ""), at.lstrip("/")

    def _pieces(self, part: ZipInfo) -> Iterator[bytes]:
        if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _damaged(f"{part.filename} is packed in a way that Office does not use")
        try:
            with self._zip.open(part) as packed:
                while piece := packed.read(_PIECE):
                    self._unpacking.take(len(piece))
                    yield piece
        except _DAMAGED as error:
            raise _damaged(str(error) or type(error).__name__) from error


def part_behind(mark: Mark, related: Mapping[str, str]) -> str:
    """The name of the part that an element stands for."""
    if mark.relation not in related:
        raise _damaged(f"a {mark.name} leads nowhere")
    return related[mark.relation]


def _damaged(why: str) -> Unreadable:
    return Unreadable(f"it is damaged ({why})", remedy="Save it anew, without a password.")


def _no_package(content: bytes) -> Unreadable:
    likeness = looks_like(content)
    told = f"; it looks like {likeness}" if likeness else ""
    remedy = "Save it as .xlsx, .docx or .pptx, without a password, or mend its `type`."
    return Unreadable(f"it is no Office file, or it is damaged{told}", remedy=remedy)


def _another_kind(found: str, wanted: str) -> Unreadable:
    if found in _ROOTS:
        return Unreadable(
            f"it is a file of type {_ROOTS[found]}, not {_ROOTS[wanted]}",
            remedy=f"Say `type: {_ROOTS[found]}`.",
        )
    cause = f"there is no {wanted} in it"
    return Unreadable(cause, remedy="Save it anew with the program that made it.")
