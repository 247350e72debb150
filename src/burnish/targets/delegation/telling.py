"""Writing down what an iteration came to: files, events and rows of numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from burnish.core.content import Json
from burnish.targets.delegation.chronicle import Chronicle
from burnish.targets.delegation.critic import Criticised
from burnish.targets.delegation.evaluating import Evaluated
from burnish.targets.delegation.gates.completion import Verdict
from burnish.targets.delegation.record import Record
from burnish.targets.delegation.tools import Toolkit


@dataclass(frozen=True, kw_only=True)
class Telling:
    """Tells the run's folder what happened."""

    chronicle: Chronicle
    record: Record
    toolkit: Toolkit

    def results(self, number: int, found: Sequence[Criticised], repairs: Sequence[Json]) -> None:
        """What an iteration's workers did."""
        for each in found:
            tools = self.toolkit.allowed(each.job.tools_allowed)
            self.record.worked(number, each, list(tools))
            for call in each.worked.calls:
                self.chronicle.metric(
                    "tool_call",
                    number,
                    worker_id=each.job.worker_id,
                    tool_name=call.name,
                    success=not call.error,
                )
        sure = [each.worked.result.confidence for each in found]
        known = [each for each in sure if each is not None]
        if known:
            mean = round(math.fsum(known) / len(known), 4)
            self.chronicle.metric("confidence", number, mean=mean, per_worker=list[Json](sure))
        told = [f"{each.job.worker_id}: {each.worked.result.summary}" for each in found]
        self.record.summary(number, told)
        if any(each.critique is not None or each.missing for each in found):
            self.record.critiques(number, found, repairs)

    def critiques(self, number: int, found: Sequence[Criticised], score: float | None) -> None:
        """What the critic said of them, in numbers."""
        critiques = [each.critique for each in found if each.critique is not None]
        categories = [defect.category for each in critiques for defect in each.defects]
        counted: dict[str, Json] = {
            name: categories.count(name) for name in dict.fromkeys(categories)
        }
        mean = "missing" if score is None else f"{score:.2f}"
        told = f"mean score {mean}, {len(categories)} defects"
        self.chronicle.event("critique", told, iteration=number)
        if score is not None:
            self.chronicle.metric(
                "critique",
                number,
                score=round(score, 4),
                defect_count=len(categories),
                pattern_count=len(counted),
                defects_by_category=counted,
                worker_count=len(found),
            )

    def gate(self, number: int, verdict: Verdict) -> None:
        """What one gate said."""
        self.record.gate(number, verdict, self.chronicle.now)
        self.chronicle.metric(
            "gate",
            number,
            gate=verdict.gate,
            verdict="passed" if verdict.passed else "rejected",
            reason=verdict.reason[:500],
        )

    def rejection(self, number: int, verdict: Verdict, *, times: int, most: int, all_: int) -> None:
        """That a completion was sent back: one row for the rejection, one for the counter."""
        first = verdict.first
        assert first is not None
        self.chronicle.event(
            "gate",
            f"{verdict.gate} REJECTED completion: {verdict.reason}",
            level="WARNING",
            gate=verdict.gate,
            triggered=True,
            reason=verdict.reason,
            iteration=number,
            check=first.check,
            violating_path=first.file,
        )
        counter = f"gate={verdict.gate} count={times}/{most}"
        self.chronicle.event(
            "gate",
            f"completion_rejection_counter PASSED: {counter}",
            gate="completion_rejection_counter",
            triggered=False,
            reason=counter,
            iteration=number,
            gate_fired=verdict.gate,
            rejected_completions=all_,
        )

    def evaluation(self, number: int, evaluated: Evaluated) -> None:
        """What the metrics said."""
        total = evaluated.total
        scores: dict[str, Json] = dict(evaluated.per_metric)
        shown = "missing" if total is None else f"{total:.3f}"
        self.chronicle.event(
            "eval",
            f"total score {shown}: {evaluated.action}",
            iteration=number,
            action=evaluated.action,
            metric_scores=scores,
        )
        if total is not None:
            self.chronicle.metric(
                "eval",
                number,
                worker_id="",
                score=round(total, 6),
                action=evaluated.action,
                metric_scores=scores,
            )
