"""PromptIter's run requests, and how they change the description of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_serializer

from burnish.compat.promptiter.shapes import CamelWire, Id, Profile, Wire, is_empty, unknown_keys
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.core.content import (
    MOST,
    MOST_PLACES,
    AboveZero,
    AtLeastOne,
    Json,
    NotNegative,
    Repeats,
    codec,
)
from burnish.core.errors import MOST_PROBLEMS, ConfigError, Problem, first_problems
from burnish.core.formatting import listed, shorten
from burnish.core.surfaces import Value
from burnish.datasets.evalset_shapes import folded, spelled_twice
from burnish.projects.clients import NOTHING_ALLOWED, admit
from burnish.projects.description import Doors
from burnish.projects.dialects import Document
from burnish.projects.file_structure import read_structure
from burnish.runs.draft import Draft, FilePlace, Strength
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.strategy import Backprop
from burnish.system import YamlTree, read_tree
from burnish.system.yaml import TreePath


class _Strict(Wire):
    """A part of a request: a text is no number and no switch, as in Go."""

    model_config = ConfigDict(strict=True)


_Items = Field(default=(), strict=False)
"""A list is a tuple here."""
_MOST_SETS = 1_000
"""Eval sets of a split; each of them has any number of cases."""
_SETS = frozenset({"train", "validation", "trainevalsetids", "validationevalsetids"})


class LossHint(CamelWire):
    """What a person says about a case that fails a metric."""

    eval_case_id: Id = ""
    metric_name: Id = ""
    severity: Id = ""
    """P0 to P3; P1 if empty."""
    reason: str = ""


class LossTarget(CamelWire):
    """The node where the losses of a metric start, instead of the last one."""

    metric_name: Id = ""
    node_id: Id = ""


class EvalSetInput(CamelWire):
    """An eval set, or some of its cases."""

    eval_set_id: Id = ""
    eval_case_ids: tuple[Id, ...] = ()
    """All cases if empty."""
    loss_hints: tuple[LossHint, ...] = ()
    loss_targets: tuple[LossTarget, ...] = ()


class EvaluationOptions(_Strict):
    """How many cases run at once; 0 means burnish's default."""

    eval_case_parallelism: int = Field(default=0, le=MOST_PLACES)
    eval_case_parallel_inference_enabled: bool = True
    """If off, cases run one after the other."""
    eval_case_parallel_evaluation_enabled: bool = True
    """If off, cases are scored one after the other."""


class BackwardOptions(_Strict):
    """How many cases the backward stage handles at once."""

    case_parallelism_enabled: bool = True
    case_parallelism: int = Field(default=0, le=MOST_PLACES)


class AggregationOptions(_Strict):
    """How many surfaces are merged at once."""

    surface_parallelism_enabled: bool = True
    surface_parallelism: int = Field(default=0, le=MOST_PLACES)


class OptimizerOptions(AggregationOptions):
    """How many surfaces are patched at once."""


class AcceptancePolicy(_Strict):
    """The minimum gain; a tie is not a gain unless a loss is allowed."""

    min_score_gain: float = 0.0


class StopPolicy(_Strict):
    """When to stop before the last round."""

    max_rounds_without_acceptance: int = Field(default=0, le=MOST)
    """0 means no limit."""
    target_score: float | None = None


class BurnishOptions(_Strict):
    """What burnish adds to PromptIter: repeats, gates, guards, budgets."""

    repeats: Repeats = 1
    gate: Literal["min_gain", "sigma", "strict"] = "min_gain"
    accept_sigma: NotNegative = 1.0
    protected_cases: tuple[Id, ...] = _Items
    """Validation cases that may not get worse: `case`, or `set/case` if two sets have it."""
    no_new_failures: bool = False
    metric_floors: dict[str, float] = Field(default_factory=dict[str, float])
    """The minimum mean of a metric on validation."""
    candidates_per_round: AtLeastOne = 1
    cases_per_round: AtLeastOne | None = None
    """The maximum of failing cases that a round works on."""
    max_metric_calls: AtLeastOne | None = None
    max_calls: AtLeastOne | None = None
    max_tokens: AtLeastOne | None = None
    max_usd: AboveZero | None = None
    max_minutes: AboveZero | None = None
    seed: int = 42
    confirm: bool = False
    """Measure baseline and best again at the end, on fresh draws."""


