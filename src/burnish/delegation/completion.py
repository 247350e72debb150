"""A completion passing through the chain of gates."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import cast

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.delegation import gates
from burnish.delegation.answers import ManagerDecision
from burnish.delegation.evaluation import DelegationEvaluation, Final, MetricMeasurement, measure
from burnish.delegation.gates import Completion, GateFinding, GateVerdict, suffix
from burnish.delegation.manager import ManagerMemory, deliverable_path
from burnish.delegation.team import Workflow
from burnish.delegation.workers import WorkContext
from burnish.delegation.workspace import INPUT
from burnish.system.workspaces import shown

_LOOKING: Mapping[str, Callable[[Completion], Iterator[GateFinding]] | None] = {
    "l0": gates.l0,
    "critique": gates.critique,
    "deliverable_presence": gates.deliverable_presence,
    "placeholder": gates.placeholder,
    "file": gates.file,
    "deliverable": gates.deliverable,
    "syntax_compile": gates.syntax_compile,
    "schema": gates.schema,
    "cross_reference": gates.cross_reference,
    "success_criteria": gates.success_criteria,
    "smoke_test": None,
    "structural_integrity": gates.structural_integrity,
    "eval": None,
}
"""Every gate in order; None marks a gate that runs something and is passed in."""
ORDER = tuple(_LOOKING)


def look(gate: str, completion: Completion) -> GateVerdict:
    """The verdict of a gate that runs nothing."""
    check = _LOOKING[gate]
    assert check is not None
    return GateVerdict(gate=gate, findings=tuple(check(completion)))


async def pass_through(
    completion: Completion, acting: Mapping[str, Callable[[Completion], Awaitable[GateVerdict]]]
) -> AsyncIterator[GateVerdict]:
    """Each gate's verdict in turn, up to the first that rejects."""
    for gate in ORDER:
        run = acting.get(gate)
        verdict = look(gate, completion) if run is None else await run(completion)
        yield verdict
        if not verdict.passed:
            return


_NAMED_IN_TASK = re.compile(r"_output_dir/[\w./-]+\.\w+")


@dataclass(kw_only=True)
class CompletionCheck:
    """Checks the workspace when the manager reports the task as done."""

    workflow: Workflow
    context: WorkContext
    task: str
    origin: str
    memory: ManagerMemory
    evaluated: DelegationEvaluation | None = field(default=None, init=False)
    """The scores of the metrics, once the gate `eval` was reached."""

    def verdicts(self, decision: ManagerDecision, number: int) -> AsyncIterator[GateVerdict]:
        """Each gate's verdict, up to the first that rejects."""
        workflow, memory, workspace = self.workflow, self.memory, self.context.workspace
        entries = workspace.store.entries(workspace.state)
        # A deliverable that continues an input file of its name is compared with that.
        input_sizes = {
            path.removeprefix(f"{INPUT}/"): entry.size
            for path, entry in entries.items()
            if path.startswith(f"{INPUT}/") and entry.kind == "file"
        }
        completion = Completion(
            task=self.task,
            result=decision.final_result,
            declared=self.declared,
            files=self._shown_files(),
            earlier_sizes={**input_sizes, **memory.sizes},
            criticised=workflow.critic is not None and bool(memory.last),
            critique=memory.score,
            open_subtasks=memory.open_subtasks,
            schemas={each.path: each.schema for each in workflow.deliverables if each.schema},
            settings=workflow.gates,
        )
        memory.sizes |= {path: len(c) for path, c in completion.delivered.items()}
        final = self.final(decision.final_result, decision.confidence, number)

        async def evaluate(_: Completion) -> GateVerdict:
            self.evaluated = await measure(workflow.metrics, final, self.context, workflow.zones)
            return _eval_verdict(self.evaluated)

        return pass_through(completion, {"smoke_test": self._smoke, "eval": evaluate})

    @property
    def declared(self) -> tuple[str, ...]:
        """The deliverables of the workflow and of the plan, and those that the task names."""
        named = [deliverable_path(path) for path in _NAMED_IN_TASK.findall(self.task)]
        own = [each.path for each in self.workflow.deliverables]
        return tuple(dict.fromkeys([*own, *self.memory.declared, *named]))

    def files(self) -> dict[str, bytes]:
        """Every file that is new or changed since the run began, and every deliverable."""
        workspace = self.context.workspace
        there = set(workspace.files)
        paths = [*workspace.changed_since(self.origin), *(p for p in self.declared if p in there)]
        return {path: workspace.read(path) for path in dict.fromkeys(paths)}

    def _shown_files(self) -> dict[str, bytes]:
        return {shown(path): content for path, content in self.files().items()}

    def final(self, result: str, confidence: float | None, number: int) -> Final:
        """The input of the metrics."""
        return Final(
            task=self.task,
            result=result,
            confidence=confidence,
            files=self._shown_files(),
            declared=self.declared,
            defects=tuple(self.memory.defects),
            remaining=self.context.tally.remaining,
            draw=number,
        )

    async def _smoke(self, completion: Completion) -> GateVerdict:
        """Run the scripts that the workflow marks; their changes are undone."""
        findings: list[GateFinding] = []
        for each in self.workflow.deliverables:
            if not each.smoke or each.path not in completion.delivered:
                continue
            if problem := await self._problem_of_script(each.path):
                findings.append(GateFinding(each.path, problem, "smoke_test"))
        return GateVerdict(gate="smoke_test", findings=tuple(findings))

    async def _problem_of_script(self, path: str) -> str:
        runner = {".py": "python", ".sh": "sh"}.get(suffix(path))
        if runner is None:
            return f"{PurePosixPath(path).name} cannot be run: only .py and .sh files can"
        commands, seconds = self.context.commands, self.workflow.gates.smoke_seconds

        async def act() -> Json:
            try:
                ran = await commands.run([runner, path], seconds=seconds)
            except FileTrouble as error:
                return error.message
            return "" if ran.ok else commands.why(ran)

        request: dict[str, Json] = {"script": path, "seconds": seconds}
        return cast(
            "str", await self.context.workspace.step("smoke", request, act, leaves="litter")
        )


def _low_score(measurement: MetricMeasurement) -> str:
    target = "" if measurement.threshold is None else f" of {measurement.threshold:g}"
    return f"{measurement.name} {measurement.score:.2f}{target}"


def _eval_verdict(evaluated: DelegationEvaluation) -> GateVerdict:
    if not evaluated.measured or evaluated.action in ("accept", "pass"):
        return GateVerdict(gate="eval")
    zones, measured, action = evaluated.zones, evaluated.measured, evaluated.action
    if action == "cannot_tell":
        errors = [f"{each.name}: {each.error}" for each in measured if each.score is None]
        detail = f"cannot tell: {'; '.join(errors)}"
    else:
        low = [_low_score(each) for each in measured if each.below(zones.accept)]
        bar = zones.fail if action == "fail" else zones.retry
        detail = f"the total score is {evaluated.total:.3f}, below {bar:g} ({', '.join(low)})"
    finding = GateFinding("", detail, "eval")
    return GateVerdict(gate="eval", findings=(finding,), ends=action == "fail")
