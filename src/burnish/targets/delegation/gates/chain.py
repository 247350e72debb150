"""The chain of gates in its order: the first that rejects sends the completion back."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TypeAlias

from burnish.targets.delegation.gates import files, structure, texts
from burnish.targets.delegation.gates.completion import Completion, Finding, Verdict

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
_LOOKING: Mapping[str, Callable[[Completion], Iterator[Finding]]] = {
    "l0": texts.l0,
    "critique": structure.critique,
    "deliverable_presence": files.deliverable_presence,
    "placeholder": texts.placeholder,
    "file": files.file,
    "deliverable": files.deliverable,
    "syntax_compile": files.syntax_compile,
    "schema": files.schema,
    "cross_reference": structure.cross_reference,
    "success_criteria": structure.success_criteria,
    "structural_integrity": structure.structural_integrity,
}
"""Gates that only look at what is there."""

Acting: TypeAlias = Callable[[Completion], Awaitable[Verdict]]
"""A gate that runs something: smoke_test and eval."""


def look(gate: str, completion: Completion) -> Verdict:
    """What a gate that only looks says."""
    return Verdict(gate=gate, findings=tuple(_LOOKING[gate](completion)))


async def pass_through(
    completion: Completion, acting: Mapping[str, Acting]
) -> AsyncIterator[Verdict]:
    """Each gate's verdict in turn, up to the first that rejects."""
    for gate in ORDER:
        run = acting.get(gate)
        verdict = look(gate, completion) if run is None else await run(completion)
        yield verdict
        if not verdict.passed:
            return
