"""The folder of a delegation: what it was started with, and the files that other tools read."""

import json
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

from burnish.core.cases import ToolCall
from burnish.core.content import Json, codec, from_json
from burnish.core.errors import FileTrouble, JournalTrouble, ResumeRefused
from burnish.core.money import NOTHING
from burnish.core.protocols import KEY_SCHEMA, Call, Effects, Receipt
from burnish.delegation.answers import ManagerDecision, bullets, defect_lines
from burnish.delegation.envelope import Stopwatch, Tally
from burnish.delegation.evaluation import DelegationEvaluation
from burnish.delegation.gates import GateVerdict
from burnish.delegation.manager import CritiquedResult
from burnish.delegation.policy import PolicyTexts
from burnish.delegation.tools import Toolkit
from burnish.delegation.workers import BoardNote
from burnish.delegation.workspace import StateStore
from burnish.system import (
    Redactor,
    append_line,
    place_inside,
    read_bytes,
    remove_stale_temporaries,
    write_inside,
)
from burnish.system.files import spare_beside
from burnish.system.workspaces import read_contents, remove_tree, shown, snapshot
from burnish.version import VERSION

_Level: TypeAlias = Literal["INFO", "WARNING", "ERROR"]
_Category: TypeAlias = Literal[
    "run", "iteration", "manager", "worker", "tool", "critique", "gate", "budget", "delegation",
    "repair", "eval", "completion",
]  # fmt: skip
Listener: TypeAlias = Callable[[dict[str, Json]], None]
"""Receives every event, also on a replay."""

COMPLETION, MANIFEST, SUMMARY = "run_completion.json", "run_manifest.json", "RUN_SUMMARY.md"
FINAL, OUTPUT = "FINAL", "output"
_METRICS = "metrics.jsonl"


@dataclass(frozen=True, kw_only=True)
class _Moment:
    at: str
    seconds: float


