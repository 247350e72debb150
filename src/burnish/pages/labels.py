"""Labelling cases in the browser: one at a time, into the file that `burnish data label` writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from burnish.core.content import short_id
from burnish.core.errors import ConfigError, RunNotFound
from burnish.datasets.labels import Labels, LabelShape, Scale, labelling, shown_parts
from burnish.metrics.raters import RaterPair, rater_pairs
from burnish.pages.document import Place, render

_Form = Mapping[str, Sequence[str]]
_MOST_CHARS = 20_000
"""Of one text on the page."""
_KEYS = "123456789"


@dataclass(frozen=True, kw_only=True)
class LabelledFile:
    """A file of cases, and how far its labels have come."""

    key: str
    name: str
    cases: int
    people: tuple[tuple[str, int], ...]
    """Who has labelled how many."""
    pairs: tuple[RaterPair, ...]


@dataclass(frozen=True, kw_only=True)
class LabelledCase:
    """One case as a person sees it who labels it."""

    place: int
    id: str
    content: str
    """A hash of what is shown: a label is for that, whatever the file says later."""
    parts: tuple[tuple[str, str], ...]
    own: LabelShape | None
    choices: tuple[tuple[str, str], ...]
    """Each class with its key; empty for a score."""


@dataclass(frozen=True, kw_only=True)
class LabelPages:
    """The pages of the files that were named for labelling, and nothing else."""

    files: tuple[Path, ...]
    place: Place
    person: str = ""
    """Who is at the keyboard, as the form suggests it."""
    scale: Scale | None = None

    def at(self, parts: Sequence[str], query: _Form) -> str | None:
        """The page at an address below `labels`; None if there is none."""
        match parts:
            case []:
                return self._list()
            case [key]:
                person = " ".join(_first(query, "as").split())
                return self._case(self._file(key), key, person, _first(query, "at"))
            case _:
                return None

    def save(self, key: str, form: _Form) -> str:
        """Save the answer in a form; the address of the next case."""
        path, person = self._file(key), _first(form, "as")
        with labelling(path, person=person, scale=self.scale) as session:
            place = _number(_first(form, "at"), len(session.cases))
            case = session.cases[place]
            if case.content_id != _first(form, "content"):
                message = "this case has changed since it was shown"
                raise ConfigError.of(case.id, message, "look at it again")
            answer = session.scale.read(_first(form, "label"))
            if answer is None:
                message = f"{_first(form, 'label')[:40]!r} is no answer"
                raise ConfigError.of(case.id, message, f"choose from: {session.scale}")
            session.save(place, answer, note=" ".join(_first(form, "note").split()))
            following = session.next_open(place)
            person = session.person
        return self._address(key, person, following)

    def _address(self, key: str, person: str, place: int | None) -> str:
        at = {} if place is None else {"at": str(place + 1)}
        query = urlencode({"as": person, **at}, quote_via=quote)
        return f"{self.place.root}labels/{key}?{query}"

    def _list(self) -> str:
        about = [_about(path) for path in self.files]
        context = {"title": "Labels", "files": about, "person": self.person}
        return render("labels.html.j2", context, place=self.place)

    def _case(self, path: Path, key: str, person: str, at: str) -> str:
        labels = Labels.read(path)
        own = labels.of(person)
        opens = (n for n, case in enumerate(labels.cases) if case.id not in own)
        place = _number(at, len(labels.cases)) if at else next(opens, None)
        if not person:
            raise ConfigError.of(path.name, "nobody is named", "go back, and say who you are")
        context: dict[str, object] = {
            "title": f"Label {path.name}",
            "file": _about(path),
            "person": person,
            "done": len(own),
            "case": None if place is None else self._shown(labels, own, place),
            "back": self._address(key, person, place - 1) if place else "",
            "skip": self._next(labels, key, person, place),
        }
        return render("label.html.j2", context, place=self.place)

    def _next(self, labels: Labels, key: str, person: str, place: int | None) -> str:
        if place is None:
            return self._address(key, person, 0)
        return self._address(key, person, (place + 1) % len(labels.cases))

    def _shown(self, labels: Labels, own: Mapping[str, LabelShape], place: int) -> LabelledCase:
        case, scale = labels.cases[place], labels.scale or self.scale or Scale()
        keys = ("p", "f") if scale == Scale() else _KEYS
        return LabelledCase(
            place=place,
            id=case.id,
            content=case.content_id,
            parts=tuple((name, _cut(text)) for name, text in shown_parts(case)),
            own=own.get(case.id),
            # A tenth class has no key, only its button.
            choices=tuple(
                (name, keys[number] if number < len(keys) else "")
                for number, name in enumerate(scale.classes)
            ),
        )

    def _file(self, key: str) -> Path:
        path = next((each for each in self.files if file_key(each) == key), None)
        if path is None:
            remedy = "start `burnish view --label FILE`"
            raise RunNotFound("this file was not named for labelling", remedy=remedy)
        return path


def file_key(path: Path) -> str:
    """The name of a file in addresses."""
    return short_id(str(path.resolve()))


def _about(path: Path) -> LabelledFile:
    labels = Labels.read(path)
    return LabelledFile(
        key=file_key(path),
        name=path.name,
        cases=len(labels.cases),
        people=tuple((person, len(labels.of(person))) for person in labels.people),
        pairs=rater_pairs(labels.answers()),
    )


def _number(text: str, most: int) -> int:
    """A place from 0 in a list, from a number that people read."""
    number = int(text) if text.isdecimal() and len(text) < 9 else 1
    return min(max(1, number), most) - 1


def _cut(text: str) -> str:
    more = len(text) - _MOST_CHARS
    return text if more <= 0 else f"{text[:_MOST_CHARS]} … and {more:,} more characters"


def _first(form: _Form, name: str) -> str:
    return next(iter(form.get(name, ())), "")
