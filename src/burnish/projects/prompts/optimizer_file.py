"""optimizer.json as a dialect: which field of the description each of its keys sets."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import BaseModel, JsonValue

from burnish.core.errors import ConfigError, Problem
from burnish.projects.dialects import Dialect, Document, Flags
from burnish.projects.prompts.optimizer_config import (
    BUILT_IN,
    OptimizerConfig,
    ReflectiveAlgorithm,
    as_json,
    key_path,
    metric_thresholds,
    read_optimizer,
    unknown_algorithm,
)
from burnish.runs.draft import Draft, FilePlace, Strength
from burnish.runs.plugins import StrategyPlugin
from burnish.system import Redactor

_EVALUATE = {"num_runs": "strategy.settings.repeats"}
_OPTIMIZE = {
    "eval_case_parallelism": "execution.concurrency",
    "time_limit": "execution.time_limit",
    "isolation": "target.isolation",
    "sealed_dataset_path": "data.test",
}
_ALGORITHM = {
    "seed": "execution.seed",
    "candidate_selection_strategy": "strategy.settings.parent_selection",
    "module_selector": "strategy.settings.field_selection",
    "frontier_type": "strategy.settings.frontier",
    "reflection_minibatch_size": "strategy.settings.minibatch",
    "reflection_history_top_k": "strategy.settings.history_top_k",
    "perfect_score": "strategy.settings.perfect_score",
    "skip_perfect_score": "strategy.settings.skip_perfect",
    "use_merge": "strategy.settings.merge",
    "max_merge_invocations": "strategy.settings.max_merges",
    "merge_val_overlap_floor": "strategy.settings.merge_overlap",
    "cache_evaluation": "strategy.settings.reuse",
    "racing": "strategy.settings.racing",
    "proposals_per_round": "strategy.settings.proposals_per_round",
    "max_metric_calls": "budget.max_metric_calls",
    "score_threshold": "budget.pass_rate_threshold",
    "max_candidate_proposals": "budget.max_proposals",
    "max_tracked_candidates": "budget.max_tracked_candidates",
    "max_prompt_chars": "target.max_prompt_chars",
    "max_prompt_tokens": "target.max_prompt_tokens",
}
_FLAGS = {
    "target.agent": "--agent",
    "target.prompts": "--prompt",
    "data.train": "--train",
    "data.holdout": "--val",
}
"""What such a file has no key for, and a flag has to say."""


class OptimizerFile(Dialect):
    """optimizer.json: how to evaluate and how to optimise the prompts that flags name."""

    kind: ClassVar[str] = "optimizer"
    target: ClassVar[str] = "prompts"
    strategy: ClassVar[str] = "reflective"
    evaluates: ClassVar[bool] = False
    known_by: ClassVar[str] = "evaluate and optimize"

    def recognises(self, document: Document) -> bool:
        """Whether a file is of this kind."""
        if "kind" in document.data:
            return super().recognises(document)
        return {"evaluate", "optimize"} <= set(document.data)

    def strategy_named(self, document: Document) -> JsonValue:
        """Reflective search, by whichever name of it."""
        del document
        return self.strategy

    def with_flags(self, document: Document, flags: Flags) -> tuple[Document, Flags]:
        """`--strategy` names the algorithm, and with it the defaults of the file."""
        name = flags.get("strategy")
        if name is None:
            return document, flags
        if name not in BUILT_IN:
            raise ConfigError([unknown_algorithm("--strategy", str(name), BUILT_IN)])
        algorithm = {**document.block(("optimize", "algorithm")), "name": name}
        optimize = {**document.block(("optimize",)), "algorithm": algorithm}
        tree = replace(document.tree, data={**document.data, "optimize": optimize})
        return replace(document, tree=tree), {**flags, "strategy": None}

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """Say in the draft what the file says."""
        del strategy
        _Translation(document, draft, read_optimizer(document.tree)).put_all()


class _Translation:
    """Lays one optimizer.json into a draft."""

    def __init__(self, document: Document, draft: Draft, config: OptimizerConfig) -> None:
        self._document = document
        self._draft = draft
        self._config = config

    def put_all(self) -> None:
        """Everything that the file says."""
        config, algorithm = self._config, self._config.optimize.algorithm
        for path, flag in _FLAGS.items():
            self._draft.mark(path, flag)
        document = Redactor.from_environment().json(as_json(config))
        self._draft.default("source.document", document)
        self._draft.default("execution.concurrency", config.optimize.eval_case_parallelism)
        self._draft.default("strategy.settings", _usual_settings(algorithm))
        self._block(config.evaluate, _EVALUATE, "evaluate")
        self._block(config.optimize, _OPTIMIZE, "optimize")
        self._block(algorithm, _ALGORITHM, "optimize", "algorithm")
        self._metrics()
        self._limits(algorithm)
        self._reflector(algorithm)

    def _block(self, block: BaseModel, fields: Mapping[str, str], *path: str) -> None:
        """What a section sets; what it leaves out is left to the environment and to defaults."""
        for name, field in fields.items():
            if name in block.model_fields_set:
                self._put(field, getattr(block, name), *path, name)

    def _metrics(self) -> None:
        """The metrics, and those of them that end the search."""
        evaluate = self._config.evaluate
        key = "metrics" if self._document.at(("evaluate", "metrics")) else "criteria"
        items = (item.model_dump(mode="json", exclude_unset=True) for item in evaluate.metrics)
        self._put("metrics.blocks", [*items], "evaluate", key)
        thresholds = metric_thresholds(self._config)
        self._put("budget.metric_thresholds", {**thresholds}, "optimize", "stop")

    def _limits(self, algorithm: ReflectiveAlgorithm) -> None:
        """Limits that are counted otherwise here: in rounds, in seconds."""
        rounds, seconds = algorithm.max_iterations_without_improvement, algorithm.timeout_seconds
        if rounds is not None:
            name = "max_iterations_without_improvement"
            trials = rounds * algorithm.proposals_per_round
            self._put("budget.patience", trials, "optimize", "algorithm", name)
        if seconds is not None:
            minutes = seconds / 60
            self._put("budget.max_minutes", minutes, "optimize", "algorithm", "timeout_seconds")

    def _reflector(self, algorithm: ReflectiveAlgorithm) -> None:
        model = algorithm.reflection_lm
        place = self._place("optimize", "algorithm", "reflection_lm")
        try:
            # By the whole place: the keys of a model block are other ones than those of the file.
            self._draft.put(
                "roles.reflector", model.model_block(), place=str(place), strength=Strength.FILE
            )
        except ConfigError as error:
            raise ConfigError([_placed(problem, place) for problem in error.problems]) from None
        if keys := model.ignored():
            message = f"{', '.join(keys)} of reflection_lm has no effect here"
            self._draft.note(message, about="roles.reflector")

    def _put(self, field: str, value: JsonValue, *names: str) -> None:
        place = self._place(*names)
        self._draft.put(field, value, place=place, strength=Strength.FILE)

    def _place(self, *names: str) -> FilePlace:
        return self._document.place(*key_path(self._document.tree.data, *names))


def _usual_settings(algorithm: ReflectiveAlgorithm) -> dict[str, JsonValue]:
    """What racing brings along where the file leaves it open."""
    races = algorithm.races
    return {
        "racing": races,
        "reuse": races,
        "parent_selection": "trail" if races else "pareto",
    }


def _placed(problem: Problem, place: FilePlace) -> Problem:
    return replace(problem, where=f"{place}: {problem.where}" if problem.where else str(place))
