"""An adapter of gepa as a target: its examples are cases, its texts are surfaces."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.compat.gepa.options import GepaOptions
from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, MissingExtra, Problem
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description, Effects, Receipt, Scope
from burnish.core.surfaces import Candidate, Surface, TextSurface
from burnish.datasets.splits import split
from burnish.system.extras import install_command
from burnish.targets.user_code import in_thread

Texts: TypeAlias = dict[str, str]
SCORE = "score"


def default_adapter(options: GepaOptions) -> Any:
    """gepa's own adapter for one prompt, which needs gepa itself."""
    if options.task_lm is None:
        remedy = "pass an adapter, or task_lm for gepa's default one"
        raise ConfigError([Problem(where="adapter", message="there is none", remedy=remedy)])
    try:
        module = import_module("gepa.adapters.default_adapter.default_adapter")
    except ModuleNotFoundError:
        message = "gepa's default adapter needs gepa"
        remedy = f"{install_command('gepa')}, or pass an adapter"
        raise MissingExtra(message, remedy=remedy) from None
    own = {} if options.evaluator is None else {"evaluator": options.evaluator}
    return module.DefaultAdapter(model=options.task_lm, **own)


# -- Cases -----------------------------------------------------------------------------------------


def dataset_of(
    instances: dict[str, Any],
    trainset: Sequence[Any],
    valset: Sequence[Any] | None,
    testset: Sequence[Any],
    *,
    seed: int,
) -> Dataset:
    """Cases for the examples of gepa, which `instances` gets by the names of the cases."""

    def cases(name: str, examples: Any) -> tuple[Case, ...]:
        loaded = examples.fetch(examples.all_ids()) if hasattr(examples, "fetch") else examples
        made: list[Case] = []
        for number, example in enumerate(loaded):
            case = _case(f"{name}-{number}", example)
            instances[case.id] = example
            made.append(case)
        return tuple(made)

    train, test = cases("train", trainset), cases("test", testset)
    if valset is not None:
        return Dataset(train=train, holdout=cases("val", valset), test=test)
    halves = split(train, seed=seed, shares={Split.TRAIN: 0.5, Split.HOLDOUT: 0.5, Split.TEST: 0.0})
    return dataclasses.replace(halves.dataset, test=test)


def _case(name: str, example: Any) -> Case:
    data = plain(example)
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if isinstance(fields.get("input"), str):
        answer = fields.get("answer")
        case = Case.single(fields["input"], answer if isinstance(answer, str) else None, name=name)
        others = {key: v for key, v in fields.items() if key not in ("input", "answer")}
        return dataclasses.replace(case, extras={"example": others} if any(others.values()) else {})
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return Case.single(text, name=name)


def origin_of(thing: Any) -> str:
    """The name of a function, or of the class of an object."""
    named = thing if hasattr(thing, "__qualname__") else cast("Any", type(thing))
    return f"{named.__module__}.{named.__qualname__}"


def plain(value: Any) -> Any:
    """Data of any kind as JSON; objects by what they say of themselves."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): plain(inner) for key, inner in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in cast("Sequence[object]", value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    for method in ("model_dump", "toDict", "to_dict"):
        if callable(told := getattr(value, method, None)):
            return plain(told())
    text = repr(value)
    if " at 0x" in text:
        message = f"{type(value).__name__} cannot be stored: it differs in every process"
        remedy = "use dicts, dataclasses or pydantic models"
        raise ConfigError([Problem(where="trainset", message=message, remedy=remedy)])
    return text


# -- The target ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AdapterTarget:
    """The system behind an adapter; its texts are what is optimised."""

    adapter: Any
    texts: Texts
    score_range: tuple[float, float] = (0.0, 1.0)
    instances: dict[str, Any] = field(default_factory=dict[str, Any])
    """By the name of the case, the example."""
    train: frozenset[str] = frozenset()
    """The cases that proposers may learn from."""
    leaf: bool = True

    @property
    def description(self) -> Description:
        name = origin_of(self.adapter)
        config: dict[str, Json] = {"adapter": name, "score_range": list(self.score_range)}
        return Description(kind="gepa", config=config)

    @property
    def surfaces(self) -> Sequence[Surface]:
        return [TextSurface(id=name) for name in self.texts]

    @property
    def baseline(self) -> Candidate:
        return Candidate(values=dict(self.texts))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        del candidate
        return ()

    def estimate(self, case: Case) -> Spend:
        del case
        return Spend(calls=1, unpriced=1)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        del home
        return {f"{name}.txt": str(text).encode() for name, text in candidate.values.items()}

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Scope
    ) -> Receipt[Outcome]:
        del draw, effects
        texts = {name: str(value) for name, value in candidate.values.items()}
        outcome = await in_thread(lambda: self._evaluated(texts, case))
        return Receipt(value=outcome, spend=self.estimate(case))

    def _evaluated(self, texts: Texts, case: Case) -> Outcome:
        learns = case.id in self.train
        batch = self.adapter.evaluate([self.instances[case.id]], texts, capture_traces=learns)
        if not len(batch.outputs) == len(batch.scores) == 1:
            message = f"the adapter gave {len(batch.scores)} scores for one example"
            raise BurnishError(message)
        objectives = getattr(batch, "objective_scores", None)
        data: dict[str, Json] = {
            SCORE: self._scaled(float(batch.scores[0])),
            "objectives": plain(objectives[0]) if objectives else {},
        }
        if learns:
            told = self.adapter.make_reflective_dataset(texts, batch, list(texts))
            # As pairs: the journal sorts keys, and a proposer reads them in their order.
            data["records"] = {
                name: [[[k, plain(v)] for k, v in record.items()] for record in told.get(name, ())]
                for name in texts
            }
        output = plain(batch.outputs[0])
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        return Outcome(replies=(text,), data=data, nano_usd=None)

    def _scaled(self, score: float) -> float:
        worst, best = self.score_range
        value = (score - worst) / (best - worst)
        if 0 <= value <= 1:
            return value
        message = f"the adapter gave the score {score:g}, which is not within {worst:g} to {best:g}"
        raise BurnishError(message, remedy="pass score_range=(worst, best) to optimize")


@dataclass(frozen=True, kw_only=True)
class AdapterScore:
    """The score of the adapter."""

    name: str = SCORE
    fingerprint: str = "gepa score 1"

    def estimate(self, case: Case) -> Spend:
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        del case, effects
        data = cast("Mapping[str, Any]", outcome.data)
        details: dict[str, Json] = {"objectives": data["objectives"]} if data["objectives"] else {}
        return [Score(metric=self.name, value=data[SCORE], details=details)]
