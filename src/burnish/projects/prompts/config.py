"""optimizer.json: the sections `evaluate` and `optimize`, in both spellings."""

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, cast

from pydantic import Field

from burnish.core.bounds import Places
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.evaluation.configs.eval_metrics import EvalConfig, MetricItem
from burnish.evaluation.configs.shapes import Shape
from burnish.projects.gathering import Gathering
from burnish.projects.prompts.algorithm import (
    BUILT_IN,
    CustomAlgorithm,
    ReflectiveAlgorithm,
    Seconds,
)
from burnish.system import YamlTree, read_tree, validate_config
from burnish.targets.prompts.ways import Mode

_REQUIRED = ("optimize", "stop", "required_metrics")


class StopBlock(Shape):
    """The stop that the metrics themselves ask for."""

    required_metrics: Literal["all"] | list[str] | None = "all"
    """The metrics that must reach their thresholds; none of them where it is null or empty."""


class OptimizeShared(Shape):
    """What the `optimize` section says whatever the algorithm."""

    eval_case_parallelism: Places = 4
    stop: StopBlock = Field(default_factory=StopBlock)
    sealed_dataset_path: Annotated[str, Field(min_length=1)] | None = None
    """Cases that are looked at once, at the end; from the folder of the file."""
    isolation: Mode = "source"
    """Whether candidates are written where the agent reads its prompts, or handed to it."""


class OptimizeBlock(OptimizeShared):
    """The `optimize` section with an algorithm of burnish."""

    time_limit: Seconds | None = None
    """Seconds a case may take; not said, 300 for each call of the agent."""
    algorithm: ReflectiveAlgorithm


class CustomOptimizeBlock(OptimizeShared):
    """The `optimize` section with an algorithm of the user's own."""

    algorithm: CustomAlgorithm


class OptimizerFile(Shape):
    """An optimizer.json with an algorithm of burnish."""

    evaluate: EvalConfig
    optimize: OptimizeBlock


class CustomOptimizerFile(Shape):
    """An optimizer.json with an algorithm that somebody registered."""

    evaluate: EvalConfig
    optimize: CustomOptimizeBlock


AnyOptimizerFile: TypeAlias = OptimizerFile | CustomOptimizerFile


def read_optimizer(path: Path) -> OptimizerFile:
    """Read an optimizer.json, JSON or YAML; everything that is wrong is said at once."""
    return cast("OptimizerFile", parse_optimizer(read_tree(path)))


def thresholds_of(file: AnyOptimizerFile) -> dict[str, float]:
    """The metrics that must reach their thresholds for the search to end, with these."""
    wanted = _required(file)
    return {
        item.metric_name: item.threshold
        for item in file.evaluate.metrics
        if item.metric_name in wanted and _has_threshold(item)
    }


def as_json(file: AnyOptimizerFile) -> dict[str, Json]:
    """What a file says, so that it can be read again; `${VAR}` stays."""
    return file.model_dump(mode="json", by_alias=True, exclude_unset=True)


def parse_optimizer(tree: YamlTree, *, algorithms: Collection[str] = ()) -> AnyOptimizerFile:
    """The same of a file that was read; it may name one of these `algorithms` of others too."""
    wrong = Gathering(tree=tree)
    custom = [name for name in algorithms if name not in BUILT_IN]
    name = _algorithm(tree.data)
    if name is not None and name not in (*BUILT_IN, *custom):
        _unknown_algorithm(wrong, name, (*BUILT_IN, *custom))
    shape = CustomOptimizerFile if name in custom else OptimizerFile
    file = _validated(tree, shape, wrong)
    if file is not None:
        _check(file, wrong)
    wrong.settle()
    assert file is not None
    return file


def _validated(
    tree: YamlTree, shape: type[AnyOptimizerFile], wrong: Gathering
) -> AnyOptimizerFile | None:
    """The file; where its algorithm is unknown, nothing more is said of that block."""
    unknown = bool(wrong.problems)
    try:
        return validate_config(tree.data, shape, source=tree.path.name, tree=tree)
    except ConfigError as error:
        told = [p for p in error.problems if not (unknown and "optimize.algorithm" in p.where)]
        wrong.problems += told
    return None


def _check(file: AnyOptimizerFile, wrong: Gathering) -> None:
    metrics = [item.metric_name for item in file.evaluate.metrics]
    if not metrics:
        remedy = 'add one, such as {"metric_name": "final_response_avg_score"}'
        wrong.add(("evaluate", "metrics"), "there are no metrics", remedy)
        return
    unknown = [name for name in _required(file) if name not in metrics]
    if unknown:
        told = f"no such metric in evaluate.metrics: {', '.join(unknown)}"
        wrong.add(_REQUIRED, told, f"there are: {', '.join(metrics)}")


def _required(file: AnyOptimizerFile) -> list[str]:
    said = file.optimize.stop.required_metrics
    if said == "all":
        return [item.metric_name for item in file.evaluate.metrics]
    return list(said or ())


def _has_threshold(item: MetricItem) -> bool:
    """The usual threshold of 1 says nothing where two answers are compared."""
    return item.kind != "llm_verifier_pairwise" or "threshold" in item.model_fields_set


def _algorithm(data: Json) -> str | None:
    for key in ("optimize", "algorithm", "name"):
        data = data.get(key) if isinstance(data, Mapping) else None
    return data if isinstance(data, str) else None


def _unknown_algorithm(wrong: Gathering, name: str, known: Collection[str]) -> None:
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean '{near[0]}'? " if near else ""
    remedy = f"{meant}there are: {', '.join(known)}"
    wrong.add(("optimize", "algorithm", "name"), f"no algorithm '{name}'", remedy)