@dataclass(kw_only=True)
class Recording:
    """Writes the events, metric rows and files of one run."""

    folder: Path
    run_id: str
    redactor: Redactor
    toolkit: Toolkit
    store: StateStore
    """Holds the contents of what is delivered, where delegations share one."""
    effects: Effects
    clock: Stopwatch
    tally: Tally
    listen: Listener | None = None
    _evaluations: list[Json] = field(default_factory=list[Json], init=False)
    now: str = field(default="", init=False)
    """When the current step began."""

    @property
    def _events(self) -> str:
        return f"logs/{self.run_id}/events.jsonl"

    def begin(self) -> None:
        """Empty both files."""
        for name in (self._events, _METRICS):
            write_inside(self.folder, name, "", durable=False)

    async def tick(self, label: str) -> None:
        """Journal the time, once for each label."""

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
        """Write an event."""
        row: dict[str, Json] = {
            "ts": self.now,
            "level": level,
            "category": category,
            "msg": message,
            "fields": dict(fields),
        }
        written = self._append(self._events, row)
        if self.listen is not None:
            self.listen(written)

    def metric(self, kind: str, iteration: int, **fields: Json) -> None:
        """Write a row of numbers."""
        row: dict[str, Json] = {"ts": self.now, "kind": f"metric.{kind}", "iteration": iteration}
        self._append(_METRICS, row | fields)

    def _append(self, name: str, row: dict[str, Json]) -> dict[str, Json]:
        written = self.redactor.json(row)
        assert isinstance(written, dict)
        path = place_inside(self.folder, name)
        append_line(path, json.dumps(written, ensure_ascii=False, allow_nan=False))
        return written

    def decision(self, iteration: int, decision: ManagerDecision) -> None:
        """What the manager decided."""
        data = decision.model_dump(mode="json", exclude_defaults=True)
        self._json(f"{_iteration(iteration)}/manager_decision.json", cast("Json", data))

    def budget(self, iteration: int, snapshot: dict[str, Json]) -> None:
        """What was used of the envelope."""
        self._json(f"{_iteration(iteration)}/budget_snapshot.json", snapshot)
        self.metric("budget", iteration, **snapshot)

    def results(
        self, number: int, criticised: Sequence[CritiquedResult], repairs: Sequence[Json]
    ) -> None:
        """What an iteration's workers did."""
        for each in criticised:
            self._result(number, each)
            for call in each.outcome.calls:
                self.metric(
                    "tool_call",
                    number,
                    worker_id=each.job.worker_id,
                    tool_name=call.name,
                    success=not call.error,
                )
        confidences = [each.outcome.result.confidence for each in criticised]
        if stated := [each for each in confidences if each is not None]:
            mean = round(math.fsum(stated) / len(stated), 4)
            per_worker = list[Json](confidences)
            self.metric("confidence", number, mean=mean, per_worker=per_worker)
        self._validation(number, criticised)
        lines = [f"{each.job.worker_id}: {each.outcome.result.summary}" for each in criticised]
        page = f"# Iteration {number}\n\n{bullets(lines)}\n"
        self._text(f"{_iteration(number)}/ITERATION_SUMMARY.md", page)
        if any(each.critique is not None or each.missing for each in criticised):
            self._critiques(number, criticised, repairs)

    def _result(self, iteration: int, criticised: CritiquedResult) -> None:
        job, outcome = criticised.job, criticised.outcome
        home = f"{_iteration(iteration)}/delegations/{job.worker_id}"
        envelope: Json = {
            "worker_id": job.worker_id,
            "iteration": iteration,
            "attempt": job.attempt,
            "tools_allowed": list(self.toolkit.allowed(job.tools_allowed)),
            "success_criteria": list(job.criteria),
            "state_before": outcome.before,
            "state_after": outcome.after,
        }
        self._json(f"{home}/envelope.json", envelope)
        self._json(f"{home}/result.json", cast("Json", outcome.result.model_dump(mode="json")))
        self._json(f"{home}/critique.json", criticised.to_json())
        self._json(f"{home}/tool_calls.json", [codec(ToolCall).encode(c) for c in outcome.calls])
        self._text(f"{home}/instructions.md", f"{job.instructions}\n")
        self._text(f"{home}/RESULT.md", f"{outcome.result.summary}\n\n{outcome.result.result}\n")

    def _validation(self, iteration: int, results: Sequence[CritiquedResult]) -> None:
        """What is wrong with the results at first sight; no model is asked."""
        rows: list[Json] = []
        feedback: list[str] = []
        for each in results:
            issues = each.issues(self.store.files(each.outcome.after))
            rows.append(
                {"worker_id": each.job.worker_id, "valid": not issues, "issues": list[Json](issues)}
            )
            feedback += [f"{each.job.worker_id}: {issue}" for issue in issues]
        verdict: Json = {
            "iteration": iteration,
            "valid": not feedback,
            "results": rows,
            "feedback": "\n".join(feedback),
        }
        self._json(f"{_iteration(iteration)}/validation.json", verdict)

    def board(self, notes: Sequence[BoardNote]) -> None:
        """The notes of all workers so far."""
        lines = [json.dumps(vars(note), ensure_ascii=False) for note in notes]
        self._text(f"blackboard/{self.run_id}.jsonl", "".join(f"{line}\n" for line in lines))

    def _critiques(
        self, iteration: int, results: Sequence[CritiquedResult], repairs: Sequence[Json]
    ) -> None:
        patterns: dict[str, Json] = {}
        lines: list[str] = []
        for each in results:
            if each.critique is None:
                continue
            for defect in each.critique.defects:
                seen = cast("dict[str, Json]", patterns.setdefault(defect.category, {
                    "category": defect.category, "frequency": 0,
                    "description": defect.description, "prevention_rule": "",
                    "first_seen": iteration, "last_seen": iteration,
                }))  # fmt: skip
                seen["frequency"] = cast("int", seen["frequency"]) + 1
            score = f"score {each.critique.score:.2f}. {each.critique.summary}"
            details = (score, *defect_lines(each.critique.defects))
            lines += [f"{each.job.worker_id}: {line}" for line in details]
        summary: Json = {"patterns": patterns, "repair_history": list(repairs)}
        critiques: list[Json] = [each.to_json() for each in results]
        home = _iteration(iteration)
        self._json(f"{home}/critique.json", {"critiques": critiques, "summary": summary})
        self._text(f"{home}/CRITIQUE.md", f"# Critique\n\n{bullets(lines)}\n")

    def critiques(
        self, number: int, results: Sequence[CritiquedResult], score: float | None
    ) -> None:
        """The critic's scores and defects, in numbers."""
        defects = [d for each in results if each.critique for d in each.critique.defects]
        counts = Counter(defect.category for defect in defects)
        mean = "missing" if score is None else f"{score:.2f}"
        message = f"mean score {mean}, {len(defects)} defects"
        self.event("critique", message, iteration=number)
        if score is not None:
            self.metric(
                "critique",
                number,
                score=round(score, 4),
                defect_count=len(defects),
                pattern_count=len(counts),
                defects_by_category=dict[str, Json](counts),
                worker_count=len(results),
            )

    def gate(self, number: int, verdict: GateVerdict) -> None:
        """The verdict of one gate."""
        entry: dict[str, Json] = {
            "iteration": number,
            "gate": verdict.gate,
            "passed": verdict.passed,
            "timestamp": self.now,
        }
        if verdict.findings:
            entry["findings"] = [dict(vars(finding)) for finding in verdict.findings]
        if verdict.first is not None:
            entry |= {
                "reason": verdict.reason,
                f"{verdict.gate}_check": verdict.first.check,
                "violating_path": shown(verdict.first.file),
            }
        self._json(f"gates/{number:03d}/{verdict.gate}.json", entry)
        self.metric(
            "gate",
            number,
            gate=verdict.gate,
            verdict="passed" if verdict.passed else "rejected",
            reason=verdict.reason[:500],
        )

    def rejection(
        self, number: int, verdict: GateVerdict, *, times: int, most: int, all_: int
    ) -> None:
        """A rejected completion: one row for the rejection, one for the counter."""
        first = verdict.first
        assert first is not None
        self.event(
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
        self.event(
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
        """The scores of the metrics."""
        total, action = evaluated.total, evaluated.action
        scores: dict[str, Json] = dict(evaluated.per_metric)
        message = f"total score {'missing' if total is None else f'{total:.3f}'}: {action}"
        self.event("eval", message, iteration=number, action=action, metric_scores=scores)
        if total is not None:
            score: dict[str, Json] = {"worker_id": "", "score": round(total, 6)}
            self.metric("eval", number, **score, action=action, metric_scores=scores)
        result: dict[str, Json] = {
            "score": total,
            "action": action,
            "hook": "completion",
            "agent_id": "manager",
            "metric_scores": [
                {name: getattr(each, name) for name in _MEASURED} for each in evaluated.measured
            ],
        }
        record = {"hook": "completion", "agent_id": "manager", "iteration": number}
        self._evaluations.append({**record, "result": result, "timestamp": self.now})
        self._json(
            f"data/evaluation/{self.run_id}.json",
            {
                "run_id": self.run_id,
                "final_score": total,
                "final_action": action,
                "step_records": list(self._evaluations),
                "final_result": result,
                "retries_used": len(self._evaluations) - 1,
                "metadata": {},
            },
        )

    def deliver(self, made: Mapping[str, bytes], final: Mapping[str, bytes] | None) -> None:
        """Write the files that were made, and the deliverables among them; None writes no FINAL."""
        self._folder(f"{OUTPUT}/{self.run_id}", made)
        if final is None:
            remove_tree(self.folder / FINAL)
        else:
            self._folder(FINAL, final)

    def completion(self, data: Json, scorecard: Json, summary: str) -> None:
        """How the run ended; the completion is last, since it marks the run as finished."""
        self._json("deliverable_scorecard.json", scorecard)
        self._text(SUMMARY, summary)
        self._json(COMPLETION, data)

    def _folder(self, name: str, files: Mapping[str, bytes]) -> None:
        """Replace a folder atomically by one with exactly these files."""
        place = place_inside(self.folder, name)
        contents = {path: self._without_secrets(content) for path, content in files.items()}
        if place.is_dir() and read_contents(place, snapshot(place).files) == contents:
            return
        spare = spare_beside(place)
        spare.mkdir()
        for path, content in contents.items():
            (spare / path).parent.mkdir(parents=True, exist_ok=True)
            self.store.deliver(content, spare / path)
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
        write_inside(self.folder, path, text, durable=False)


_MEASURED = ("name", "kind", "score", "weight", "evidence", "error")
"""The parts of a measurement in the file of an evaluation."""


def _iteration(number: int) -> str:
    return f"iterations/{number:03d}"


POLICY = "policy.json"
_RUN_ID = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_[0-9a-f]{8}")


def new_run_id() -> str:
    """A unique run id from the time and random digits."""
    return f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(4)}"


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        data = from_json(read_bytes(folder / MANIFEST))
    except ValueError as error:
        raise _damaged(folder / MANIFEST) from error
    if not isinstance(data, dict) or not isinstance(data.get("run_id"), str):  # pyright: ignore[reportUnknownMemberType]
        raise _damaged(folder / MANIFEST)
    return cast("dict[str, Any]", data)


def is_delegation(folder: Path) -> bool:
    """Whether a delegation was started in this folder."""
    return (folder / MANIFEST).is_file()


def is_of_burnish(folder: Path) -> bool:
    """Whether burnish started it: other systems also write a manifest of that name."""
    return is_delegation(folder) and (folder / POLICY).is_file()


@dataclass(frozen=True, kw_only=True)
class Home:
    """The folder of a delegation, in a run that holds its own lock and journal."""

    folder: Path
    manifest: Mapping[str, Any]
    policy: PolicyTexts

    @classmethod
    def open(
        cls, folder: Path, manifest: Mapping[str, Json], *, policy: PolicyTexts, redactor: Redactor
    ) -> Self:
        """Start a delegation here, or resume the one that was started with the same inputs."""
        folder = folder.resolve()
        if is_delegation(folder):
            require_same(folder, manifest)
        else:
            cls.make(folder, manifest, policy=policy, redactor=redactor, name=folder.name)
        remove_stale_temporaries(folder)
        return cls(folder=folder, manifest=_read_manifest(folder), policy=kept_policy(folder))

    @staticmethod
    def make(
        folder: Path,
        manifest: Mapping[str, Json],
        *,
        policy: PolicyTexts,
        redactor: Redactor,
        name: str,
    ) -> None:
        """Start a delegation here; `name` becomes its run id if it has that form."""
        run_id = name if _RUN_ID.fullmatch(name) else new_run_id()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        whole = redactor.json({"run_id": run_id, "started": started, **manifest})
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileTrouble(f"cannot start a delegation in {folder}: {error.strerror}") from error
        # The manifest last: what has one has begun.
        keep_policy(folder, policy)
        text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
        write_inside(folder, MANIFEST, text)

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])


