"""Requests of PromptIter, as patches on the description of a run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, Field, JsonValue, field_serializer

from burnish.compat.promptiter.shapes import CamelWire, Profile, Wire, unknown_keys
from burnish.core.content import (
    MOST,
    MOST_PLACES,
    AboveZero,
    AtLeastOne,
    Json,
    NotNegative,
    Repeats,
)
from burnish.core.errors import ConfigError, Problem
from burnish.datasets.evalset_shapes import folded
from burnish.projects.dialects import Document
from burnish.runs.draft import Draft, FilePlace, Strength
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.strategy import Backprop
from burnish.system import YamlTree, read_tree
from burnish.system.yaml import TreePath


def _empty(value: object) -> bool:
    return not value


class LossHint(CamelWire):
    """What a person says about a case that fails a metric."""

    eval_case_id: str = ""
    metric_name: str = ""
    severity: str = ""
    """P0 to P3; P1 where it is empty."""
    reason: str = ""


class LossTarget(CamelWire):
    """The node where the losses of a metric begin, instead of where the run ended."""

    metric_name: str = ""
    node_id: str = ""


class EvalSetInput(CamelWire):
    """An eval set, or some of its cases."""

    eval_set_id: str = ""
    eval_case_ids: tuple[str, ...] = ()
    """All of them where none is named."""
    loss_hints: tuple[LossHint, ...] = ()
    loss_targets: tuple[LossTarget, ...] = ()


class EvaluationOptions(Wire):
    """How many cases run at once; 0 leaves it to burnish."""

    eval_case_parallelism: int = Field(default=0, le=MOST_PLACES)
    eval_case_parallel_inference_enabled: bool = True
    """Off, cases run one after the other, and are scored as they come."""
    eval_case_parallel_evaluation_enabled: bool = True
    """Off, they are scored one after the other."""


class BackwardOptions(Wire):
    """How many cases are walked back at once."""

    case_parallelism_enabled: bool = True
    case_parallelism: int = Field(default=0, le=MOST_PLACES)


class SurfaceOptions(Wire):
    """How many surfaces are worked on at once."""

    surface_parallelism_enabled: bool = True
    surface_parallelism: int = Field(default=0, le=MOST_PLACES)


class AggregationOptions(SurfaceOptions):
    """How many surfaces are merged at once."""


class OptimizerOptions(SurfaceOptions):
    """How many surfaces are patched at once."""


class AcceptancePolicy(Wire):
    """What a gain must be; a tie is none, unless a loss is allowed."""

    min_score_gain: float = 0.0


class StopPolicy(Wire):
    """When to stop before the last round."""

    max_rounds_without_acceptance: int = Field(default=0, le=MOST)
    """0 is no limit."""
    target_score: float | None = None


class BurnishOptions(Wire):
    """What burnish adds to PromptIter: repeats, gates, guards, budgets."""

    repeats: Repeats = 1
    gate: Literal["min_gain", "sigma", "strict"] = "min_gain"
    accept_sigma: NotNegative = 1.0
    protected_cases: tuple[str, ...] = ()
    """Validation cases that may not get worse: `case`, or `set/case` where two sets have it."""
    no_new_failures: bool = False
    metric_floors: dict[str, float] = Field(default_factory=dict[str, float])
    """The least mean of a metric on validation."""
    candidates_per_round: AtLeastOne = 1
    cases_per_round: AtLeastOne | None = None
    """At most so many failing cases are walked back in a round."""
    max_metric_calls: AtLeastOne | None = None
    max_calls: AtLeastOne | None = None
    max_tokens: AtLeastOne | None = None
    max_usd: AboveZero | None = None
    max_minutes: AboveZero | None = None
    seed: int = 42


class RunRequest(Wire):
    """The input of one run. Name sets by id alone, or as inputs that say more of each."""

    where = "run"

    train: tuple[EvalSetInput, ...] = Field(default=(), alias="train")
    validation: tuple[EvalSetInput, ...] = Field(default=(), alias="validation")
    train_eval_set_ids: tuple[str, ...] = Field(default=(), exclude_if=_empty)
    validation_eval_set_ids: tuple[str, ...] = Field(default=(), exclude_if=_empty)
    initial_profile: Profile | None = None
    target_surface_ids: tuple[str, ...] = ()
    teacher: Any = None
    """Writes reference answers: an async function of the question, or a target."""
    judge: Any = None
    """Answers judges' questions: an async function of the message."""
    evaluation_options: EvaluationOptions = Field(default_factory=EvaluationOptions)
    backward_options: BackwardOptions = Field(default_factory=BackwardOptions)
    aggregation_options: AggregationOptions = Field(default_factory=AggregationOptions)
    optimizer_options: OptimizerOptions = Field(default_factory=OptimizerOptions)
    acceptance_policy: AcceptancePolicy = Field(default_factory=AcceptancePolicy)
    stop_policy: StopPolicy = Field(default_factory=StopPolicy)
    max_rounds: int = Field(default=0, le=MOST)
    burnish: BurnishOptions | None = Field(default=None, exclude_if=lambda value: value is None)

    @field_serializer("teacher", "judge")
    def _no_runner(self, value: Any) -> None:
        """A runner is code, and has no JSON."""
        del value

    @property
    def options(self) -> BurnishOptions:
        """What burnish is told, or its defaults."""
        return self.burnish or BurnishOptions()

    @property
    def train_inputs(self) -> tuple[EvalSetInput, ...]:
        """The sets to learn from, whichever way they were named."""
        return _inputs(self.train, self.train_eval_set_ids)

    @property
    def validation_inputs(self) -> tuple[EvalSetInput, ...]:
        """The sets that decide, whichever way they were named."""
        return _inputs(self.validation, self.validation_eval_set_ids)


