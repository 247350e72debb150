"""The forms in which a judge may answer a template, and what each answer is worth."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from pydantic import Field

from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import mean
from burnish.evaluation.judges.answers import ItemId, JudgeAnswer, Share, unmatched
from burnish.evaluation.judges.evidence import REASON, excerpt
from burnish.evaluation.turn_metric import Verdict

Answer = TypeVar("Answer", bound=JudgeAnswer)


class ScoreAnswer(JudgeAnswer):
    """A number and why."""

    reason: str
    score: Share


class RubricScore(JudgeAnswer):
    """A number for one rubric."""

    id: ItemId
    reason: str
    score: Share


class RubricScoresAnswer(JudgeAnswer):
    """A number for each rubric."""

    rubric_scores: list[RubricScore] = Field(alias="rubricScores")


class BooleanAnswer(JudgeAnswer):
    """Yes or no, and why."""

    reason: str
    passed: bool = Field(strict=True)


class CategoryAnswer(JudgeAnswer):
    """A label and why."""

    reason: str
    category: str


@dataclass(frozen=True, kw_only=True)
class Scorer(ABC, Generic[Answer]):
    """One form of answers."""

    name: str
    """What files call it."""

    answer_type: ClassVar[type[JudgeAnswer]]

    @abstractmethod
    def form(self, ids: Sequence[str]) -> str:
        """What the judge must answer, in words; `ids` are those of the rubrics."""

    @abstractmethod
    def read(self, answer: Answer, ids: Sequence[str]) -> Verdict:
        """What an answer is worth."""

    def check(self, answer: Answer, ids: Sequence[str]) -> str:
        """What is wrong with an answer that keeps its schema, in words that help to mend it."""
        del answer, ids
        return ""

    def problems(self, where: str) -> list[Problem]:
        """What is wrong with the settings."""
        del where
        return []


@dataclass(frozen=True, kw_only=True)
class SingleScore(Scorer[ScoreAnswer]):
    """The judge gives a number from 0 to 1."""

    name: str = "single_score"

    answer_type: ClassVar[type[JudgeAnswer]] = ScoreAnswer

    def form(self, ids: Sequence[str]) -> str:
        """A number and why."""
        del ids
        return "- reason: why, in a few sentences\n- score: a number from 0 to 1"

    def read(self, answer: ScoreAnswer, ids: Sequence[str]) -> Verdict:
        """The number."""
        del ids
        return _graded(answer.score, f"{answer.score:g}", answer.reason)


@dataclass(frozen=True, kw_only=True)
class BooleanScore(Scorer[BooleanAnswer]):
    """The judge says whether it passes."""

    name: str = "boolean"

    answer_type: ClassVar[type[JudgeAnswer]] = BooleanAnswer

    def form(self, ids: Sequence[str]) -> str:
        """True or false, and why."""
        del ids
        return "- reason: why, in a few sentences\n- passed: true or false"

    def read(self, answer: BooleanAnswer, ids: Sequence[str]) -> Verdict:
        """1 or 0."""
        del ids
        return _graded(float(answer.passed), "not passed", answer.reason)


@dataclass(frozen=True, kw_only=True)
class CategoricalScore(Scorer[CategoryAnswer]):
    """The judge names one of the categories, each of which has its score."""

    name: str = "categorical"
    categories: Mapping[str, float]

    answer_type: ClassVar[type[JudgeAnswer]] = CategoryAnswer

    def form(self, ids: Sequence[str]) -> str:
        """A label and why."""
        del ids
        return f"- reason: why, in a few sentences\n- category: one of: {self._known}"

    def problems(self, where: str) -> list[Problem]:
        """There must be categories, with scores from 0 to 1."""
        if not self.categories:
            return [Problem(where=where, message="a categorical scorer needs categories")]
        return [
            Problem(where=where, message=f"category '{label}': from 0 to 1, found {score:g}")
            for label, score in self.categories.items()
            if not 0 <= score <= 1
        ]

    def check(self, answer: CategoryAnswer, ids: Sequence[str]) -> str:
        """One of the categories."""
        del ids
        unknown = f"'{excerpt(answer.category)}' is no category; there are: {self._known}"
        return "" if self._label(answer) else unknown

    def read(self, answer: CategoryAnswer, ids: Sequence[str]) -> Verdict:
        """What the category is worth."""
        del ids
        label = self._label(answer)
        return _graded(self.categories[label], f"'{label}'", answer.reason, category=label)

    @property
    def _known(self) -> str:
        return ", ".join(self.categories)

    def _label(self, answer: CategoryAnswer) -> str:
        named = answer.category.strip()
        if named in self.categories:
            return named
        near = [each for each in self.categories if each.casefold() == named.casefold()]
        return near[0] if len(near) == 1 else ""


@dataclass(frozen=True, kw_only=True)
class RubricScores(Scorer[RubricScoresAnswer]):
    """The judge gives each rubric a number from 0 to 1; their mean counts."""

    name: str = "rubric_scores"

    answer_type: ClassVar[type[JudgeAnswer]] = RubricScoresAnswer

    def form(self, ids: Sequence[str]) -> str:
        """A number for each rubric, and why."""
        return (
            f"- rubricScores: a list with one item for each rubric ({', '.join(ids)})\n"
            "  - id: the id of the rubric\n"
            "  - reason: why, in a sentence or two\n"
            "  - score: a number from 0 to 1"
        )

    def check(self, answer: RubricScoresAnswer, ids: Sequence[str]) -> str:
        """Every rubric once."""
        return unmatched(ids, [item.id for item in answer.rubric_scores])

    def read(self, answer: RubricScoresAnswer, ids: Sequence[str]) -> Verdict:
        """The mean over the rubrics that were asked about."""
        items = {item.id: item for item in answer.rubric_scores}
        found = [items[each] for each in ids]
        short = [
            f"'{item.id}' {item.score:g}: {excerpt(item.reason, REASON)}"
            for item in found
            if item.score < 1
        ]
        kept: list[Json] = [
            {"id": item.id, "score": item.score, "reason": excerpt(item.reason, REASON)}
            for item in found
        ]
        value = mean([item.score for item in found])
        return Verdict(value=value, reason="; ".join(short), details={"rubrics": kept})


def _graded(value: float, word: str, reason: str, **details: Json) -> Verdict:
    told = excerpt(reason, REASON)
    return Verdict(
        value=value,
        reason="" if value == 1 else f"{word}: {told}",
        details={"reasoning": told, **details},
    )