def versions() -> dict[str, str]:
    """The versions that also decide what happens."""
    return {
        "key schema": str(KEY_SCHEMA),
        "burnish version": ".".join(VERSION.split(".")[:2]),
    }


def require_same(folder: Path, manifest: Mapping[str, Json]) -> None:
    """Raise ResumeRefused if a delegation was started with other inputs."""
    previous = _read_manifest(folder)
    old = cast("dict[str, str]", previous.get("inputs", {}))
    new = cast("dict[str, str]", manifest["inputs"])
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if changed:
        raise ResumeRefused(
            f"delegation {previous['run_id']} was started with another {', '.join(changed)}",
            remedy="restore it to resume, or start a new run in another folder",
        )


def keep_policy(folder: Path, policy: PolicyTexts) -> None:
    """Store the policy texts that the run reads."""
    text = json.dumps(policy.to_json(), indent=2, ensure_ascii=False)
    write_inside(folder, POLICY, text)


def kept_policy(folder: Path) -> PolicyTexts:
    """The policy texts that the run was started with."""
    try:
        data = cast("Any", from_json(read_bytes(folder / POLICY)))
        return PolicyTexts(texts=data["texts"], versions=data["versions"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder / POLICY) from error


def _damaged(path: Path) -> JournalTrouble:
    remedy = "restore it from a backup, or start a new run"
    return JournalTrouble(f"{path} is damaged or does not belong to a delegation", remedy=remedy)
