"""A text that is scored as a whole, as a target: code, a query, a drawing, a configuration."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from math import log1p
from pathlib import Path
from typing import Any, cast

from burnish.core.cases import Case, Outcome
from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, WrongArgument
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import Candidate, Origin, Surface, TextSurface
from burnish.metrics.functions import as_number
from burnish.system.code_hash import code_hash
from burnish.system.user_code import function_name
from burnish.targets.callables.programs import CallableTarget
from burnish.targets.callables.target import CallingTarget, Reply
from burnish.targets.user_code import is_async

UNIT = "score"
"""The number that the function gives, in its own unit."""
TEXT = "text"
"""The name of the text."""


@dataclass(frozen=True, kw_only=True)
class ScoredText(CallingTarget):
    """Scores a text with a function, which also gets what a case stands for, if there are cases.

    A text on which the function raises has failed: the error is shown to who writes the next one.
    """

    text: str
    score: Callable[..., Any]
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """By case, what the function gets; empty if it only gets the text."""

    @classmethod
    def of(cls, text: str, score: Callable[..., Any], given: Mapping[str, Any]) -> "ScoredText":
        """The target; raises WrongArgument for a function that cannot be called so."""
        try:
            inspect.signature(score).bind(*([text, None] if given else [text]))
        except (TypeError, ValueError):
            takes = "text and the case" if given else "text alone"
            message = f"{function_name(score)}() cannot be called with the {takes}"
            remedy = "write score(text, case) with cases, and score(text) without"
            raise WrongArgument.of("score", message, remedy) from None
        return cls(text=text, score=score, given=given)

    @property
    def calls_function(self) -> bool:
        return True

    @property
    def call(self) -> str:
        """Where the function is, for who looks for the text near it."""
        return f"{getattr(self.score, '__module__', '')}:{function_name(self.score)}"

    @property
    def surfaces(self) -> Sequence[Surface]:
        return [TextSurface(id=TEXT)]

    @property
    def baseline(self) -> Candidate:
        return Candidate(values={TEXT: self.text}, origin=Origin(kind="baseline"))

    @property
    def description(self) -> Description:
        config: dict[str, Json] = {"score": self.call, "source": code_hash(self.score)}
        return self._described("text", config)

    @property
    def remembers(self) -> bool:
        return False

    def conversation(self) -> AbstractAsyncContextManager[Reply]:
        """Scores the text as it was passed, whatever is said."""
        return self._scorer(self.baseline, Case.single("")).conversation()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        scorer = self._scorer(candidate, case)
        return await scorer.run(candidate, case, draw=draw, effects=effects)

    def _scorer(self, candidate: Candidate, case: Case) -> CallableTarget:
        text = str(candidate.values[TEXT])
        passed = (text, self.given.get(case.id)) if self.given else (text,)

        def scored(query: str) -> Outcome:
            del query
            return self._read(self.score(*passed))

        async def awaited(query: str) -> Outcome:
            del query
            return self._read(await self.score(*passed))

        agent = awaited if is_async(self.score) else scored
        return CallableTarget(agent=agent, name=function_name(self.score), usd_per_call=0.0)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        del home
        return {f"{TEXT}.txt": str(candidate.values[TEXT]).encode()}

    def _read(self, answer: Any) -> Outcome:
        given: Any = (answer, "")
        if isinstance(answer, tuple) and len(cast("tuple[Any, ...]", answer)) == 2:
            given = cast("tuple[Any, Any]", answer)
        number, feedback = as_number(given[0]), str(given[1] or "")
        if number is None:
            raise ConfigError.of(
                function_name(self.score),
                f"it gave {type(given[0]).__name__} instead of a finite number",
                "return a number, higher is better, or a number and feedback in words",
            )
        return Outcome(
            replies=(feedback or f"{number:g}",),
            data=feedback or None,
            measures={UNIT: number},
            nano_usd=0,
        )


@dataclass(frozen=True, kw_only=True)
class UnitScore:
    """Any number as a score between 0 and 1, so that searches can compare and add up.

    Numbers from 0 to 1 keep their distances. Claims are made in the number's own unit.
    """

    name: str = "scaled_score"

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, 1])

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        number = outcome.measures.get(UNIT)
        if number is None:
            return [Score.of_nothing(self.name, "there is no number")]
        score = Score(
            metric=self.name,
            value=unit_score(number),
            reason=outcome.output if outcome.data is not None else "",
            details={"number": number},
        )
        return [score]


def unit_score(number: float) -> float:
    """A larger number gives a larger score, however large it is."""
    if 0 <= number <= 1:
        return 0.25 + number / 2
    beyond = log1p(number - 1) if number > 1 else log1p(-number)
    share = 0.25 * beyond / (1 + beyond)
    return 0.75 + share if number > 1 else 0.25 - share
