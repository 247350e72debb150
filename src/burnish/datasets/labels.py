"""Labels that people give to cases: a file beside the cases, one line for each answer.

Also replies with their labels, from that file or from a column, for comparing judges with.
"""

import json
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import StrictFloat, StrictInt

from burnish.core.cases import Case, Outcome
from burnish.core.content import Json, NotBlank, short_id
from burnish.core.errors import ConfigError, Problem, in_shell
from burnish.core.formatting import listed
from burnish.datasets.agent_cases import CaseFileShape, Complaints
from burnish.datasets.formats import read_cases, read_some_cases
from burnish.datasets.rows import raw_objects
from burnish.system.borrowed_files import make_private_folder
from burnish.system.files import FileLock, append_line, state_folder

_Answer = str | float
"""A class, such as pass or fail, or a score from 0 to 1."""
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The answers that people choose from."""

    classes: tuple[str, ...] = ("pass", "fail")
    """Empty for a score from 0 to 1."""

    @classmethod
    def of(cls, text: str) -> "Scale":
        """Read `pass-fail`, `score`, or classes with commas between them."""
        if text in ("pass-fail", "score"):
            return cls() if text == "pass-fail" else cls(classes=())
        classes = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
        if len(classes) < 2:
            remedy = "write pass-fail, score, or at least two classes such as good,fair,bad"
            raise ConfigError.of("--scale", f"{text!r} is no scale", remedy)
        return cls(classes=classes)

    @property
    def is_score(self) -> bool:
        return not self.classes

    def __str__(self) -> str:
        return "a score from 0 to 1" if self.is_score else ", ".join(self.classes)

    def allows(self, answer: _Answer) -> bool:
        """Whether this is one of the answers."""
        if self.is_score:
            return not isinstance(answer, str) and 0 <= answer <= 1
        return answer in self.classes

    def read(self, text: str) -> _Answer | None:
        """The answer that somebody typed; None if it is none.

        A class may be given by its number, by its name, or by the beginning of its name.
        """
        text = text.strip()
        if self.is_score:
            try:
                score = float(text.replace(",", "."))
            except ValueError:
                return None
            return score if 0 <= score <= 1 else None
        if text.isdecimal() and 1 <= int(text) <= len(self.classes):
            return self.classes[int(text) - 1]
        alike = [each for each in self.classes if each.casefold() == text.casefold()]
        begun = [each for each in self.classes if each.casefold().startswith(text.casefold())]
        return next(iter(alike), begun[0] if text and len(begun) == 1 else None)


class LabelShape(CaseFileShape):
    """One line: who gave which label to a case, and a hash of what the person saw."""

    case: NotBlank
    content: str
    by: NotBlank
    label: str | StrictInt | StrictFloat | None
    """None takes an earlier label back."""
    note: str = ""
    at: str = ""


class _HeadShape(CaseFileShape):
    scale: list[str]


def labels_beside(cases: Path) -> Path:
    """The file with the labels of these cases."""
    return cases.with_name(f"{cases.name}.labels.jsonl")


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of a file of cases that count: the last one of each person for each case."""

    path: Path
    cases: tuple[Case, ...]
    scale: Scale | None = None
    """None if nobody has labelled anything yet."""
    given: Mapping[tuple[str, str], LabelShape] = field(
        default_factory=dict[tuple[str, str], LabelShape]
    )
    """By person and case."""

    @classmethod
    def read(cls, path: Path, *, matching: bool = True) -> "Labels":
        """Read cases and their labels; all problems are raised together.

        `matching` refuses labels of cases that are gone or have changed since.
        """
        cases, home = read_some_cases(path).cases, labels_beside(path)
        if not home.exists():
            return cls(path=home, cases=cases)
        complaints = Complaints(source=home.name)
        scales: list[Scale] = []
        given: dict[tuple[str, str], LabelShape] = {}
        for line, row in raw_objects(home, complaints):
            if "scale" in row:
                if head := complaints.shaped(row, _HeadShape, line=line):
                    scales.append(Scale(classes=tuple(head.scale)))
            elif shape := complaints.shaped(row, LabelShape, line=line):
                _refuse_answer(shape, scales, complaints, line)
                given.pop((shape.by, shape.case), None)
                if shape.label is not None:
                    given[shape.by, shape.case] = shape
        if len({*scales}) > 1:
            message = f"the labels are on different scales: {' and '.join(map(str, scales))}"
            complaints.add(message, remedy="keep one scale, and the labels on it")
        complaints.settle()
        scale = scales[0] if scales else None
        labels = cls(path=home, cases=cases, scale=scale, given=given)
        if matching and (stale := labels.stale()):
            raise _mismatch(stale, cases, path, home)
        return labels

    @property
    def people(self) -> tuple[str, ...]:
        """Who has labelled something, in the order of their names."""
        return tuple(sorted({by for by, _ in self.given}))

    def of(self, person: str) -> dict[str, LabelShape]:
        """The labels of one person, by case, in the order of the cases."""
        own = ((case.id, self.given.get((person, case.id))) for case in self.cases)
        return {case: label for case, label in own if label is not None}

    def answers(self) -> dict[str, dict[str, _Answer]]:
        """The labels alone, by person and case."""
        return {
            person: {
                case: each.label for case, each in self.of(person).items() if each.label is not None
            }
            for person in self.people
        }

    def stale(self) -> tuple[LabelShape, ...]:
        """Labels of cases that are gone, or that say something else now."""
        content = {case.id: case.content_id for case in self.cases}
        return tuple(each for each in self.given.values() if content.get(each.case) != each.content)

    def agreed(self, case: Case) -> bool | float | None:
        """What most people say of a case, or the mean of their scores; None if it is a draw."""
        given = (self.given.get((person, case.id)) for person in self.people)
        answers = [each.label for each in given if each is not None]
        if not answers:
            return None
        if self.scale is not None and self.scale.is_score:
            scores = [each for each in answers if isinstance(each, int | float)]
            return sum(scores) / len(scores)
        (first, most), *others = Counter(answers).most_common()
        return None if any(count == most for _, count in others) else first == "pass"


