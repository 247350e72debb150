"""Law 7: what turns a candidate away before any call is paid."""

from collections.abc import Collection, Iterable, Mapping

from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Turn, squeeze
from burnish.core.errors import NotJournalable, Problem
from burnish.core.labels import labels_of
from burnish.core.surfaces import Surface, TextSurface, Value, out_of_bounds

TELLING_ANSWER = 16
"""An answer of a single case that is this long does not get into a prompt by chance."""
TELLING_QUESTION = 24
"""With the question this long beside it, even a short answer was copied."""


def screen(
    candidate: Candidate,
    *,
    parent: Candidate,
    surfaces: Mapping[str, Surface],
    seen: Collection[str],
    training: Iterable[Case] = (),
) -> list[Problem]:
    """Every reason to turn this candidate away; none means it is worth paying for."""
    try:
        candidate.id  # noqa: B018 - a value that has no JSON form has no id either
    except NotJournalable as error:
        return [Problem(message=error.message)]
    if candidate.id == parent.id or _reads_the_same(candidate, parent, surfaces):
        return [Problem(message="the candidate changes nothing")]
    if candidate.id in seen:
        return [Problem(message=f"the same candidate ({candidate.id}) was tried before")]
    gone = sorted(set(parent.values) - set(candidate.values))
    found = [Problem(where=name, message="the value is gone") for name in gone]
    found += out_of_bounds(candidate.values, surfaces)
    cases = tuple(training)
    for name, surface in surfaces.items():
        text, before = candidate.values.get(name), parent.values.get(name)
        if isinstance(surface, TextSurface) and isinstance(text, str) and text != before:
            found += copied_answers(name, text, cases, already=before)
    return found


def _reads_the_same(
    candidate: Candidate, parent: Candidate, surfaces: Mapping[str, Surface]
) -> bool:
    """Whether all that changed is the space around a text: models drop the last line's end."""
    return set(candidate.values) == set(parent.values) and all(
        value == parent.values[name]
        or (
            isinstance(surfaces.get(name), TextSurface)
            and _bare(value) == _bare(parent.values[name])
        )
        for name, value in candidate.values.items()
    )


def _bare(value: Value) -> Value:
    return value.strip() if isinstance(value, str) else value


def copied_answers(
    surface: str, text: str, cases: Collection[Case], *, already: Value | None = None
) -> list[Problem]:
    """The training answers that a text gives away and that were not in it before.

    A long answer of a single case is copied wherever it turns up. Labels and formats belong in
    the text; together with a case's own question, they are copied too.
    """
    new, old = squeeze(text), squeeze(already) if isinstance(already, str) else ""
    labels = labels_of(cases)

    def copied(turn: Turn) -> bool:
        return _gives_away(new, turn, labels) and not _gives_away(old, turn, labels)

    return [
        Problem(
            where=surface,
            message=f"the text contains the answer to training case '{case.id}'",
            remedy="state the rule behind it; demonstrations are the place for examples",
        )
        for case in cases
        if any(map(copied, case.turns))
    ]


def _gives_away(text: str, turn: Turn, labels: Collection[str]) -> bool:
    answer, question = squeeze(turn.expected or ""), squeeze(turn.input)
    if not answer or answer not in text:
        return False
    if len(question) >= TELLING_QUESTION and question in text:
        return True
    # What is part of a label comes into the text with the label.
    return len(answer) >= TELLING_ANSWER and not any(answer in label for label in labels)
