"""The run folder as other tools read it, written while a delegation goes on."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, cast

from burnish.core.content import Json, codec
from burnish.core.money import NOTHING
from burnish.core.outcomes import ToolCall
from burnish.core.protocols import Call, Effects, Receipt
from burnish.delegation.answers import ManagerDecision, bullets, defect_lines
from burnish.delegation.envelope import Stopwatch, Tally
from burnish.delegation.evaluation import DelegationEvaluation
from burnish.delegation.gates import GateVerdict
from burnish.delegation.manager import Criticised
from burnish.delegation.tools import Toolkit
from burnish.system import Redactor, append_line, write_atomic
from burnish.system.files import spare_beside
from burnish.system.workspaces import read_contents, remove_tree, shown, snapshot

_Level: TypeAlias = Literal["INFO", "WARNING", "ERROR"]
_Category: TypeAlias = Literal[
    "run", "iteration", "manager", "worker", "tool", "critique", "gate", "budget", "delegation",
    "repair", "eval", "completion",
]  # fmt: skip
Listener: TypeAlias = Callable[[dict[str, Json]], None]
"""Is told every event, on a replay too."""


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """A time that was journaled."""

    at: str
    seconds: float
    """The run's active time."""


@dataclass(kw_only=True)
class Chronicle:
    """Writes events and metric rows."""

    events: Path
    metrics: Path
    effects: Effects
    clock: Stopwatch
    tally: Tally
    redactor: Redactor
    listen: Listener | None = None
    now: str = field(default="", init=False)
    """When the present step began."""

    def begin(self) -> None:
        """Start both files anew."""
        for path in (self.events, self.metrics):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, "", durable=False)

    async def tick(self, label: str) -> None:
        """Look at the clock, once for each label."""

        async def perform(_: Effects) -> Receipt[_Moment]:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            return Receipt(value=_Moment(at=at, seconds=self.clock.seconds))

        call = Call(kind="moment", request=label, codec=codec(_Moment), estimate=NOTHING)
        moment = await self.effects.once(call, perform)
        self.now = moment.at
        self.clock.reach(moment.seconds)
        self.tally.seconds = max(self.tally.seconds, moment.seconds)

    def event(
        self, category: _Category, message: str, *, level: _Level = "INFO", **fields: Json
    ) -> None:
        """Something that happened."""
        row: dict[str, Json] = {
            "ts": self.now,
            "level": level,
            "category": category,
            "msg": message,
            "fields": dict(fields),
        }
        written = self._write(self.events, row)
        if self.listen is not None:
            self.listen(written)

    def metric(self, kind: str, iteration: int, **fields: Json) -> None:
        """A row of numbers."""
        row: dict[str, Json] = {
            "ts": self.now,
            "kind": f"metric.{kind}",
            "iteration": iteration,
            **fields,
        }
        self._write(self.metrics, row)

    def _write(self, path: Path, row: dict[str, Json]) -> dict[str, Json]:
        written = self.redactor.json(row)
        assert isinstance(written, dict)
        append_line(path, json.dumps(written, ensure_ascii=False, allow_nan=False))
        return written


COMPLETION, MANIFEST, SUMMARY = "run_completion.json", "run_manifest.json", "RUN_SUMMARY.md"
# -- The run folder as other tools read it --------------------------------------------------------