class RunRequest(_Strict):
    """The input of one run. Sets are given by id, or as inputs with more details."""

    where = "run"

    train: tuple[EvalSetInput, ...] = Field(default=(), alias="train", strict=False)
    validation: tuple[EvalSetInput, ...] = Field(default=(), alias="validation", strict=False)
    train_eval_set_ids: tuple[Id, ...] = Field(default=(), exclude_if=is_empty, strict=False)
    validation_eval_set_ids: tuple[Id, ...] = Field(default=(), exclude_if=is_empty, strict=False)
    initial_profile: Profile | None = None
    target_surface_ids: tuple[Id, ...] = _Items
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

    def sent_json(self) -> dict[str, Json]:
        """The data with only what was sent: defaults would override those of a graph file."""
        data = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return cast("dict[str, Json]", data)

    @property
    def options(self) -> BurnishOptions:
        """The burnish options, or their defaults."""
        return self.burnish or BurnishOptions()

    @property
    def train_inputs(self) -> tuple[EvalSetInput, ...]:
        """The train sets, given as inputs or by id."""
        return (*self.train, *map(_by_id, self.train_eval_set_ids))

    @property
    def validation_inputs(self) -> tuple[EvalSetInput, ...]:
        """The validation sets, given as inputs or by id."""
        return (*self.validation, *map(_by_id, self.validation_eval_set_ids))


def read_request(data: Json, *, strict: bool) -> tuple[RunRequest, list[str]]:
    """Read a request from JSON; also returns warnings.

    Unknown keys are errors if `strict`, else they are ignored with a warning that names the first
    ten. Those under `Burnish` are always errors: a limit that is misspelt would be none. Teacher
    and judge are code, which JSON cannot carry.
    """
    if not isinstance(data, dict):
        raise ConfigError([Problem(where="run", message="the request must be an object")])
    for key, value in data.items():
        if isinstance(value, list) and len(value) > _MOST_SETS and folded(key) in _SETS:
            message = f"it has {len(value):,} eval sets; a run has at most {_MOST_SETS:,}"
            raise ConfigError.of(key, message)
    unknown = unknown_keys(data, RunRequest)
    carried = [
        Problem(where=key, message="a runner cannot be sent as JSON", remedy="leave it out")
        for key, value in data.items()
        if key.lower() in {"teacher", "judge"} and value is not None
    ]
    ours = [each for each in unknown if folded(each.path.partition(".")[0]) == "burnish"]
    refused = first_problems(unknown if strict else ours, lambda each: each.problem)
    refused += first_problems(spelled_twice(data, RunRequest), lambda each: _twice(*each))
    if refused or carried:
        raise ConfigError([*carried, *refused])
    ignored = [each.path for each in unknown]
    return RunRequest.from_json(data), [unknown_fields(ignored)] if ignored else []


def _twice(path: TreePath, key: str) -> Problem:
    """The last spelling would win, and a limit in the first one would be lost."""
    where = ".".join(shorten(str(step), 60) for step in (*path, key))
    return Problem(where=where, message="it is given twice, in two spellings", remedy="keep one")


def run_key(body: Mapping[str, JsonValue]) -> str | None:
    """The key of a body under which the request stands, in any letter case."""
    keys = [key for key in body if key.lower() == "run"]
    if len(keys) > 1:
        raise ConfigError([_twice((), keys[1])])
    ours = [key for key in body if folded(key) == "burnish"]
    if keys and ours:
        message = f"beside '{keys[0]}' it has no effect"
        where = shorten(ours[0], 60)
        raise ConfigError([Problem(where=where, message=message, remedy=f"put it in '{keys[0]}'")])
    return next(iter(keys), None)


def unknown_fields(paths: Sequence[str]) -> str:
    """The warning about fields that are ignored, of which it names the first ones."""
    if len(paths) == 1:
        return f"unknown field '{paths[0]}' is ignored"
    names = [f"'{path}'" for path in paths]
    return f"unknown fields are ignored: {listed(names, MOST_PROBLEMS)}"


def _by_id(name: str) -> EvalSetInput:
    return EvalSetInput(eval_set_id=name)


