"""A delegation as an outcome of one case: its signals, its loss, and what was wrong in words.

A signal that nobody could give is missing. A task that failed, was aborted or left nothing has
failed: that is a score of 0, not the neutral loss that an empty folder would have.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.outcomes import Failure, FailureKind, Outcome, Usage
from burnish.targets.delegation.loss import WEIGHTS
from burnish.targets.delegation.result import DelegationResult
from burnish.targets.delegation.workflow import Workflow

SIGNALS = tuple(WEIGHTS)
"""The parts of the loss, each from 0, which is good, to 1."""
MOST_SHOWN = 12
"""Defects that are told of one run; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class DelegationFacts:
    """What the outcome of a delegation says of it beside its numbers."""

    run_id: str = ""
    folder: str = ""
    status: str = ""
    reason: str = ""
    deliverables: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """What was wrong, one thing a line."""

    @classmethod
    def of(cls, outcome: Outcome) -> "DelegationFacts":
        """What an outcome says; nothing where it is not one of a delegation."""
        return codec(cls).decode(outcome.data) if isinstance(outcome.data, dict) else cls()


@dataclass(frozen=True, kw_only=True)
class Account:
    """What one delegation came to, for whoever learns from it."""

    result: DelegationResult
    workflow: Workflow

    def outcome(self) -> Outcome:
        """As an outcome of its case."""
        result, spent, failure = self.result, self.result.spent, self._failure()
        return Outcome(
            replies=() if failure else (result.result,),
            data=self._data(),
            measures={} if failure else self.signals(),
            usage=Usage(
                requests=spent.calls, input_tokens=spent.tokens_in, output_tokens=spent.tokens_out
            ),
            nano_usd=None if spent.unpriced else spent.nano_usd,
            seconds=self._seconds(),
            failure=failure,
        )

    def signals(self) -> dict[str, float]:
        """The parts of the loss before they are weighed."""
        loss = self.result.loss
        found = {name: getattr(loss, name) / WEIGHTS[name] for name in SIGNALS}
        if self.workflow.critic is not None and self.result.critique is None:
            # There was a critic, and nothing to criticise: that is not half as good as it can be.
            found["critique"] = 1.0
        return {name: round(value, 6) for name, value in found.items()}

    def words(self) -> list[str]:
        """What was wrong, one thing a line."""
        return [*self._defects(), *self._gates(), *self._metrics()]

    def _failure(self) -> Failure | None:
        result = self.result
        if told := self._missing():
            return Failure(kind=FailureKind.INFRASTRUCTURE, message=told, error="Missing")
        ended = result.status in ("failed", "aborted")
        if not ended and (result.deliverables or result.result.strip()):
            return None
        head = f"the task {result.status}: {result.reason}"
        if not ended:
            head = f"nothing was delivered ({result.status}: {result.reason})"
        message = "\n".join([head, *self.words()])
        return Failure(kind=FailureKind.AGENT, message=message, error=result.status)

    def _missing(self) -> str:
        """What could not be had, and is nobody's fault here."""
        result, workflow = self.result, self.workflow
        if result.reason.startswith("manager_missing"):
            return result.reason
        if result.status in ("failed", "aborted"):
            return ""
        if workflow.critic is not None and result.critique is None and self._criticised:
            return "the critic could not be asked"
        if result.evaluation is not None and result.evaluation.total is None:
            errors = [each.error for each in result.evaluation.measured if each.error]
            return f"the result could not be measured: {'; '.join(errors)}"
        return ""

    @property
    def _criticised(self) -> bool:
        """Whether there was anything for the critic to see."""
        return any(self.result.run_dir.glob("iterations/*/critique.json"))

    def _seconds(self) -> float:
        told = self.result.budget.get("wall_time")
        used = told.get("elapsed_s") if isinstance(told, dict) else None
        return float(used) if isinstance(used, int | float) else 0.0

    def _data(self) -> Json:
        result = self.result
        facts = DelegationFacts(
            run_id=result.run_id,
            folder=result.run_dir.name,
            status=result.status,
            reason=result.reason,
            deliverables=tuple(result.names),
            told=tuple(self.words()),
        )
        return codec(DelegationFacts).encode(facts)

    def _defects(self) -> Iterator[str]:
        worst_first = sorted(self.result.defects, key=lambda each: _ORDER[each.severity])
        for each in worst_first[:MOST_SHOWN]:
            where = f" {each.location}:" if each.location else ""
            yield f"defect [{each.severity}] ({each.category}){where} {each.description}"
        if (more := len(worst_first) - MOST_SHOWN) > 0:
            yield f"and {more} more defects"

    def _gates(self) -> Iterator[str]:
        for each in self.result.rejections:
            yield f"gate {each.gate} sent the completion back: {each.reason}"

    def _metrics(self) -> Iterator[str]:
        if self.result.evaluation is None:
            return
        for each in self.result.evaluation.measured:
            if each.score is not None and each.score < each.threshold:
                told = f"metric {each.name} is {each.score:g} and should reach {each.threshold:g}"
                yield f"{told} {each.evidence}".rstrip()


_ORDER = {"critical": 0, "warning": 1, "info": 2}