def read_request(data: Json, *, strict: bool) -> tuple[RunRequest, list[str]]:
    """A request that came as JSON, and what is to be warned of.

    Keys that nobody knows are refused when `strict`, else ignored with a warning each. Teacher
    and judge are code, which JSON cannot carry.
    """
    if not isinstance(data, dict):
        raise ConfigError([Problem(where="run", message="the request must be an object")])
    unknown = [f"unknown field '{path}'" for path in unknown_keys(data, RunRequest)]
    carried = [
        Problem(where=key, message="a runner cannot be sent as JSON", remedy="leave it out")
        for key, value in data.items()
        if key.lower() in {"teacher", "judge"} and value is not None
    ]
    refused = [Problem(where="run", message=message) for message in unknown] if strict else []
    if refused or carried:
        raise ConfigError([*refused, *carried])
    return RunRequest.from_json(data), [f"{message} is ignored" for message in unknown]


def _inputs(inputs: tuple[EvalSetInput, ...], ids: tuple[str, ...]) -> tuple[EvalSetInput, ...]:
    return (*inputs, *(EvalSetInput(eval_set_id=name) for name in ids))


# -- A run request of PromptIter as patches on the description of a run ---------------------------


LIMITS = ("max_metric_calls", "max_calls", "max_tokens", "max_usd", "max_minutes")
_SETTINGS = ("strategy", "settings")
_OPTIONS = ("repeats", "gate", "accept_sigma", "candidates_per_round", "cases_per_round")
_GUARDS = {
    "protected_cases": "protected",
    "no_new_failures": "no_new_failures",
    "metric_floors": "floors",
}
"""What the request calls a guard, and what the settings do."""
_FIELDS: Mapping[TreePath, TreePath] = {
    ("target_surface_ids",): (*_SETTINGS, "targets"),
    ("max_rounds",): (*_SETTINGS, "max_rounds"),
    ("acceptance_policy", "min_score_gain"): (*_SETTINGS, "min_score_gain"),
    **{
        ("stop_policy", name): (*_SETTINGS, name)
        for name in ("max_rounds_without_acceptance", "target_score")
    },
    **{("burnish", name): (*_SETTINGS, name) for name in _OPTIONS},
    **{("burnish", key): (*_SETTINGS, "guards", name) for key, name in _GUARDS.items()},
    **{("burnish", name): ("budget", name) for name in LIMITS},
    ("burnish", "seed"): ("execution", "seed"),
}
"""What a request says, and the field of the description that it sets."""
_OPEN = ("target_surface_ids", "max_rounds", *_GUARDS)
"""Where nothing, none and zero leave it to what was there before."""
_WIDTHS = {
    "backward_parallelism": ("backward_options", "case_parallelism"),
    "aggregation_parallelism": ("aggregation_options", "surface_parallelism"),
    "patch_parallelism": ("optimizer_options", "surface_parallelism"),
}


