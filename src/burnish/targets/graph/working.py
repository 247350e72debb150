"""The work of one step: an agent that is asked, or a function that is called."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from burnish.core.cases import Attachment, Case, Turn
from burnish.core.effects import Effects
from burnish.core.errors import BurnishError
from burnish.core.outcomes import Outcome
from burnish.effects.failures import failure_of
from burnish.targets.agent.running import AgentParts, run_case
from burnish.targets.calling.answers import failed, of_value
from burnish.targets.graph.inputs import Given, NodeInput
from burnish.targets.graph.nodes import AgentNode, FunctionNode, GraphEdge


@dataclass(frozen=True, kw_only=True)
class Job:
    """One step to be done."""

    step: str
    """The id of the step."""
    given: NodeInput
    case: str
    """The case it is done for: no agent is shown its own answer as an example."""
    draw: int
    attachments: tuple[Attachment, ...] = ()

    def as_case(self) -> Case:
        """What an agent is asked here."""
        turn = Turn(input=self.given.text, attachments=self.attachments)
        return Case(name=self.case, turns=(turn,), history=self.given.history)


@dataclass(frozen=True, kw_only=True)
class Work:
    """Does the steps of a graph under one candidate."""

    parts: Mapping[str, AgentParts]
    """The agents, by node."""
    effects: Effects

    async def agent(self, node: AgentNode, job: Job) -> Outcome:
        """Ask the agent. What goes wrong is an outcome."""
        parts = self.parts[node.name]
        return await run_case(parts, job.as_case(), draw=job.draw, effects=self.effects)

    async def function(self, node: FunctionNode, job: Job) -> Outcome:
        """Call the function. What it raises is its failure, as law 4 has it."""
        try:
            found = await node.function.call(job.given.text if node.takes_text else job.given)
        except SystemExit as error:
            told = f"{node.function.name} ended the program: sys.exit({error.code!r})"
            return failed(told, "SystemExit")
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's function: law 4
            return Outcome(failure=failure_of(error))
        outcome = of_value(found)
        # Like a tool, a function costs what it says, and nothing where it says nothing.
        return outcome if isinstance(found, Outcome) else replace(outcome, nano_usd=0)

    async def holds(self, edge: GraphEdge, step: str, given: Given) -> bool:
        """Whether an edge with a condition is open after this step."""
        del step
        assert edge.when is not None
        if edge.when.function is None:
            return edge.when.reads(given.text)
        return bool(await edge.when.function.call(given.value))
