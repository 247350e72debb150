"""Cases from one format to another, and what is lost on the way."""

from collections.abc import Sequence
from dataclasses import replace

from burnish.core.cases import Case
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.format_table import FORMATS, known_format
from burnish.evaluation.datasets.losses import loss_notes, set_loss_notes


def convert(file: CaseFile, format: str) -> tuple[CaseFile, list[str]]:  # noqa: A002
    """The file in another format, and a sentence for everything that this loses."""
    converted, again = in_format(file, known_format(format)), FORMATS[format].again
    if again is not None:
        converted = replace(converted, cases=again(converted))
    notes = _losses(file, converted)
    return (file, []) if file.format == format and not notes else (converted, notes)


def losses(cases: Sequence[Case], format: str) -> list[str]:  # noqa: A002
    """What these cases lose in a format: a sentence for each part, with the cases."""
    return losses_of(CaseFile(cases=tuple(cases), format=known_format(format)), format)


def losses_of(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """What a file loses in a format, which may be the one that it says it has."""
    written, again = in_format(file, format), FORMATS[format].again
    return _losses(file, written if again is None else replace(written, cases=again(written)))


def in_format(file: CaseFile, format: str) -> CaseFile:  # noqa: A002
    """The same cases as a file of another format, without what only the old one knows of."""
    if file.format == format:
        return file
    known = FORMATS[format]
    extras = {key: value for key, value in file.extras.items() if key in known.extras}
    if known.names_sets:
        return replace(file, format=format, extras=extras)
    return CaseFile(cases=file.cases, format=format, extras=extras)


def _losses(before: CaseFile, after: CaseFile) -> list[str]:
    pairs = zip(before.cases, after.cases, strict=True)
    about_set = [] if FORMATS[after.format].names_sets else set_loss_notes(before, after.format)
    return loss_notes(pairs, after.format) + about_set