@dataclass(frozen=True, kw_only=True)
class _RequestPatch:
    """One field that a request sets."""

    field: TreePath
    value: JsonValue
    source: TreePath
    """Where the request says it, in Python's names."""


def patches(request: RunRequest) -> Iterator[_RequestPatch]:
    """What a request says itself, without what it would be by default; sets of cases aside."""
    data = cast("dict[str, JsonValue]", request.model_dump(mode="json", by_alias=False))
    for source, target in _FIELDS.items():
        value = _value(data, source)
        if _is_set(request, source) and value is not None and (value or source[-1] not in _OPEN):
            yield _RequestPatch(field=target, value=value, source=source)
    yield from _losses(request)
    for name, (block, key) in _WIDTHS.items():
        width = _width(getattr(request, block), key)
        if width:
            yield _RequestPatch(field=(*_SETTINGS, name), value=width, source=(block,))
    at_once = _concurrency(request)
    if at_once:
        source = ("evaluation_options",)
        yield _RequestPatch(field=("execution", "concurrency"), value=at_once, source=source)


def settings_data(request: RunRequest) -> dict[str, JsonValue]:
    """What a request says of back-propagation, as data of its settings."""
    data: dict[str, JsonValue] = {}
    for patch in patches(request):
        if patch.field[:2] != _SETTINGS:
            continue
        *above, last = map(str, patch.field[2:])
        block = data
        for key in above:
            block = cast("dict[str, JsonValue]", block.setdefault(key, {}))
        block[last] = patch.value
    return data


def _is_set(block: BaseModel | None, path: TreePath) -> bool:
    """Whether a request says something, wherever it stands in it."""
    name, *rest = map(str, path)
    if block is None or name not in block.model_fields_set:
        return False
    return not rest or _is_set(getattr(block, name), tuple(rest))


def _value(data: JsonValue, path: TreePath) -> JsonValue:
    for step in path:
        data = data.get(str(step)) if isinstance(data, dict) else None
    return data


def _losses(request: RunRequest) -> Iterator[_RequestPatch]:
    """What people say of cases that fail, and where losses begin."""
    hints: list[JsonValue] = [
        {
            "case": hint.eval_case_id,
            "metric": hint.metric_name,
            "reason": hint.reason,
            "severity": hint.severity or Severity.P1.value,
        }
        for each in request.train_inputs
        for hint in each.loss_hints
    ]
    goals: dict[str, JsonValue] = {
        goal.metric_name: goal.node_id
        for each in request.train_inputs
        for goal in each.loss_targets
    }
    if hints:
        yield _RequestPatch(field=(*_SETTINGS, "loss_hints"), value=hints, source=("train",))
    if goals:
        yield _RequestPatch(field=(*_SETTINGS, "loss_targets"), value=goals, source=("train",))


def _width(options: BaseModel, key: str) -> JsonValue:
    """One at a time where it is switched off; 0 leaves it open."""
    if not getattr(options, f"{key}_enabled"):
        return 1
    return getattr(options, key) or None


def _concurrency(request: RunRequest) -> int | None:
    options = request.evaluation_options
    parallel = (
        options.eval_case_parallel_inference_enabled
        and options.eval_case_parallel_evaluation_enabled
    )
    return options.eval_case_parallelism or None if parallel else 1