def _refuse_answer(
    shape: LabelShape, scales: Sequence[Scale], complaints: Complaints, line: int
) -> None:
    if not scales:
        complaints.add("a line with the scale must come first", line=line)
    elif shape.label is not None and not scales[0].allows(shape.label):
        message = f"the label {shape.label!r} is not on the scale: {scales[0]}"
        complaints.add(message, line=line)


def _mismatch(
    stale: Iterable[LabelShape], cases: Sequence[Case], path: Path, home: Path
) -> ConfigError:
    there = {case.id for case in cases}
    gone = [f"'{each.case}' ({each.by})" for each in stale if each.case not in there]
    changed = [f"'{each.case}' ({each.by})" for each in stale if each.case in there]
    words = (
        (gone, f"labels of cases that are not in {path.name}"),
        (changed, "labels of cases that have changed since"),
    )
    problems = [
        Problem(where=home.name, message=f"{message}: {listed(names, _SHOWN)}")
        for names, message in words
        if names
    ]
    command = f"burnish data label {in_shell(path)} --forget"
    remedy = f"put the cases back, or drop these labels: {command}"
    return ConfigError(problems, remedy=remedy)


def forget_stale(path: Path) -> tuple[LabelShape, ...]:
    """Take back the labels that do not match the cases any more; the old lines stay as a record."""
    labels = Labels.read(path, matching=False)
    stale = labels.stale()
    for each in stale:
        _append(labels.path, each.model_copy(update={"label": None, "note": "", "at": _now()}))
    return stale


class Labelling:
    """One person's session of labelling. Every answer is on disk when `save` returns."""

    def __init__(self, labels: Labels, *, person: str, scale: Scale) -> None:
        self.cases = labels.cases
        self.person = person
        self.scale = scale
        self._path = labels.path
        self._starts_file = labels.scale is None
        self._own = labels.of(person)

    @property
    def count(self) -> int:
        """Cases that this person has labelled."""
        return len(self._own)

    def label(self, place: int) -> LabelShape | None:
        """The person's label of the case at this place."""
        return self._own.get(self.cases[place].id)

    def next_open(self, after: int = -1) -> int | None:
        """The place of the next case without a label; None if there is none."""
        places = range(after + 1, len(self.cases))
        return next((place for place in places if self.label(place) is None), None)

    def save(self, place: int, answer: _Answer, *, note: str = "") -> None:
        """Write a label, in place of an earlier one of this person."""
        case = self.cases[place]
        assert self.scale.allows(answer)
        label = LabelShape(
            case=case.id,
            content=case.content_id,
            by=self.person,
            label=answer,
            note=note,
            at=_now(),
        )
        if self._starts_file:
            append_line(self._path, json.dumps({"scale": self.scale.classes}, ensure_ascii=False))
            self._starts_file = False
        _append(self._path, label)
        self._own[case.id] = label


