"""Candidates of an agent file: values put in their places, siblings kept in step, all re-read."""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from burnish.core.content import Json
from burnish.core.demonstrations import Demonstration
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Value
from burnish.system.config import variables_in
from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.demonstrating import demonstrations_of, unknown_tools
from burnish.targets.agent.loading import LoadedAgent, read_block
from burnish.targets.agent.surface_paths import (
    DEMONSTRATIONS,
    is_instructions,
    put_at,
    value_at,
)
from burnish.targets.agent.tool_blocks import WEIGHTS, HierarchicalTool

_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class EditedAgent:
    """An agent file with other values in it."""

    block: AgentBlock
    instructions: str
    changes: Mapping[str, Json]
    """What was put where, siblings included; the instructions and demonstrations apart."""
    demonstrations: tuple[Demonstration, ...] | None = None
    """None where they are as the file has them."""


def edit(agent: LoadedAgent, values: Mapping[str, Value]) -> EditedAgent:
    """Put values into a file; what is then wrong with it is raised as a ConfigError."""
    told = [str(value) for path, value in values.items() if is_instructions(path)]
    demos = cast("tuple[Demonstration, ...] | None", values.get(DEMONSTRATIONS))
    plain = {
        path: cast("Json", value)
        for path, value in values.items()
        if not is_instructions(path) and path != DEMONSTRATIONS
    }
    new = {path: v for path, v in plain.items() if value_at(agent.block, path) != v}
    if brought := list(_variables(new)):
        raise ConfigError(brought)
    changes = {**new, **_siblings(agent.block, new)}
    data = copy.deepcopy(agent.data)
    for path, value in changes.items():
        put_at(cast("dict[str, Any]", data), path, value)
    block = read_block(data, source=agent.path.name) if changes else agent.block
    if strange := list(unknown_tools(block, demos or ())):
        raise ConfigError(strange)
    return EditedAgent(
        block=block,
        instructions=told[0] if told else agent.instructions.text,
        changes=changes,
        demonstrations=None if demos == demonstrations_of(agent.block) else demos,
    )


def _variables(new: Mapping[str, Json]) -> Iterator[Problem]:
    """A value with a variable in it: re-reading the file would put a secret into a prompt."""
    for path, value in new.items():
        for name in variables_in(value) if isinstance(value, str) else ():
            message = f"it brings in the variable ${{{name}}}, which only the file itself may name"
            yield Problem(where=path, message=message, remedy="write it without the braces")


def _siblings(block: AgentBlock, changes: Mapping[str, Json]) -> dict[str, Json]:
    """The other weights of a hybrid search, rescaled so that all add up to 1."""
    found: dict[str, Json] = {}
    for tool in block.tools:
        paths = {key: f"tools[name={tool.name}].{key}" for key in WEIGHTS}
        given = {key: changes[path] for key, path in paths.items() if path in changes}
        if isinstance(tool, HierarchicalTool) and given:
            before = {key: float(getattr(tool, key)) for key in WEIGHTS}
            chosen = {key: float(cast("float", value)) for key, value in given.items()}
            weights = rescaled(before, chosen)
            found |= {paths[key]: weight for key, weight in weights.items()}
    return found


def rescaled(before: Mapping[str, float], chosen: Mapping[str, float]) -> dict[str, float]:
    """Weights that add up to 1: the chosen ones as they are, the rest in their old proportions.

    Where the chosen ones alone are above 1, or all are chosen, they are scaled down together.
    """
    rest = {key: weight for key, weight in before.items() if key not in chosen}
    left = 1 - math.fsum(chosen.values())
    if left < 0 or not rest:
        whole = math.fsum(chosen.values()) or 1.0
        shares = {key: chosen.get(key, 0.0) / whole for key in before}
    else:
        old = math.fsum(rest.values())
        spread = {k: weight / old if old else 1 / len(rest) for k, weight in rest.items()}
        shares = {**chosen, **{key: left * share for key, share in spread.items()}}
    rounded = {key: round(shares[key], _DIGITS) for key in before}
    # What rounding lost goes to the largest that was not chosen, so that the sum is exact.
    takes = max(rest or before, key=lambda key: rounded[key])
    others = math.fsum(weight for key, weight in rounded.items() if key != takes)
    return {**rounded, takes: round(1 - others, _DIGITS)}