LIMITS = ("max_metric_calls", "max_calls", "max_tokens", "max_usd", "max_minutes")
_SETTINGS = ("strategy", "settings")
_OPTIONS = ("repeats", "gate", "accept_sigma", "candidates_per_round", "cases_per_round")
_GUARDS = {
    "protected_cases": "protected",
    "no_new_failures": "no_new_failures",
    "metric_floors": "floors",
}
"""Guards by their name in a request: their name in the settings."""
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
"""Fields of a request, and the fields of the description that they set."""
_OPEN = ("target_surface_ids", "max_rounds", *_GUARDS)
"""Fields whose empty value leaves the description unchanged."""
_WIDTHS = {
    "backward_parallelism": ("backward_options", "case_parallelism"),
    "aggregation_parallelism": ("aggregation_options", "surface_parallelism"),
    "patch_parallelism": ("optimizer_options", "surface_parallelism"),
}

_AT_ONCE = {**_WIDTHS, "concurrency": ("evaluation_options", "eval_case_parallelism")}


class _Patch(NamedTuple):
    """A field of the description, its new value, and the field of the request it comes from."""

    field: TreePath
    value: JsonValue
    source: TreePath


def _patches(request: RunRequest) -> Iterator[_Patch]:
    """The fields that a request sets explicitly, except for its eval sets."""
    data = cast("dict[str, JsonValue]", request.model_dump(mode="json", by_alias=False))
    for source, target in _FIELDS.items():
        value = _value(data, source)
        if _is_set(request, source) and value is not None and (value or source[-1] not in _OPEN):
            yield _Patch(target, value, source)
    # A round of PromptIter has one candidate, its last winner is its result, and its budget means
    # the search alone.
    yield _Patch((*_SETTINGS, "patches_alone"), value=False, source=())
    yield _Patch(("execution", "confirm"), value=request.options.confirm, source=())
    yield from _losses(request)
    for name, (block, key) in _WIDTHS.items():
        options = getattr(request, block)
        # One at a time if switched off; 0 means no limit of the request.
        width = getattr(options, key) if getattr(options, f"{key}_enabled") else 1
        if width:
            yield _Patch((*_SETTINGS, name), width, (block,))
    options = request.evaluation_options
    parallel = (
        options.eval_case_parallel_inference_enabled
        and options.eval_case_parallel_evaluation_enabled
    )
    if at_once := options.eval_case_parallelism if parallel else 1:
        yield _Patch(("execution", "concurrency"), at_once, ("evaluation_options",))


def tightened(request: RunRequest, operator: dict[str, Any]) -> RunRequest:
    """A client's request with its limits cut to those of the `operator`'s description."""
    fields = {setting.path: setting for setting in Doors.of("graph", Backprop.name).fields()}
    for patch in _patches(request):
        if not patch.source:  # our own, not the client's
            continue
        path = tuple(map(str, patch.field))
        value = admit(fields[path], patch.value, operator=operator, allowance=NOTHING_ALLOWED)
        if value != patch.value:
            block, *keys = map(str, _AT_ONCE.get(path[-1], patch.source))
            inner = getattr(request, block)
            cut = inner.model_copy(update={keys[0]: value}) if keys else value
            request = request.model_copy(update={block: cut})
    return request


def within(request: RunRequest, **limits: float | None) -> RunRequest:
    """A request with these limits where they are stricter than its own."""
    own = request.options
    stricter = {
        name: limit
        for name, limit in limits.items()
        if limit is not None and ((before := getattr(own, name)) is None or limit < before)
    }
    if not stricter:
        return request
    return request.model_copy(update={"burnish": own.model_copy(update=stricter)})


def settings_data(request: RunRequest) -> dict[str, JsonValue]:
    """The backprop settings that a request sets, as data."""
    data: dict[str, JsonValue] = {}
    for patch in _patches(request):
        if patch.field[:2] == _SETTINGS:
            *above, last = map(str, patch.field[2:])
            block = data
            for key in above:
                block = cast("dict[str, JsonValue]", block.setdefault(key, {}))
            block[last] = patch.value
    return data


def _is_set(block: BaseModel | None, path: TreePath) -> bool:
    """Whether a request sets this field explicitly."""
    name, *rest = map(str, path)
    if block is None or name not in block.model_fields_set:
        return False
    return not rest or _is_set(getattr(block, name), tuple(rest))


