"""Whether an agent can get at the texts of a candidate at all, as far as its settings tell."""

from collections.abc import Iterator, Sequence

from burnish.core.errors import Problem
from burnish.core.protocols import Target
from burnish.targets.calling import HttpTarget
from burnish.targets.prompts.ways import Mode


def reach_problems(agent: Target, names: Sequence[str], mode: Mode) -> Iterator[Problem]:
    """What an endpoint is sent that does not exist, and what it would need and is not sent."""
    if not isinstance(agent, HttpTarget):
        return
    for name in sorted(agent.prompts - set(names)):
        remedy = f"there are: {', '.join(names)}"
        yield Problem(where="body", message=f"no prompt field '{name}'", remedy=remedy)
    for name in names:
        if mode == "isolated" and name not in agent.prompts:
            yield Problem(
                where="body",
                message=f"in the mode 'isolated' the endpoint would never see the field '{name}'",
                remedy=f"put \"{{{{prompts.{name}}}}}\" into the body, or use the mode 'source'",
            )