@dataclass(frozen=True, kw_only=True)
class RequestFile:
    """A request in a file, laid over the graph file that it is about."""

    request: RunRequest
    tree: YamlTree
    at: TreePath = ()
    """Where the request stands: a body for the HTTP service has it under `run`."""
    warnings: tuple[str, ...] = ()

    @property
    def strategy(self) -> str:
        """PromptIter's."""
        return Backprop.name

    @classmethod
    def read(cls, path: Path) -> "RequestFile":
        """The request of a file; refused where it asks for what only the engine can do."""
        tree = read_tree(path)
        data = tree.data if isinstance(tree.data, dict) else {}
        at = tuple(key for key in data if key.lower() == "run")[:1]
        request, warnings = read_request(data[at[0]] if at else tree.data, strict=False)
        read = cls(request=request, tree=tree, at=at, warnings=tuple(warnings))
        if request.initial_profile is not None and request.initial_profile.overrides:
            remedy = (
                "put the values into the file first, or run the request from Python with "
                "burnish.compat.promptiter.Engine"
            )
            problem = Problem(
                where=str(read.place(("initial_profile",))),
                message="a graph file is started from as it stands",
                remedy=remedy,
            )
            raise ConfigError([problem])
        return read

    def put(self, draft: Draft, document: Document) -> None:
        """Lay the request over the draft of the graph file; its sets are found beside that."""
        for patch in patches(self.request):
            place = self.place(patch.source)
            draft.put(patch.field, patch.value, place=place, strength=Strength.REQUEST)
        problems: list[Problem] = []
        for split, name in (("train", "train"), ("validation", "holdout")):
            inputs = list(self._inputs(split))
            case_sets = [self._case_set(each, at, document, problems) for each, at in inputs]
            sets: list[JsonValue] = [each for each in case_sets if each is not None]
            if sets:
                place = self.place(inputs[0][1][:1])
                draft.put(("data", name), sets, place=place, strength=Strength.REQUEST)
        if problems:
            raise ConfigError(problems)

    def place(self, path: TreePath) -> FilePlace:
        """A place in the request, as the file spells its keys."""
        keys: list[str | int] = list(self.at)
        data = _value(self.tree.data, self.at)
        for step in path:
            if isinstance(data, dict):
                key = next((each for each in data if folded(each) == folded(str(step))), None)
                keys.append(str(step) if key is None else key)
                data = data.get(str(keys[-1]))
            elif isinstance(data, list) and isinstance(step, int):
                keys.append(step)
                data = data[step]
        return FilePlace(tree=self.tree, keys=tuple(keys))

    def _inputs(self, split: str) -> Iterator[tuple[EvalSetInput, TreePath]]:
        """The sets of a split, whichever way they are named, and where."""
        inputs = {"train": self.request.train_inputs, "validation": self.request.validation_inputs}
        listed = len(getattr(self.request, split))
        for number, each in enumerate(inputs[split]):
            ids = (f"{split}_eval_set_ids", number - listed)
            yield each, (split, number) if number < listed else ids

    def _case_set(
        self, each: EvalSetInput, at: TreePath, document: Document, problems: list[Problem]
    ) -> JsonValue:
        """The file of a set, and which of its cases; None, with the problem kept, without one."""
        places = list(_places(document, f"{each.eval_set_id}.evalset.json"))
        path = next((path for path in places if path.is_file()), None)
        if path is None:
            looked = ", ".join(str(path.relative_to(document.folder)) for path in places)
            problem = Problem(
                where=str(self.place(at)),
                message=f"there is no eval set '{each.eval_set_id}'",
                remedy=f"looked for: {looked} in {document.folder}",
            )
            problems.append(problem)
            return None
        return {"file": str(path), "cases": [*each.eval_case_ids]}


def _places(document: Document, name: str) -> Iterator[Path]:
    """Where PromptIter and graphs have their eval sets."""
    app = document.data.get("name")
    for folder in (document.folder, document.folder / "data"):
        yield folder / name
        if isinstance(app, str) and app:
            yield folder / app / name