def _value(data: JsonValue, path: TreePath) -> JsonValue:
    for step in path:
        data = data.get(str(step)) if isinstance(data, dict) else None
    return data


def _losses(request: RunRequest) -> Iterator[_Patch]:
    """Loss hints and loss targets."""
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
        yield _Patch((*_SETTINGS, "loss_hints"), hints, ("train",))
    if goals:
        yield _Patch((*_SETTINGS, "loss_targets"), goals, ("train",))


@dataclass(frozen=True, kw_only=True)
class RequestFile:
    """A request in a file, applied to the graph file that it is about."""

    request: RunRequest
    tree: YamlTree
    at: TreePath = ()
    """The path of the request in the file: a body for the HTTP service has it under `run`."""
    warnings: tuple[str, ...] = ()

    @property
    def strategy(self) -> str:
        return Backprop.name

    @classmethod
    def read(cls, path: Path) -> "RequestFile":
        """Read a request."""
        tree = read_tree(path)
        data = tree.data if isinstance(tree.data, dict) else {}
        key = run_key(data)
        at = () if key is None else (key,)
        request, warnings = read_request(data[key] if key else tree.data, strict=False)
        return cls(request=request, tree=tree, at=at, warnings=tuple(warnings))

    def put(self, draft: Draft, document: Document, doors: Doors) -> None:
        """Apply the request to the draft of the graph file; its sets are found beside that file."""
        del doors  # whoever has the command line may set everything
        for patch in _patches(self.request):
            place = self._place(patch.source)
            draft.put(patch.field, patch.value, place=place, strength=Strength.REQUEST)
        problems: list[Problem] = []
        self._put_start(draft, document)
        for split, name in (("train", "train"), ("validation", "holdout")):
            inputs = self._inputs(split)
            case_sets = [self._case_set(each, at, document, problems) for each, at in inputs]
            sets: list[JsonValue] = [each for each in case_sets if each is not None]
            if sets:
                place = self._place(inputs[0][1][:1])
                draft.put(("data", name), sets, place=place, strength=Strength.REQUEST)
        if problems:
            raise ConfigError(problems)

    def _put_start(self, draft: Draft, document: Document) -> None:
        """The values of the initial profile, which the run begins with."""
        profile, place = self.request.initial_profile, self._place(("initial_profile",))
        if profile is None or not (profile.overrides or profile.structure_id):
            return
        surface_map = SurfaceMap.of(read_structure(document.path).target)
        try:
            start = surface_map.candidate(profile).values
        except ConfigError as error:
            where = [replace(each, where=f"{place} {each.where}") for each in error.problems]
            raise ConfigError(where) from None
        changed = {k: v for k, v in start.items() if v != surface_map.baseline.values[k]}
        values = codec(dict[str, Value]).encode(changed)
        draft.put(("target", "start"), values, place=place, strength=Strength.REQUEST)

    def _place(self, path: TreePath) -> FilePlace:
        """A place in the request, with the file's spelling of keys."""
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

    def _inputs(self, split: str) -> list[tuple[EvalSetInput, TreePath]]:
        """The sets of a split, and where the request names them."""
        ids = f"{split}_eval_set_ids"
        return [
            *((each, (split, n)) for n, each in enumerate(getattr(self.request, split))),
            *((_by_id(name), (ids, n)) for n, name in enumerate(getattr(self.request, ids))),
        ]

    def _case_set(
        self, each: EvalSetInput, at: TreePath, document: Document, problems: list[Problem]
    ) -> JsonValue:
        """The file of a set and the selected cases; None, and a problem, if it does not exist."""
        name, app = f"{each.eval_set_id}.evalset.json", document.data.get("name")
        places = [
            folder / inner / name
            for folder in (document.folder, document.folder / "data")
            for inner in (("", app) if isinstance(app, str) and app else ("",))
        ]
        path = next((path for path in places if path.is_file()), None)
        if path is None:
            looked = ", ".join(str(path.relative_to(document.folder)) for path in places)
            problem = Problem(
                where=str(self._place(at)),
                message=f"there is no eval set '{each.eval_set_id}'",
                remedy=f"looked for: {looked} in {document.folder}",
            )
            problems.append(problem)
            return None
        return {"file": str(path), "cases": [*each.eval_case_ids]}