_SCORECARD = "deliverable_scorecard.json"
FINAL, OUTPUT = "FINAL", "output"


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """Writes the files of one run."""

    folder: Path
    run_id: str
    redactor: Redactor

    def decision(self, iteration: int, decision: ManagerDecision) -> None:
        """What the manager decided."""
        data = decision.model_dump(mode="json", exclude_defaults=True)
        self._json(f"{_iteration(iteration)}/manager_decision.json", cast("Json", data))

    def budget(self, iteration: int, snapshot: Json) -> None:
        """What was used of the envelope."""
        self._json(f"{_iteration(iteration)}/budget_snapshot.json", snapshot)

    def summary(self, iteration: int, lines: Sequence[str]) -> None:
        """The iteration in words."""
        text = f"# Iteration {iteration}\n\n{bullets(lines)}\n"
        self._text(f"{_iteration(iteration)}/ITERATION_SUMMARY.md", text)

    def worked(self, iteration: int, result: Criticised, allowed: Sequence[str]) -> None:
        """What one worker was told, did, and was told of it."""
        job, worked = result.job, result.worked
        home = f"{_iteration(iteration)}/delegations/{job.worker_id}"
        envelope: Json = {
            "worker_id": job.worker_id,
            "iteration": iteration,
            "attempt": job.attempt,
            "tools_allowed": list(allowed),
            "success_criteria": list(job.criteria),
            "state_before": worked.before,
            "state_after": worked.after,
        }
        self._json(f"{home}/envelope.json", envelope)
        self._json(f"{home}/result.json", cast("Json", worked.result.model_dump(mode="json")))
        self._json(f"{home}/critique.json", result.to_json())
        self._json(f"{home}/tool_calls.json", [codec(ToolCall).encode(c) for c in worked.calls])
        self._text(f"{home}/instructions.md", f"{job.instructions}\n")
        self._text(f"{home}/RESULT.md", f"{worked.result.summary}\n\n{worked.result.result}\n")

    def critiques(
        self, iteration: int, results: Sequence[Criticised], repairs: Sequence[Json]
    ) -> None:
        """What the critic said of an iteration's results."""
        patterns: dict[str, Json] = {}
        for each in results:
            for defect in each.critique.defects if each.critique else ():
                seen = cast("dict[str, Json]", patterns.setdefault(defect.category, {
                    "category": defect.category, "frequency": 0,
                    "description": defect.description, "prevention_rule": "",
                    "first_seen": iteration, "last_seen": iteration,
                }))  # fmt: skip
                seen["frequency"] = cast("int", seen["frequency"]) + 1
        summary: Json = {"patterns": patterns, "repair_history": list(repairs)}
        home = _iteration(iteration)
        critiques: list[Json] = [each.to_json() for each in results]
        self._json(f"{home}/critique.json", {"critiques": critiques, "summary": summary})
        lines = [
            f"{each.job.worker_id}: {line}"
            for each in results
            if each.critique is not None
            for line in (
                f"score {each.critique.score:.2f}. {each.critique.summary}",
                *defect_lines(each.critique.defects),
            )
        ]
        self._text(f"{home}/CRITIQUE.md", f"# Critique\n\n{bullets(lines)}\n")

    def gate(self, iteration: int, verdict: GateVerdict, at: str) -> None:
        """What one gate said."""
        entry: dict[str, Json] = {
            "iteration": iteration,
            "gate": verdict.gate,
            "passed": verdict.passed,
            "timestamp": at,
        }
        if verdict.findings:
            entry["findings"] = [dict(vars(finding)) for finding in verdict.findings]
        if verdict.first is not None:
            entry |= {
                "reason": verdict.reason,
                f"{verdict.gate}_check": verdict.first.check,
                "violating_path": shown(verdict.first.file),
            }
        self._json(f"gates/{iteration:03d}/{verdict.gate}.json", entry)

    def deliver(self, made: Mapping[str, bytes], final: Mapping[str, bytes] | None) -> None:
        """The files that were made, and among them the deliverables; no FINAL where None."""
        self._folder(f"{OUTPUT}/{self.run_id}", made)
        if final is None:
            remove_tree(self.folder / FINAL)
        else:
            self._folder(FINAL, final)

    def manifest(self, data: Json) -> None:
        """What the run was started with."""
        self._json(MANIFEST, data)

    def completion(self, data: Json, scorecard: Json, summary: str) -> None:
        """How the run ended; the completion last, since it says that all else is there."""
        self._json(_SCORECARD, scorecard)
        self._text(SUMMARY, summary)
        self._json(COMPLETION, data)

    def _folder(self, name: str, files: Mapping[str, bytes]) -> None:
        """A folder with exactly these files, put in place as a whole."""
        place = self.folder / name
        contents = {path: self._without_secrets(content) for path, content in files.items()}
        if place.is_dir() and read_contents(place, snapshot(place).files) == contents:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        spare = spare_beside(place)
        spare.mkdir()
        for path, content in contents.items():
            (spare / path).parent.mkdir(parents=True, exist_ok=True)
            (spare / path).write_bytes(content)
        if os.path.lexists(place):
            remove_tree(place)
        spare.rename(place)

    def _without_secrets(self, content: bytes) -> bytes:
        try:
            return self.redactor.without_known(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def _json(self, path: str, data: Json) -> None:
        document = json.dumps(
            self.redactor.json(data), indent=2, ensure_ascii=False, allow_nan=False
        )
        self._write(path, f"{document}\n")

    def _text(self, path: str, text: str) -> None:
        self._write(path, self.redactor.text(text))

    def _write(self, path: str, text: str) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, text, durable=False)


def _iteration(number: int) -> str:
    return f"iterations/{number:03d}"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Tells the run's folder what happened."""

    chronicle: Chronicle
    record: RunFiles
    toolkit: Toolkit

    def results(
        self, number: int, criticised: Sequence[Criticised], repairs: Sequence[Json]
    ) -> None:
        """What an iteration's workers did."""
        for each in criticised:
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
        sure = [each.worked.result.confidence for each in criticised]
        stated = [each for each in sure if each is not None]
        if stated:
            mean = round(math.fsum(stated) / len(stated), 4)
            self.chronicle.metric("confidence", number, mean=mean, per_worker=list[Json](sure))
        lines = [f"{each.job.worker_id}: {each.worked.result.summary}" for each in criticised]
        self.record.summary(number, lines)
        if any(each.critique is not None or each.missing for each in criticised):
            self.record.critiques(number, criticised, repairs)

    def critiques(self, number: int, results: Sequence[Criticised], score: float | None) -> None:
        """What the critic said of them, in numbers."""
        critiques = [each.critique for each in results if each.critique is not None]
        categories = [defect.category for each in critiques for defect in each.defects]
        counted: dict[str, Json] = {
            name: categories.count(name) for name in dict.fromkeys(categories)
        }
        mean = "missing" if score is None else f"{score:.2f}"
        message = f"mean score {mean}, {len(categories)} defects"
        self.chronicle.event("critique", message, iteration=number)
        if score is not None:
            self.chronicle.metric(
                "critique",
                number,
                score=round(score, 4),
                defect_count=len(categories),
                pattern_count=len(counted),
                defects_by_category=counted,
                worker_count=len(results),
            )

    def gate(self, number: int, verdict: GateVerdict) -> None:
        """What one gate said."""
        self.record.gate(number, verdict, self.chronicle.now)
        self.chronicle.metric(
            "gate",
            number,
            gate=verdict.gate,
            verdict="passed" if verdict.passed else "rejected",
            reason=verdict.reason[:500],
        )

    def rejection(
        self, number: int, verdict: GateVerdict, *, times: int, most: int, all_: int
    ) -> None:
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

    def evaluation(self, number: int, evaluated: DelegationEvaluation) -> None:
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
