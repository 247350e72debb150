"""The run folder as other tools read it: iterations, gates, deliverables, the completion.

Everything here is a projection: a resume writes it again, the same.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.outcomes import ToolCall
from burnish.system import Redactor, write_atomic
from burnish.system.files import spare_beside
from burnish.system.workspaces import read_contents, remove_tree, shown, snapshot
from burnish.targets.delegation.critic import Criticised
from burnish.targets.delegation.gates.completion import Verdict
from burnish.targets.delegation.showing import bullets, defect_lines
from burnish.targets.delegation.words import ManagerDecision

COMPLETION, MANIFEST, SUMMARY = "run_completion.json", "run_manifest.json", "RUN_SUMMARY.md"
SCORECARD = "deliverable_scorecard.json"
FINAL, OUTPUT = "FINAL", "output"


@dataclass(frozen=True, kw_only=True)
class Record:
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

    def worked(self, iteration: int, found: Criticised, allowed: Sequence[str]) -> None:
        """What one worker was told, did, and was told of it."""
        job, worked = found.job, found.worked
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
        self._json(f"{home}/critique.json", found.to_json())
        self._json(f"{home}/tool_calls.json", [codec(ToolCall).encode(c) for c in worked.calls])
        self._text(f"{home}/instructions.md", f"{job.instructions}\n")
        self._text(f"{home}/RESULT.md", f"{worked.result.summary}\n\n{worked.result.result}\n")

    def critiques(
        self, iteration: int, found: Sequence[Criticised], repairs: Sequence[Json]
    ) -> None:
        """What the critic said of an iteration's results."""
        patterns: dict[str, Json] = {}
        for each in found:
            for defect in each.critique.defects if each.critique else ():
                seen = cast("dict[str, Json]", patterns.setdefault(defect.category, {
                    "category": defect.category, "frequency": 0,
                    "description": defect.description, "prevention_rule": "",
                    "first_seen": iteration, "last_seen": iteration,
                }))  # fmt: skip
                seen["frequency"] = cast("int", seen["frequency"]) + 1
        summary: Json = {"patterns": patterns, "repair_history": list(repairs)}
        home = _iteration(iteration)
        critiques: list[Json] = [each.to_json() for each in found]
        self._json(f"{home}/critique.json", {"critiques": critiques, "summary": summary})
        lines = [
            f"{each.job.worker_id}: {line}"
            for each in found
            if each.critique is not None
            for line in (
                f"score {each.critique.score:.2f}. {each.critique.summary}",
                *defect_lines(each.critique.defects),
            )
        ]
        self._text(f"{home}/CRITIQUE.md", f"# Critique\n\n{bullets(lines)}\n")

    def gate(self, iteration: int, verdict: Verdict, at: str) -> None:
        """What one gate said."""
        told: dict[str, Json] = {
            "iteration": iteration,
            "gate": verdict.gate,
            "passed": verdict.passed,
            "timestamp": at,
        }
        if verdict.findings:
            told["findings"] = [dict(vars(finding)) for finding in verdict.findings]
        if verdict.first is not None:
            told |= {
                "reason": verdict.reason,
                f"{verdict.gate}_check": verdict.first.check,
                "violating_path": shown(verdict.first.file),
            }
        self._json(f"gates/{iteration:03d}/{verdict.gate}.json", told)

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
        self._json(SCORECARD, scorecard)
        self._text(SUMMARY, summary)
        self._json(COMPLETION, data)

    def _folder(self, name: str, files: Mapping[str, bytes]) -> None:
        """A folder with exactly these files, put in place as a whole."""
        place = self.folder / name
        wanted = {path: self._without_secrets(content) for path, content in files.items()}
        if place.is_dir() and read_contents(place, snapshot(place).files) == wanted:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        spare = spare_beside(place)
        spare.mkdir()
        for path, content in wanted.items():
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
        kept = json.dumps(self.redactor.json(data), indent=2, ensure_ascii=False, allow_nan=False)
        self._write(path, f"{kept}\n")

    def _text(self, path: str, text: str) -> None:
        self._write(path, self.redactor.text(text))

    def _write(self, path: str, text: str) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, text, durable=False)


def _iteration(number: int) -> str:
    return f"iterations/{number:03d}"