@contextmanager
def labelling(path: Path, *, person: str, scale: Scale | None = None) -> Generator[Labelling]:
    """Open a session; the same person cannot have two at once, different people can."""
    person = " ".join(person.split())
    if not person:
        raise ConfigError.of("--as", "the name is empty", "say who labels, such as --as ana")
    folder = state_folder() / "locks"
    make_private_folder(folder)
    home = short_id([str(labels_beside(path).resolve()), person])
    holding = f"the labelling of {path.name} as {person}"
    with FileLock.acquire(folder / f"labels-{home}.lock", holding=holding):
        labels = Labels.read(path)
        if labels.scale is not None and scale not in (None, labels.scale):
            message = f"the labels there are on another scale: {labels.scale}"
            remedy = f"leave out --scale, or move {labels.path.name} away"
            raise ConfigError.of("--scale", message, remedy)
        yield Labelling(labels, person=person, scale=labels.scale or scale or Scale())


def _append(path: Path, label: LabelShape) -> None:
    row: dict[str, Json] = label.model_dump(exclude_defaults=True)
    append_line(path, json.dumps({**row, "label": label.label}, ensure_ascii=False))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _replies_of(case: Case) -> tuple[str, ...]:
    """What an agent replied, recorded or in a column `reply`; empty if that is not there."""
    if case.recorded is not None:
        return case.recorded.replies
    reply = case.turns[0].settings.get("reply")
    return () if reply is None else (str(reply),)


def shown_parts(case: Case) -> Iterator[tuple[str, str]]:
    """What a person needs to see of a case to label it: each text, and what it is."""
    for message in case.history:
        yield message.role, message.content
    replies = _replies_of(case)
    for number in range(max(len(case.turns), len(replies))):
        turn = case.turns[number] if number < len(case.turns) else None
        if turn is not None:
            yield "asked", turn.input
            for passage in turn.context:
                yield "context", passage
            if turn.expected is not None:
                yield "expected", turn.expected
        if number < len(replies):
            yield "replied", replies[number]


@dataclass(frozen=True, kw_only=True)
class LabelledReply:
    """A case with its recorded reply and a label."""

    case: Case
    label: bool | float


def read_labelled(path: Path) -> tuple[LabelledReply, ...]:
    """Read labelled replies; all problems are raised together.

    The labels that people gave count before a column; cases without one, or with a draw, are left
    out then.
    """
    labels = labels_that_judge(path)
    cases = read_cases(path).cases
    replies: list[LabelledReply] = []
    problems: list[Problem] = []
    for number, case in enumerate(cases, start=1):
        try:
            label = _label(case.labels) if labels is None else labels.agreed(case)
            if label is not None:
                replies.append(LabelledReply(case=_recorded(case), label=label))
        except ValueError as error:
            where = f"{path.name} case {case.name or number}"
            problems.append(Problem(where=where, message=str(error)))
    if not replies and not problems:
        problems.append(Problem(where=path.name, message="the file has no labelled replies"))
    if problems:
        remedy = "each row needs input, reply and label, and may have expected"
        raise ConfigError(problems, remedy=remedy)
    return tuple(replies)


def labels_that_judge(path: Path) -> Labels | None:
    """The labels of people, if there are any, which must be pass and fail or scores."""
    if not labels_beside(path).exists():
        return None
    labels = Labels.read(path)
    scale = labels.scale or Scale()
    if not scale.is_score and {*scale.classes} != {"pass", "fail"}:
        message = f"a judge passes or fails, but these labels are classes: {scale}"
        raise ConfigError.of(labels.path.name, message, "label pass and fail, or scores")
    return labels if labels.given else None


def _recorded(case: Case) -> Case:
    """The case with its reply as a recorded outcome, without its label."""
    if case.recorded is not None:
        return replace(case, labels=())
    if len(case.turns) != 1:
        raise ValueError("a labelled reply must have exactly one turn, unless it is recorded")
    settings = dict(case.turns[0].settings)
    if "reply" not in settings:
        raise ValueError("the reply is missing")
    recorded = Outcome(replies=(str(settings.pop("reply")),))
    turn = replace(case.turns[0], settings=settings)
    return replace(case, turns=(turn,), labels=(), recorded=recorded)


def _label(labels: tuple[str, ...]) -> bool | float:
    if len(labels) != 1:
        raise ValueError("the label is missing" if not labels else "there are several labels")
    word = labels[0].strip().lower()
    if word in ("pass", "good", "yes", "true", "valid"):
        return True
    if word in ("fail", "bad", "no", "false", "invalid"):
        return False
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"the label '{labels[0]}' is neither pass nor fail nor a number in [0, 1]")
    return value


_MOST_NAME = 60


def person_name(name: str) -> str:
    """The name of a person in one line, as files and pages show it."""
    return " ".join(re.sub(r"[^\w .@+-]", " ", name).split())[:_MOST_NAME] or "somebody"
