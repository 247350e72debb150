"""Agent files: an agent, and under `evaluations.optimizer` how it is tuned.

Limits stand under `budget`, or right in the block, as HoloDeck writes them. The settings of the
chosen strategy stand right in the block too, or under its name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import JsonValue

from burnish.core.errors import Problem
from burnish.projects.dialects import Dialect, Document, Translation, setting_keys
from burnish.runs.draft import Draft, Strength
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.spec import BudgetSpec
from burnish.system.config_errors import MISSING
from burnish.system.settings import setting_fields
from burnish.system.yaml import TreePath
from burnish.targets.agent.variables import expanded

_BLOCK = ("evaluations", "optimizer")
_BUDGET = (*_BLOCK, "budget")
_WHOLE = (*_BUDGET, "global")
_LIMITS = "Limits"
"""The panel of the settings that are limits: they may stand under `budget`."""


class AgentFile(Dialect):
    """An agent file of HoloDeck or burnish."""

    kind: ClassVar[str] = "agent"
    target: ClassVar[str] = "agent"
    strategy: ClassVar[str] = "coordinate"
    strategy_at: ClassVar[TreePath] = (*_BLOCK, "strategy")
    known_by: ClassVar[str] = "its model and instructions"
    keys: ClassVar[Mapping[str, str]] = {
        "loss": "objective.weights",
        "penalties": "objective.penalties",
        "constraints": "objective.constraints",
        "train_cases_file": "data.train",
        "holdout_cases_file": "data.holdout",
        "sealed_cases_file": "data.test",
        "min_holdout_cases": "target.min_holdout_cases",
        "axes": "target.axes",
        "budget": "",
        "strategy": "strategy.name",
        "seed": "execution.seed",
        "min_delta": "target.min_delta",
    }

    def recognises(self, document: Document) -> bool:
        """By `kind: agent`, or by the keys of an agent."""
        if "kind" in document.data:
            return super().recognises(document)
        return "model" in document.data or "instructions" in document.data

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """The agent as it stands, and what its optimizer block says, variables by their values.

        That block is about searches: it says nothing of a measurement.
        """
        agent = agent_keys(document.data)
        draft.put("target.document", agent, place=document.place(), strength=Strength.FILE)
        draft.mark("data", document.place(*_BLOCK))
        draft.mark("target", document.place(*_BLOCK, "axes"))
        data = expanded(document.tree.data, where=document.name)
        written, document = document, replace(document, tree=replace(document.tree, data=data))
        translation = Translation(document, draft, strategy, written=written)
        translation.put("execution.concurrency", ("execution", "parallel_test_cases"))
        translation.put("source.name", ("name",))
        if document.at(_BLOCK) is not None and strategy.proposes:
            draft.default("target.axes", {})
            _translate_block(translation, self.keys)
        translation.settle()


def agent_keys(data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The keys of a file that are about the agent: all but its optimizer block."""
    agent = dict(data)
    evaluations = agent.get(_BLOCK[0])
    if isinstance(evaluations, dict):
        agent[_BLOCK[0]] = {k: value for k, value in evaluations.items() if k != _BLOCK[1]}
    return agent


def _translate_block(translation: Translation, keys: Mapping[str, str]) -> None:
    strategy = translation.strategy
    limits, phases = limit_keys(strategy)
    translation.block(_BUDGET, {"global": ""}, settings=phases, names=False)
    whole = {name: f"budget.{name}" for name in BudgetSpec.model_fields}
    translation.block(_WHOLE, whole, settings=limits, names=False)
    # Last, since a limit that is missing belongs right in the block.
    translation.block(_BLOCK, keys, settings=setting_keys(strategy.Settings))
    translation.problems += [*_loss(translation.document), *_written_twice(translation)]


def limit_keys(strategy: StrategyPlugin) -> tuple[list[str], list[str]]:
    """The settings of a strategy that are limits: single ones, and blocks of them."""
    paths = [
        field.path for field in setting_fields(strategy.Settings) if field.door.panel == _LIMITS
    ]
    single = [path[0] for path in paths if len(path) == 1]
    return single, list(dict.fromkeys(path[0] for path in paths if len(path) > 1))


def _loss(document: Document) -> Iterator[Problem]:
    """What is tuned has to be told; without it every metric would count."""
    weights = document.at((*_BLOCK, "loss"))
    where = str(document.place(*_BLOCK, "loss"))
    if weights is None:
        yield Problem(where=where, message=MISSING, remedy="add it")
    elif weights == {}:
        yield Problem(where=where, message="expected at least 1 metric with its weight")


def _written_twice(translation: Translation) -> Iterator[Problem]:
    """The settings that stand right in the block and in a block inside of it."""
    document, block = translation.document, translation.document.block(_BLOCK)
    insides = {
        "budget": {**document.block(_BUDGET), **document.block(_WHOLE)},
        translation.strategy.name: document.block((*_BLOCK, translation.strategy.name)),
    }
    for name, inside in insides.items():
        for key in block:
            if block[key] is not None and inside.get(key) is not None:
                yield Problem(
                    where=str(document.place(*_BLOCK, key)),
                    message=f"{key} is written twice: here and under {name}",
                    remedy="keep one of the two",
                )
