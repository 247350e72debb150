"""Cases from one format to another, and what is lost on the way."""

from collections.abc import Sequence
from dataclasses import replace

from burnish.core.cases import Case
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.format_table import FORMATS, known_format
from burnish.evaluation.datasets.losses import loss_notes, set_loss_notes


def convert(file: CaseFile, format: str) -> tuple[CaseFile, list[str]]:  # noqa: A002
    """The file in another format, and a sentence for everything that this loses."""
    if known_format(format) == file.format:
        return file, []
    again = FORMATS[format].again
    cases = file.cases if again is None else tuple(map(again, file.cases))
    notes = loss_notes(zip(file.cases, cases, strict=True), format) + set_losses(file, format)
    return in_format(replace(file, cases=cases), format), notes


def losses(cases: Sequence[Case], format: str) -> list[str]:  # noqa: A002
    """What these cases lose in a format: a sentence for each part, with the cases."""
    again = FORMATS[known_format(format)].again
    return [] if again is None else loss_notes(((case, again(case)) for case in cases), format)


def set_losses(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """What the set as a whole loses in a format."""
    return [] if FORMATS[format].names_sets else set_loss_notes(file, format)


def in_format(file: CaseFile, format: str) -> CaseFile:  # noqa: A002
    """The same cases as a file of another format, without what only the old one knows of."""
    if file.format == format:
        return file
    known = FORMATS[format]
    extras = {key: value for key, value in file.extras.items() if key in known.extras}
    if known.names_sets:
        return replace(file, format=format, extras=extras)
    return CaseFile(cases=file.cases, format=format, extras=extras)
