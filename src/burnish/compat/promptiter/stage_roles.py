"""Stages of one's own as roles: asked through the journal, their answers checked."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel

from burnish.compat.promptiter.runners import code_identity, name_of
from burnish.compat.promptiter.stage_views import StageViews
from burnish.compat.promptiter.stages import (
    AggregateResult,
    Aggregator,
    Backwarder,
    BackwardStepResult,
    Optimizer,
    OptimizeResult,
)
from burnish.compat.promptiter.wire import Wire
from burnish.core.codec import Codec, codec
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects, Receipt
from burnish.core.errors import BurnishError, ConfigError, RoleFailed
from burnish.core.money import Spend, to_nano
from burnish.effects.failures import is_infrastructure
from burnish.strategies.backprop.wording import (
    AGGREGATOR,
    BACKWARDER,
    PATCHER,
    BackwardAnswer,
    BackwardRequest,
    MergeAnswer,
    MergeRequest,
    PatchAnswer,
    PatchRequest,
)

Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)
Result = TypeVar("Result", bound=Wire)


class StageFailed(BurnishError):
    """A stage of one's own raised: a bug to mend, after which the run can go on."""


@dataclass(frozen=True, kw_only=True)
class StageRole(Generic[Request, Answer]):
    """A stage as a role.

    RoleFailed and connection errors cost what was asked; anything else that a stage raises ends
    the run, and is not kept, so that a resume asks again. A stage may say what a call costs, as
    `usd_per_call`, and who it is, as `fingerprint`.
    """

    name: str
    stage: object
    answer_type: type[Answer]
    seen: Callable[[Request], Wire]
    """The request in PromptIter's terms."""
    ask: Callable[[Any], Awaitable[Any]]
    said: Callable[[Any, Request], Answer]
    """What the stage gave, as an answer; raises ConfigError where it is of no use."""
    leaf: bool = True

    @property
    def fingerprint(self) -> str:
        """A hash of the stage's name and code."""
        return short_id([self.name, code_identity(self.stage)])

    @property
    def answers(self) -> Codec[Answer]:
        """How its answers are kept."""
        return codec(self.answer_type)

    @property
    def priced(self) -> bool:
        """Whether the stage says what a call costs."""
        return self._usd is not None

    @property
    def _usd(self) -> float | None:
        told = getattr(self.stage, "usd_per_call", None)
        return float(told) if isinstance(told, int | float) else None

    def estimate(self, request: Request, /) -> Spend:
        """One call."""
        del request
        return Spend(calls=1, nano_usd=to_nano(self._usd or 0), unpriced=int(self._usd is None))

    def encode(self, request: Request, /) -> Json:
        """What the stage will see."""
        return self.seen(request).to_json()

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """Ask, and check what comes back."""
        del draw, effects
        spend = self.estimate(request)
        try:
            given = await self.ask(self.seen(request))
        except RoleFailed as error:
            raise RoleFailed(error.message, spend=spend, missing=error.missing) from error
        except BurnishError:
            raise
        except Exception as error:
            told = f"{name_of(self.stage)} raised {type(error).__name__}: {error}"
            if is_infrastructure(error):
                raise RoleFailed(told, spend=spend, missing=True) from error
            raise StageFailed(told, remedy="mend it, then run again to go on") from error
        try:
            return Receipt(value=self.said(given, request), spend=spend)
        except ConfigError as error:
            raise RoleFailed(f"{self.name}: {error.message}", spend=spend) from error


def backward_role(
    stage: Backwarder, views: StageViews
) -> StageRole[BackwardRequest, BackwardAnswer]:
    """A backwarder of one's own."""
    return StageRole(
        name=BACKWARDER,
        stage=stage,
        answer_type=BackwardAnswer,
        seen=views.step,
        ask=stage.backward,
        said=lambda given, request: views.blamed(_as(BackwardStepResult, given), request),
    )


def aggregate_role(stage: Aggregator, views: StageViews) -> StageRole[MergeRequest, MergeAnswer]:
    """An aggregator of one's own."""
    return StageRole(
        name=AGGREGATOR,
        stage=stage,
        answer_type=MergeAnswer,
        seen=views.remarks,
        ask=stage.aggregate,
        said=lambda given, request: views.merged(_as(AggregateResult, given), request),
    )


def optimize_role(stage: Optimizer, views: StageViews) -> StageRole[PatchRequest, PatchAnswer]:
    """An optimizer of one's own."""
    return StageRole(
        name=PATCHER,
        stage=stage,
        answer_type=PatchAnswer,
        seen=views.surface,
        ask=stage.optimize,
        said=lambda given, request: views.patched(_as(OptimizeResult, given), request),
    )


def _as(kind: type[Result], given: object) -> Result:
    """What a stage gave, which may be JSON data."""
    if isinstance(given, kind):
        return given
    if isinstance(given, Mapping):
        return kind.from_json(cast("Json", dict(cast("Mapping[str, Any]", given))))
    told = f"a stage must give {kind.__name__}, found {type(given).__name__}"
    raise StageFailed(told)
