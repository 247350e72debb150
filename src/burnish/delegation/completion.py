"""A completion on its way through the chain of gates."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeAlias, cast

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.delegation import gates
from burnish.delegation.answers import ManagerDecision
from burnish.delegation.evaluation import DelegationEvaluation, Final, measure
from burnish.delegation.gates import Completion, GateFinding, GateVerdict, suffix
from burnish.delegation.manager import ManagerMemory, deliverable_path
from burnish.delegation.team import Workflow
from burnish.delegation.workers import WorkContext
from burnish.delegation.workspace import INPUT
from burnish.system.workspaces import shown

ORDER = (
    "l0",
    "critique",
    "deliverable_presence",
    "placeholder",
    "file",
    "deliverable",
    "syntax_compile",
    "schema",
    "cross_reference",
    "success_criteria",
    "smoke_test",
    "structural_integrity",
    "eval",
)
_LOOKING: Mapping[str, Callable[[Completion], Iterator[GateFinding]]] = {
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
    "structural_integrity": gates.structural_integrity,
}
"""Gates that only look at what is there."""

_Acting: TypeAlias = Callable[[Completion], Awaitable[GateVerdict]]
"""A gate that runs something: smoke_test and eval."""


def look(gate: str, completion: Completion) -> GateVerdict:
    """What a gate that only looks says."""
    return GateVerdict(gate=gate, findings=tuple(_LOOKING[gate](completion)))


async def pass_through(
    completion: Completion, acting: Mapping[str, _Acting]
) -> AsyncIterator[GateVerdict]:
    """Each gate's verdict in turn, up to the first that rejects."""
    for gate in ORDER:
        run = acting.get(gate)
        verdict = look(gate, completion) if run is None else await run(completion)
        yield verdict
        if not verdict.passed:
            return


# -- Completing -----------------------------------------------------------------------------------


_NAMED_IN_TASK = re.compile(r"_output_dir/[\w./-]+\.\w+")
_RUNNERS = {".py": "python", ".sh": "sh"}


@dataclass(kw_only=True)
class Completing:
    """Checks what is there when the task is said to be done."""

    workflow: Workflow
    context: WorkContext
    task: str
    origin: str
    memory: ManagerMemory
    evaluated: DelegationEvaluation | None = field(default=None, init=False)
    """What the metrics said, once the gate `eval` was reached."""

    def verdicts(self, decision: ManagerDecision, number: int) -> AsyncIterator[GateVerdict]:
        """Each gate's verdict, up to the first that rejects."""
        completion = self._completion(decision.final_result)
        self.memory.sizes |= {path: len(c) for path, c in completion.delivered.items()}
        final = self.final(decision.final_result, decision.confidence, number)

        async def evaluate(_: Completion) -> GateVerdict:
            self.evaluated = await measure(
                self.workflow.metrics, final, self.context, self.workflow.zones
            )
            return _eval_verdict(self.evaluated)

        return pass_through(completion, {"smoke_test": self._smoke, "eval": evaluate})

    @property
    def declared(self) -> tuple[str, ...]:
        """The deliverables: of the workflow, of the plan, and those that the task names."""
        named = [deliverable_path(path) for path in _NAMED_IN_TASK.findall(self.task)]
        own = [each.path for each in self.workflow.deliverables]
        return tuple(dict.fromkeys([*own, *self.memory.declared, *named]))

    def files(self) -> dict[str, bytes]:
        """Every file that is new or changed since the run began, and every deliverable."""
        workspace = self.context.workspace
        there = set(workspace.files)
        paths = [*workspace.made(self.origin), *(p for p in self.declared if p in there)]
        return {path: workspace.read(path) for path in dict.fromkeys(paths)}

    def made(self) -> dict[str, bytes]:
        """The same by paths that can be shown and kept, whatever bytes their names are of."""
        return {shown(path): content for path, content in self.files().items()}

    def final(self, result: str, confidence: float | None, number: int) -> Final:
        """What the metrics look at."""
        return Final(
            task=self.task,
            result=result,
            confidence=confidence,
            files=self.made(),
            declared=self.declared,
            defects=tuple(self.memory.defects),
            remaining=self.context.tally.remaining,
            draw=number,
        )

    def _completion(self, result: str) -> Completion:
        schemas = {each.path: each.schema for each in self.workflow.deliverables if each.schema}
        return Completion(
            task=self.task,
            result=result,
            declared=self.declared,
            files=self.made(),
            earlier_sizes={**self._given_sizes(), **self.memory.sizes},
            criticised=self.workflow.critic is not None and bool(self.memory.last),
            critique=self.memory.score,
            open_subtasks=self.memory.open_subtasks,
            schemas=schemas,
            settings=self.workflow.gates,
        )

    def _given_sizes(self) -> dict[str, int]:
        """A deliverable that goes on from a given file of its name is compared with that."""
        workspace = self.context.workspace
        entries = workspace.store.entries(workspace.state)
        return {
            path.removeprefix(f"{INPUT}/"): entry.size
            for path, entry in entries.items()
            if path.startswith(f"{INPUT}/") and entry.kind == "file"
        }

    async def _smoke(self, completion: Completion) -> GateVerdict:
        """Scripts that the workflow marks must run to their end; what they change is undone."""
        findings: list[GateFinding] = []
        for each in self.workflow.deliverables:
            if not each.smoke or each.path not in completion.delivered:
                continue
            problem = await self._runs(each.path)
            if problem:
                findings.append(GateFinding(file=each.path, detail=problem, check="smoke_test"))
        return GateVerdict(gate="smoke_test", findings=tuple(findings))

    async def _runs(self, path: str) -> str:
        runner = _RUNNERS.get(suffix(path))
        if runner is None:
            return f"there is no way to run {PurePosixPath(path).name}: .py and .sh are run"
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


def _eval_verdict(evaluated: DelegationEvaluation) -> GateVerdict:
    """What the gate `eval` says; without metrics there is nothing to hold it to."""
    if not evaluated.measured:
        return GateVerdict(gate="eval")
    total, zones, action = evaluated.total, evaluated.zones, evaluated.action
    if action == "cannot_tell":
        missing = [each for each in evaluated.measured if each.score is None]
        errors = "; ".join(f"{each.name}: {each.error}" for each in missing)
        finding = GateFinding(file="", detail=f"cannot tell: {errors}", check="eval")
        return GateVerdict(gate="eval", findings=(finding,))
    assert total is not None
    if action in ("accept", "pass"):
        return GateVerdict(gate="eval")
    low = [
        f"{each.name} {each.score:.2f} of {each.threshold:g}"
        for each in evaluated.measured
        if each.score is not None and each.score < each.threshold
    ]
    bar = zones.fail if action == "fail" else zones.retry
    detail = f"the total score is {total:.3f}, below {bar:g} ({', '.join(low)})"
    finding = GateFinding(file="", detail=detail, check="eval")
    return GateVerdict(gate="eval", findings=(finding,), ends=action == "fail")
