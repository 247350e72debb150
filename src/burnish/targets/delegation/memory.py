"""What a manager's loop knows so far: the plan, the results, the critiques, the rejections."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from burnish.core.content import canonical
from burnish.targets.delegation.critic import Criticised, mean_score
from burnish.targets.delegation.gates.completion import Verdict
from burnish.targets.delegation.manager import deliverable_path
from burnish.targets.delegation.showing import NONE, bullets, defect_lines
from burnish.targets.delegation.words import Defect, ManagerDecision, Subtask

_STALL = 3
"""Equal decisions in a row after which nothing new is to be hoped for."""


@dataclass(kw_only=True)
class Memory:
    """The story of one loop."""

    plan: list[Subtask] = field(default_factory=list[Subtask])
    latest: dict[str, Criticised] = field(default_factory=dict[str, Criticised])
    """Each worker's last result."""
    last: list[Criticised] = field(default_factory=list[Criticised])
    """The results of the last iteration that delegated."""
    subtasks: dict[str, Criticised] = field(default_factory=dict[str, Criticised])
    """The last result for each subtask."""
    hypotheses: list[str] = field(default_factory=list[str])
    rejections: list[Verdict] = field(default_factory=list[Verdict])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Of the deliverables at the last attempt to complete."""
    decided: list[bytes] = field(default_factory=list[bytes])

    def stalled(self, decision: ManagerDecision) -> bool:
        """Whether this very decision was taken again and again."""
        self.decided.append(canonical(decision.model_dump(mode="json")))
        last = self.decided[-_STALL:]
        return len(last) == _STALL and len(set(last)) == 1 and decision.decision != "complete"

    def keep(self, found: Sequence[Criticised], subtasks: Sequence[str]) -> None:
        """Results of an iteration, with the subtasks that they are for."""
        self.last = list(found)
        for each, subtask in zip(found, subtasks, strict=True):
            self.latest[each.job.worker_id] = each
            if subtask:
                self.subtasks[subtask] = each

    def repeated(self) -> int:
        """How many times in a row a completion was rejected for the same reason."""
        told = [(verdict.gate, verdict.reason) for verdict in self.rejections]
        count = 0
        for each in reversed(told):
            if each != told[-1]:
                break
            count += 1
        return count

    @property
    def declared(self) -> list[str]:
        """The deliverables of the plan."""
        paths = [path for task in self.plan for path in task.required_outputs]
        return list(dict.fromkeys(map(deliverable_path, paths)))

    @property
    def open_subtasks(self) -> tuple[str, ...]:
        """Subtasks with criteria that nobody worked on, or whose last result is broken."""
        return tuple(
            task.id
            for task in self.plan
            if task.success_criteria
            and (task.id not in self.subtasks or self.subtasks[task.id].needs_repair)
        )

    @property
    def score(self) -> float | None:
        """The critic's mean score of the last results; None where one of them has none."""
        if any(each.critique is None for each in self.last):
            return None
        return mean_score(self.last)

    @property
    def defects(self) -> list[Defect]:
        """What the last critiques found."""
        return [d for each in self.last if each.critique for d in each.critique.defects]

    def results_text(self) -> str:
        """What workers gave back, for the manager."""
        lines: list[str] = []
        for name, each in self.latest.items():
            result = each.worked.result
            outputs = f" (files: {', '.join(result.outputs)})" if result.outputs else ""
            lines.append(f"{name} [{result.status}]: {result.summary}{outputs}")
            if result.result:
                lines.append(f"{name} says: {result.result[:2000]}")
        lines += [f"hypothesis: {each}" for each in self.hypotheses]
        return bullets(lines)

    def critique_text(self) -> str:
        """What the critic said of the last results."""
        lines: list[str] = []
        for each in self.last:
            name = each.job.worker_id
            if each.critique is None:
                lines += [f"{name}: no critique ({each.missing})"] if each.missing else []
                continue
            lines.append(f"{name}: score {each.critique.score:.2f}. {each.critique.summary}")
            lines += [f"{name}: {line}" for line in defect_lines(each.critique.defects)]
        return bullets(lines)

    def rejection_text(self) -> str:
        """Why the last completion was sent back."""
        if not self.rejections:
            return NONE
        verdict = self.rejections[-1]
        found = [f"{each.file}: {each.detail}".strip(": ") for each in verdict.findings]
        return f"gate {verdict.gate}: {verdict.reason}\n{bullets(found)}"
