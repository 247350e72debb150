"""The file kinds of burnish: for each, which of its keys sets which field of the description."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from burnish.core.errors import ConfigError, Problem
from burnish.projects.dialects import Dialect, Document, Translation, known_keys
from burnish.runs.draft import Draft
from burnish.runs.plugins import StrategyPlugin, strategy_plugin
from burnish.system.plain_data import TreePath

_COMMON = {
    "name": "",
    "seed": "execution.seed",
    "concurrency": "execution.concurrency",
    "time_limit": "execution.time_limit",
    "retry": "execution.retry",
    "infrastructure_errors": "execution.infrastructure_errors",
    "repeats": "strategy.settings.repeats",
    "budget": "budget",
    "models": "models",
    "metrics": "metrics.blocks",
    "metrics_file": "metrics.file",
    "judge": "metrics.judge",
    "user_simulator": "metrics.user_simulator",
    "strategy": "strategy.name",
    "train": "data.train",
    "holdout": "data.holdout",
    "sealed": "data.test",
}
"""What files of several kinds have in common."""


class PromptsFile(Dialect):
    """`kind: prompts`: an agent that is called, and the prompts of it to rewrite."""

    kind: ClassVar[str] = "prompts"
    target: ClassVar[str] = "prompts"
    strategy: ClassVar[str] = "reflective"
    keys: ClassVar[Mapping[str, str]] = {
        **_COMMON,
        "target": "target.agent",
        "prompts": "target.prompts",
        "isolation": "target.isolation",
        "max_prompt_tokens": "target.max_prompt_tokens",
        "max_prompt_chars": "target.max_prompt_chars",
    }


class GraphFile(Dialect):
    """`kind: graph`: a graph of agents, and in `optimizer` how it is made better.

    The settings of the usual strategy stand right in that block, those of others under their name.
    """

    kind: ClassVar[str] = "graph"
    target: ClassVar[str] = "graph"
    strategy: ClassVar[str] = "backprop"
    strategy_key: ClassVar[TreePath] = ("optimizer", "strategy")
    keys: ClassVar[Mapping[str, str]] = {
        **{key: field for key, field in _COMMON.items() if key != "strategy"},
        **dict.fromkeys(("description", "entry", "nodes", "edges", "global_instructions"), ""),
        **dict.fromkeys(("max_visits", "output", "graph", "python_path", "optimizer"), ""),
    }
    block: ClassVar[Mapping[str, str]] = {
        "strategy": "strategy.name",
        "repeats": "strategy.settings.repeats",
        "targets": "target.targets",
        "choices": "target.choices",
        "ranges": "target.ranges",
    }
    """The keys of the block `optimizer` that are no settings."""

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """Say in the draft what the file says; the graph itself is read by its target."""
        translation = Translation(document, draft, strategy)
        translation.block((), {"kind": "", **self.keys}, searches=False)
        own, at = strategy_plugin(self.strategy), ("optimizer",)
        settings = [key for key in known_keys(own.Settings) if key not in self.block]
        if strategy.name == own.name:
            translation.block(at, self.block, settings=settings)
        else:
            translation.block(at, {**self.block, **dict.fromkeys(settings, "")})
            idle = {k: v for k, v in document.block(at).items() if k in settings}
            translation.check_settings(own, at, idle)
        if translation.problems:
            translation.problems += _graph_problems(document)
        translation.settle()


def _graph_problems(document: Document) -> Sequence[Problem]:
    """What is wrong with the graph of a file that is not sound otherwise either."""
    from burnish.projects.graph.reading import read_graph  # where nothing is wrong, it waits

    try:
        read_graph(document.path, document.tree)
    except ConfigError as error:
        return error.problems
    return ()
