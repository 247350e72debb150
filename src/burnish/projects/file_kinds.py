"""The file kinds of burnish: for each, which of its keys sets which field of the description."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar

from pydantic import JsonValue

from burnish.core.errors import ConfigError, Problem
from burnish.models.awp_endpoint import awp_model
from burnish.projects.dialects import Dialect, Document, Translation, known_keys, value_under
from burnish.runs.draft import Draft, Strength
from burnish.runs.plugins import (
    StrategyPlugin,
    lack,
    strategy_names,
    strategy_plugin,
    target_plugin,
)
from burnish.runs.spec import WORKER_FIELDS, BudgetSpec
from burnish.system.yaml import TreePath

_WORKERS = {f"execution.{name}": f"execution.{name}" for name in WORKER_FIELDS}
"""Where cases are run, in every kind of file."""
_COMMON = {
    **_WORKERS,
    "name": "source.name",
    "seed": "execution.seed",
    "concurrency": "execution.concurrency",
    "confirm": "execution.confirm",
    "time_limit": "execution.time_limit",
    "wait_minutes": "execution.wait_minutes",
    "retry": "execution.retry",
    "infrastructure_errors": "execution.infrastructure_errors",
    "repeats": "strategy.settings.repeats",
    "budget": "budget",
    "models": "models",
    "tracking": "tracking",
    "metrics": "metrics.blocks",
    "metrics_file": "metrics.file",
    "judge": "metrics.judge",
    "second_judge": "metrics.second_judge",
    "user_simulator": "metrics.user_simulator",
    "strategy": "strategy.name",
    "train": "data.train",
    "holdout": "data.holdout",
    "sealed": "data.test",
    "input": "data.input",
    "expected": "data.expected",
}
"""What files of several kinds have in common."""


class _TextsFile(Dialect):
    """A file that is searched with all that its target offers, unless it says how."""

    strategy: ClassVar[str] = "auto"

    def usual_strategy(self, document: Document) -> str:
        """The only one that the file has settings of: they were written to have an effect."""
        target = target_plugin(self.target)
        blocks = [strategy_plugin(name) for name in strategy_names() if document.block((name,))]
        searches = [each for each in blocks if each.proposes]
        fit = [each for each in searches if not lack(each, target.surfaces, target.abilities)]
        return fit[0].name if len(fit) == 1 else self.strategy


class PromptsFile(_TextsFile):
    """`kind: prompts`: an agent that is called, and its prompts to rewrite."""

    kind: ClassVar[str] = "prompts"
    target: ClassVar[str] = "prompts"
    keys: ClassVar[Mapping[str, str]] = {
        **_COMMON,
        "target": "target.agent",
        "prompts": "target.prompts",
        "isolation": "target.isolation",
        "max_prompt_tokens": "target.max_prompt_tokens",
        "max_prompt_chars": "target.max_prompt_chars",
    }


class FrameworkFile(_TextsFile):
    """`kind: framework`: an agent of a known framework, with its texts and numbers."""

    kind: ClassVar[str] = "framework"
    target: ClassVar[str] = "framework"
    keys: ClassVar[Mapping[str, str]] = {
        **_COMMON,
        "target": "target.agent",
        "tune": "target.tune",
        "cases": "data.cases",
    }


_SEARCHED = ("strategy", "train", "holdout", "sealed", "second_judge", "confirm")
"""The keys that only a search has a use for."""
_CALLED = {
    **{key: field for key, field in _COMMON.items() if key not in _SEARCHED},
    "target": "target.agent",
    "cases": "data.cases",
}
"""The keys of a file about an agent that is called. It is measured: a search that is asked for is
refused, with how to have one."""


class _CalledFile(Dialect):
    strategy: ClassVar[str] = "reflective"
    keys: ClassVar[Mapping[str, str]] = _CALLED


class PythonFile(_CalledFile):
    """`kind: python`: an agent that is a Python function, to be measured."""

    kind: ClassVar[str] = "python"
    target: ClassVar[str] = "python"


class HttpFile(_CalledFile):
    """`kind: http`: an agent behind an HTTP endpoint, to be measured."""

    kind: ClassVar[str] = "http"
    target: ClassVar[str] = "http"


class CommandFile(_CalledFile):
    """`kind: command`: an agent that is a command, to be measured."""

    kind: ClassVar[str] = "command"
    target: ClassVar[str] = "command"


RECORDED_METRICS = "test_config.json"
"""Where the metrics of recorded cases are looked for, beside them."""


class RecordedCases(Dialect):
    """A file of cases with recorded replies, measured as they are."""

    kind: ClassVar[str] = "recorded"
    target: ClassVar[str] = "recorded"
    strategy: ClassVar[str] = "measure"

    def strategy_named(self, document: Document) -> JsonValue:
        """No other one, whatever the environment names for searches."""
        del document
        return self.strategy

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        del strategy
        draft.default("source.name", document.path.name.partition(".")[0])
        draft.default("metrics.file", RECORDED_METRICS)


class GraphFile(Dialect):
    """`kind: graph`: a graph of agents, and in `optimizer` how to improve it.

    That block has the settings of the usual strategy; those of others are under their names.
    """

    kind: ClassVar[str] = "graph"
    target: ClassVar[str] = "graph"
    strategy: ClassVar[str] = "backprop"
    strategy_at: ClassVar[TreePath] = ("optimizer", "strategy")
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
        translation = Translation(document, draft, strategy)
        translation.block((), {"kind": "", **self.keys}, names=False)
        _own_settings(translation, ("optimizer",), self.block, strategy_plugin(self.strategy))
        if translation.problems:
            translation.problems += self.other_problems(document)
        translation.settle()

    def other_problems(self, document: Document) -> list[Problem]:
        """What else is wrong with the file, where something is."""
        from burnish.projects.graph import read_graph  # where nothing is wrong, it waits

        try:
            read_graph(document.path, document.tree)
        except ConfigError as error:
            return list(error.problems)
        return []


class TaskFile(Dialect):
    """A task: files, a runner, a scorer, and the rule for keeping an edit."""

    kind: ClassVar[str] = "task"
    target: ClassVar[str] = "artifacts"
    strategy: ClassVar[str] = "edits"
    evaluates: ClassVar[bool] = False
    known_by: ClassVar[str] = "artifacts and scorer"
    keys: ClassVar[Mapping[str, str]] = {
        **{name: f"target.{name}" for name in (
            "id", "description", "runner", "scorer", "holdout", "test", "axes", "logging",
            "protect", "scratch", "sandbox", "network", "readable", "env", "limits", "copy_git",
        )},
        "artifacts.include": "target.include",
        "artifacts.exclude": "target.exclude",
        "artifacts.new_files": "target.new_files",
        "artifacts.context": "target.context",
        "artifacts.max_files_per_iteration": "strategy.edits.max_files",
        "mutation.allowed_file_types": "target.allowed_file_types",
        "mutation.editor": "roles.editor",
        **{f"mutation.{name}": f"strategy.edits.{name}" for name in (
            "mode", "command", "recipe", "arguments", "home", "timeout_seconds", "env", "network",
            "usd_per_edit", "max_changed_lines",
        )},
        **{f"objective.{name}": f"objective.{name}" for name in (
            "primary_metric", "direction", "tolerance", "worst", "best",
        )},
        "constraints": "objective.constraints",
        "policy.keep_if": "strategy.edits.keep_if",
        "policy.tie_breakers": "objective.tie_breakers",
        "policy.on_failure": "strategy.edits.on_failure",
        **{f"budget.{name}": f"budget.{name}" for name in BudgetSpec.model_fields},
        "budget.max_iterations": "",
        "budget.max_failures": "strategy.edits.max_failures",
        "budget.target_score": "strategy.edits.target_score",
        "candidates_per_iteration": "strategy.edits.candidates_per_iteration",
        "incumbents": "strategy.edits.incumbents",
        "repeats": "strategy.settings.repeats",
        "accept_sigma": "strategy.settings.accept_sigma",
        "strategy": "strategy.name",
        "seed": "execution.seed",
        "concurrency": "execution.concurrency",
        "confirm": "execution.confirm",
        "models": "models",
    }  # fmt: skip

    def recognises(self, document: Document) -> bool:
        keys = document.data
        unnamed = "kind" not in keys and "artifacts" in keys
        return super().recognises(document) or (unnamed and ("runner" in keys or "scorer" in keys))

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        translation = Translation(document, draft, strategy)
        draft.default("strategy.settings.repeats", 1)
        if strategy.name == self.strategy:
            draft.default("strategy.settings.max_files", 2)
            draft.default("strategy.settings.max_changed_lines", 120)
            draft.default("strategy.settings.max_failures", 10)
        translation.mark("strategy.edits", ("mutation",))
        translation.block((), {"kind": "", **self.keys})
        self._editor(translation)
        self._iterations(translation)
        translation.settle()

    def _editor(self, translation: Translation) -> None:
        """Either a model or a program edits, and the model is only named once."""
        document = translation.document
        names = [path for path in (("mutation", "editor"), ("editor",)) if document.at(path)]
        message = ""
        program = document.at(("mutation", "mode")) == "command"
        if program or document.at(("mutation", "recipe")):
            # A program that the file names is stronger than a model of the environment.
            translation.draft.silence("roles.editor", strength=Strength.FILE)
            message = "a program edits by itself, so editor has no effect" if names else ""
        elif len(names) > 1:
            message = "editor and mutation.editor mean the same: keep one of them"
        if message:
            where = str(document.place(*names[0]))
            translation.problems.append(Problem(where=where, message=message))

    def _iterations(self, translation: Translation) -> None:
        """Iterations are counted in trials; the lower of two limits applies."""
        document, at = translation.document, ("budget", "max_iterations")
        limit, trials = document.at(at), document.at(("budget", "max_trials"))
        together = document.at(("candidates_per_iteration",)) or 1
        if isinstance(limit, int) and isinstance(together, int) and limit > 0 < together:
            limit *= together
        if isinstance(limit, int) and isinstance(trials, int) and 0 < trials < limit:
            return
        place = document.place(*at)
        translation.draft.put("budget.max_trials", limit, place=place, strength=Strength.FILE)


class SuiteFile(Dialect):
    """A suite: tasks that are delegated, and in `optimizer` how to train the policy texts.

    That block has the settings of the usual strategy; those of others are under their names.
    """

    kind: ClassVar[str] = "suite"
    target: ClassVar[str] = "policy"
    strategy: ClassVar[str] = "epochs"
    evaluates: ClassVar[bool] = False
    strategy_at: ClassVar[TreePath] = ("optimizer", "strategy")
    confirms: ClassVar[bool] = False
    known_by: ClassVar[str] = "name and tasks"
    keys: ClassVar[Mapping[str, str]] = {
        **{name: f"target.{name}" for name in (
            "name", "description", "baseline_artifacts", "tasks", "holdout", "test", "workflow",
        )},
        "optimizer": "",
        "seed": "execution.seed",
        "concurrency": "execution.concurrency",
        "confirm": "execution.confirm",
        "time_limit": "execution.time_limit",
        "wait_minutes": "execution.wait_minutes",
        "budget": "budget",
    }  # fmt: skip
    block: ClassVar[Mapping[str, str]] = {
        "strategy": "strategy.name",
        "repeats": "strategy.settings.repeats",
    }
    """The keys of the block `optimizer` that are no settings of one strategy."""

    def recognises(self, document: Document) -> bool:
        keys = document.data
        unnamed = "kind" not in keys and "name" in keys and "tasks" in keys
        return super().recognises(document) or unnamed

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        # Each task runs several agents and commands: fewer at once, and at most twice.
        draft.default("execution.concurrency", 4)
        usual = strategy.Settings.model_fields["repeats"].default
        draft.default("strategy.settings.repeats", min(2, usual))
        translation = Translation(document, draft, strategy)
        translation.block((), {"kind": "", **self.keys}, names=False)
        _own_settings(translation, ("optimizer",), self.block, strategy_plugin(self.strategy))
        translation.settle()


def _with_awp_models(document: Document) -> Document:
    """A workflow file of awp-agents, with its models at its endpoint."""
    at = ("orchestration", "delegation_loop", "models")
    if "awp" not in document.data or not document.block(at):
        return document
    data = deepcopy(document.tree.data)
    models = value_under(data, at)
    assert isinstance(models, dict)
    for role, name in document.block(at).items():
        if isinstance(name, str):
            models[role] = awp_model(name)
    return replace(document, tree=replace(document.tree, data=data))


class WorkflowFile(Dialect):
    """A workflow: manager, workers, limits, and how results are checked.

    `burnish delegate` gives it a task; `burnish refine` improves the result.
    """

    kind: ClassVar[str] = "workflow"
    target: ClassVar[str] = "delegation"
    strategy: ClassVar[str] = "delegate"
    evaluates: ClassVar[bool] = False
    confirms: ClassVar[bool] = False
    known_by: ClassVar[str] = "a block workflow"
    keys: ClassVar[Mapping[str, str]] = {
        **{name: f"target.{name}" for name in (
            "awp", "workflow", "orchestration", "observability", "deliverables", "tools",
            "workspace", "sandbox", "env", "network", "readable", "command_timeout", "limits",
        )},
        "models": "models",
        **{f"refinement_tier_{name}": f"target.refinement_tier_{name}" for name in (
            "low", "mid", "high",
        )},
    }  # fmt: skip

    def recognises(self, document: Document) -> bool:
        unnamed = "kind" not in document.data and isinstance(document.data.get("workflow"), dict)
        return super().recognises(document) or unnamed

    def strategy_named(self, document: Document) -> None:
        """A command says whether a task is delegated or its result refined."""
        del document

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        translation = Translation(_with_awp_models(document), draft, strategy)
        translation.mark("target", ())
        translation.block((), {"kind": "", **self.keys}, names=False)
        translation.settle()


def _own_settings(
    translation: Translation, at: TreePath, block: Mapping[str, str], own: StrategyPlugin
) -> None:
    """A block that directly contains the settings of one strategy.

    If another strategy searches, they have no effect, but must be valid.
    """
    settings = [key for key in known_keys(own.Settings) if key not in block]
    if translation.strategy.name == own.name:
        translation.block(at, block, settings=settings)
        return
    translation.block(at, {**block, **dict.fromkeys(settings, "")})
    idle = {k: v for k, v in translation.document.block(at).items() if k in settings}
    translation.check_settings(own, at, idle)
