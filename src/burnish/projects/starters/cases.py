"""The cases of a new project: their source, their splits, and a metric that fits them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from burnish.core.cases import Case, Dataset, Split
from burnish.core.formatting import counted
from burnish.datasets.case_files import CaseFile
from burnish.datasets.columns import CaseColumns, read_with_columns
from burnish.datasets.formats import convert, write_cases
from burnish.datasets.splits import split

_FOLDER, _SEED = "cases", 42
_FEWEST = 20
"""With fewer cases a search learns little; they are measured only."""
_LABELS, _LABEL_WORDS = 12, 4


@dataclass(frozen=True, kw_only=True)
class MetricChoice:
    """A metric for a project file, and why it was chosen."""

    name: str
    line: str
    reason: str
    judged: bool = False
    """Whether a model must judge."""


_JUDGED = MetricChoice(
    name="helpful",
    line="{type: geval, name: helpful, threshold: 0.7, "
    "criteria: The reply answers the question correctly and completely}",
    reason="there are no expected answers, so a model judges",
    judged=True,
)
_NUMBER = MetricChoice(
    name="numeric",
    line="{type: standard, metric: numeric}",
    reason="the expected answers are numbers",
)
_WORDS = MetricChoice(
    name="rouge",
    line="{type: standard, metric: rouge, threshold: 0.5}",
    reason="the expected answers are texts, so shared words count; `type: geval` asks a judge",
)


@dataclass(frozen=True, kw_only=True)
class StarterCases:
    """The cases that a new project starts with."""

    cases: tuple[Case, ...]
    source: Path | None = None
    """None if they are examples of burnish."""
    columns: CaseColumns | None = None
    """Which columns were taken, where the file has columns."""

    @classmethod
    def read(cls, path: Path, **columns: str) -> "StarterCases":
        """From a file in any format; `columns` are those that the user chose."""
        file, taken = read_with_columns(path, **columns)
        return cls(cases=file.cases, source=path, columns=taken)

    @classmethod
    def examples(cls) -> "StarterCases":
        """Forty short tickets with their categories."""
        path = Path(str(files("burnish.projects.starters") / "tickets.csv"))
        file, columns = read_with_columns(path)
        return cls(cases=file.cases, columns=columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """The expected answers if they are a few short ones that recur."""
        answers = self._answers
        distinct = sorted(set(answers))
        few = 1 < len(distinct) <= min(_LABELS, len(answers) / 2)
        short = all(len(answer.split()) <= _LABEL_WORDS for answer in distinct)
        return tuple(distinct) if few and short else ()

    @property
    def metric(self) -> MetricChoice:
        """The metric that fits the expected answers."""
        answers = self._answers
        if not answers:
            return _JUDGED
        if self.labels:
            return _equality(f"the expected answers are {len(self.labels)} labels")
        if all(map(_is_number, answers)):
            return _NUMBER
        if all(len(answer.split()) <= _LABEL_WORDS for answer in answers):
            return _equality("the expected answers are short")
        return _WORDS

    @property
    def _answers(self) -> list[str]:
        """The expected answers; none if a case has none."""
        answers = [turn.expected or "" for case in self.cases for turn in case.turns[-1:]]
        return answers if all(answers) else []

    @property
    def searchable(self) -> bool:
        """Whether there are enough cases to search with, not only to measure."""
        return len(self.cases) >= _FEWEST

    @cached_property
    def dataset(self) -> Dataset:
        """Train, holdout and test, with each label in each; near-duplicates stay together."""
        if not self.labels or any(case.labels for case in self.cases):
            return split(self.cases, seed=_SEED).dataset
        labelled = [replace(case, labels=(case.turns[-1].expected or "",)) for case in self.cases]
        parts = split(labelled, seed=_SEED).dataset
        return Dataset(
            **{
                part.value: tuple(replace(case, labels=()) for case in parts.cases(part))
                for part in Split
            }
        )

    @property
    def names(self) -> Mapping[Split, str]:
        """The file of each split, from the folder of the project."""
        return {part: f"{_FOLDER}/{part.value}{self._ending}" for part in Split}

    @property
    def whole(self) -> str:
        """The file of all cases."""
        return f"{_FOLDER}/all{self._ending}"

    @property
    def _ending(self) -> str:
        file = CaseFile(cases=self.cases, format="jsonl")
        return ".jsonl" if convert(file, "csv")[1] else ".csv"

    def split_files(self) -> dict[str, bytes]:
        """The files of the splits."""
        return _written({self.names[part]: self.dataset.cases(part) for part in Split})

    def whole_file(self) -> dict[str, bytes]:
        """One file with all cases."""
        return _written({self.whole: self.cases})

    def __str__(self) -> str:
        source = "of burnish, to replace by your own" if self.source is None else ""
        columns = f"; {self.columns}" if self.columns else ""
        place = source or f"from {self.source}"
        return f"{counted(len(self.cases), 'case')} {place}{columns}"


def _equality(reason: str) -> MetricChoice:
    settings = "case_insensitive: true, strip_whitespace: true, strip_punctuation: true"
    line = f"{{type: standard, metric: equality, {settings}}}"
    return MetricChoice(name="equality", line=line, reason=reason)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def _written(files: Mapping[str, Sequence[Case]]) -> dict[str, bytes]:
    with TemporaryDirectory(prefix="burnish-init-") as spare:
        contents: dict[str, bytes] = {}
        for name, cases in files.items():
            path = Path(spare) / Path(name).name
            write_cases(path, cases)
            contents[name] = path.read_bytes()
        return contents
