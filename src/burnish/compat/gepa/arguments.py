"""The arguments of gepa.optimize: an adapter as a target, proposers of texts, other keywords."""

import dataclasses
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from pydantic import ConfigDict, Field, ValidationError

from burnish.core.cases import Case, Dataset, Message, Outcome, Split
from burnish.core.content import Codec, Json, codec, short_id
from burnish.core.errors import BurnishError, ConfigError, MissingExtra, Problem, RoleFailed
from burnish.core.evaluations import CaseResult, Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Description, Effects, Receipt, Role, Scope
from burnish.core.surfaces import Candidate, Surface, TextSurface
from burnish.datasets.splits import split
from burnish.models.chat import ChatRequest, ModelClient
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.roles import in_force
from burnish.runs.spec import TrackingSpec
from burnish.strategies.reflective.attempts import ReflectiveAttempt, ReflectiveSettings
from burnish.strategies.reflective.reflection import (
    ROLE,
    Proposer,
    Reflection,
    ReflectRequest,
    reflector,
)
from burnish.system.extras import install_command
from burnish.system.settings import Settings
from burnish.targets.user_code import in_thread

_UNUSED = {
    "acceptance_criterion": "burnish's gates decide",
    "batch_sampler": "minibatches are drawn by the seed, so that a resume draws the same",
    "max_reflection_cost": "an adapter's own costs are unknown, so US dollars cannot be limited",
    "reflection_strategy": "pass custom_candidate_proposer",
    "sampling_strategy": "burnish chooses parents itself; see candidate_selection_strategy",
    "selection_strategy": "burnish chooses among proposals itself",
    "val_evaluation_policy": "candidates race over the validation set, until the verdict is clear",
    "wandb_api_key": "set the variable WANDB_API_KEY",
    "wandb_attach_existing": "a run is tracked as a run of its own",
    "mlflow_attach_existing": "a run is tracked as a run of its own",
}
"""Keywords of gepa that are refused, and why."""


class GepaOptions(Settings):
    """The keywords of gepa.optimize that have a meaning here."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    task_lm: Any = None
    evaluator: Any = None
    reflection_lm: Any = None
    reflection_lm_kwargs: dict[str, Any] | None = None
    candidate_selection_strategy: Literal[
        "pareto", "current_best", "epsilon_greedy", "top_k_pareto", "trail"
    ] = "pareto"
    frontier_type: Literal["instance"] = "instance"
    skip_perfect_score: bool = True
    reflection_minibatch_size: int | None = None
    perfect_score: float = 1.0
    reflection_prompt_template: str | dict[str, str] | None = None
    custom_candidate_proposer: Any = None
    module_selector: Literal["round_robin", "all", "random"] = "round_robin"
    use_merge: bool = False
    max_merge_invocations: int = 5
    merge_val_overlap_floor: int = 5
    max_metric_calls: int | None = None
    stop_callbacks: Any = None
    callbacks: Sequence[Any] | None = None
    run_dir: str | None = None
    seed: int = 0
    use_wandb: bool = False
    wandb_init_kwargs: dict[str, Any] = Field(default_factory=dict[str, Any])
    use_mlflow: bool = False
    mlflow_tracking_uri: str | None = None
    mlflow_experiment_name: str | None = None
    logger: Any = None
    """Has no effect, like all fields below: burnish has its own progress, report and journal."""
    tracking_key_prefix: str = ""
    track_best_outputs: bool = True
    display_progress_bar: bool = False
    use_cloudpickle: bool = False
    cache_evaluation: bool = False
    raise_on_exception: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "GepaOptions":
        """The options; every keyword that has no meaning here is refused, with the reason."""
        problems = [
            Problem(where=name, message="burnish does not take this", remedy=_UNUSED[name])
            for name, value in options.items()
            if name in _UNUSED and value not in (None, False)
        ]
        taken = {name: value for name, value in options.items() if name not in _UNUSED}
        try:
            made = cls(**taken)
        except ValidationError as error:
            for each in error.errors():
                where = ".".join(map(str, each["loc"]))
                problems.append(Problem(where=where, message=each["msg"]))
            made = cls()
        if problems:
            raise ConfigError(problems)
        return made

    def search(self) -> ReflectiveSettings:
        return ReflectiveSettings(
            parent_selection=self.candidate_selection_strategy,
            field_selection=self.module_selector,
            minibatch=self.reflection_minibatch_size or 3,
            perfect_score=self.perfect_score,
            skip_perfect=self.skip_perfect_score,
            merge=self.use_merge,
            max_merges=self.max_merge_invocations,
            merge_overlap=self.merge_val_overlap_floor,
        )

    def tracking(self) -> TrackingSpec:
        project = self.mlflow_experiment_name or self.wandb_init_kwargs.get("project")
        names = ("mlflow", self.use_mlflow), ("wandb", self.use_wandb)
        to = [name for name, used in names if used]
        return TrackingSpec.model_validate(
            {"to": to, "uri": self.mlflow_tracking_uri, "project": project}
        )

    @property
    def stoppers(self) -> list[Callable[..., bool]]:
        stoppers: Any = self.stop_callbacks or ()
        return [cast("Callable[..., bool]", stoppers)] if callable(stoppers) else [*stoppers]


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


_FENCED = re.compile(r"```[^\n`]*\n(.*)```", re.DOTALL)
_PROMPT = """\
An assistant follows this text:

```
<curr_param>
```

These are some of its tasks, what it did, and what is to be said about that:

<side_info>

Find out what the text lacks, or says wrongly, that would have led to better results, in these and
in similar tasks. Then write the whole new text between two lines of three backticks.
"""


class AdapterRequest(ReflectRequest):
    """What a proposer is asked: the reflective dataset of one component."""

    candidate: Texts
    dataset: list[dict[str, Any]]


class AdapterProposer(Proposer):
    """Shows the records that the adapter made of each case."""

    def _request(self, attempt: ReflectiveAttempt, name: str, records: str) -> ReflectRequest:
        plain = super()._request(attempt, name, records)
        dataset: list[dict[str, Any]] = []
        for result in attempt.before.results if attempt.before else ():
            data = result.outcome.data
            made = cast("dict[str, Any]", data).get("records") if isinstance(data, dict) else None
            dataset += [dict(record) for record in made[name]] if made else []
        texts = {key: str(value) for key, value in attempt.parent.values.items()}
        shown: dict[str, Any] = {"records": _spelled(dataset)} if dataset else {}
        return AdapterRequest(**{**plain.model_dump(), **shown}, candidate=texts, dataset=dataset)

    def _other_records(self, parent: Candidate, shown: Sequence[CaseResult]) -> str:
        """None: the adapter decides what is shown."""
        del parent, shown
        return ""


def _spelled(dataset: Sequence[Mapping[str, Any]]) -> str:
    """Records as text, with their keys as headings."""
    lines: list[str] = []
    for number, record in enumerate(dataset, 1):
        lines.append(f"# Example {number}")
        for key, value in record.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines += [f"## {key}", text]
    return "\n".join(lines)


_Answer: TypeAlias = Callable[[AdapterRequest, int, Effects], Awaitable[str]]


@dataclass(frozen=True, kw_only=True)
class _TextRole:
    """A role that answers with a text: a custom proposer, or a model with a prompt of gepa."""

    made_by: Json
    """What distinguishes it from others."""
    text: _Answer
    leaf: bool = True
    priced: bool = False
    name: str = ROLE

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, self.made_by])

    @property
    def answers(self) -> Codec[Reflection]:
        return codec(Reflection)

    def estimate(self, request: ReflectRequest, /) -> Spend:
        del request
        return Spend(calls=1, unpriced=1)

    def encode(self, request: ReflectRequest, /) -> Json:
        return cast("Json", request.model_dump(mode="json"))

    async def answer(
        self, request: ReflectRequest, /, *, draw: int, effects: Effects
    ) -> Receipt[Reflection]:
        assert isinstance(request, AdapterRequest)
        try:
            text = await self.text(request, draw, effects)
        except BurnishError:
            raise
        except Exception as error:
            raise RoleFailed(f"the proposer raised {type(error).__name__}: {error}") from error
        new = Reflection(diagnosis="by the user's own proposer", new_text=text)
        return Receipt(value=new, spend=self.estimate(request) if self.leaf else NOTHING)


def reflector_for(
    adapter: Any, options: GepaOptions, models: Models
) -> Role[ReflectRequest, Reflection]:
    """The role that rewrites texts, as the options say."""
    own = options.custom_candidate_proposer or getattr(adapter, "propose_new_texts", None)
    if own is not None:
        return _TextRole(made_by=origin_of(own), text=_proposed(own))
    lm: Any = options.reflection_lm
    template = options.reflection_prompt_template
    if callable(lm):
        function = cast("Callable[[str], str]", lm)
        return _TextRole(
            made_by=[origin_of(lm), plain(template)], text=_answered(function, template)
        )
    if lm is None:
        remedy = "pass reflection_lm, custom_candidate_proposer or adapter.propose_new_texts"
        problem = Problem(where="reflection_lm", message="nobody writes new texts", remedy=remedy)
        raise ConfigError([problem])
    prompt = in_force(ROLE, Path.cwd())
    settings = _settings(options.reflection_lm_kwargs or {})
    ref = ModelRef.parse(str(lm), settings=settings)
    client = models.client(ref, prompt.settings, role=ROLE)
    client.check()
    if template is None:
        return reflector(client, prompt)
    made = [client.fingerprint, plain(template)]
    return _TextRole(made_by=made, text=_asked(client, template), leaf=False, priced=client.priced)


def _settings(options: Mapping[str, Any]) -> ModelSettings:
    known = [each.name for each in dataclasses.fields(ModelSettings)]
    problems = [
        Problem(where="reflection_lm_kwargs", message=f"there is no setting '{name}'")
        for name in options
        if name not in known
    ]
    if problems:
        raise ConfigError(problems, remedy=f"there are: {', '.join(known)}")
    return ModelSettings(**options)


def _proposed(proposer: Callable[..., Any]) -> _Answer:
    async def text(request: AdapterRequest, draw: int, effects: Effects) -> str:
        del draw, effects
        name = request.field
        new = await in_thread(
            lambda: proposer(dict(request.candidate), {name: request.dataset}, [name])
        )
        if not isinstance(new.get(name), str):
            raise RoleFailed(f"the proposer gave no new text for '{name}'")
        return new[name]

    return text


def _answered(lm: Callable[[str], str], template: str | Mapping[str, str] | None) -> _Answer:
    async def text(request: AdapterRequest, draw: int, effects: Effects) -> str:
        del draw, effects
        return _between_fences(await in_thread(lambda: lm(_filled(template, request))))

    return text


def _asked(client: ModelClient, template: str | Mapping[str, str]) -> _Answer:
    async def text(request: AdapterRequest, draw: int, effects: Effects) -> str:
        message = Message(role="user", content=_filled(template, request))
        try:
            answer = await client.ask(ChatRequest(messages=(message,)), draw=draw, effects=effects)
        except (ModelUnavailable, ModelRejected) as error:
            missing = isinstance(error, ModelUnavailable)
            raise RoleFailed(f"{ROLE} could not be asked: {error}", missing=missing) from error
        return _between_fences(answer.reply.text)

    return text


def _filled(template: str | Mapping[str, str] | None, request: AdapterRequest) -> str:
    """The prompt: the template of gepa's user, which may be one for each text, or our own."""
    chosen = template.get(request.field) if isinstance(template, Mapping) else template
    parts = {"<curr_param>": request.current_text, "<side_info>": request.records}
    return re.sub("<curr_param>|<side_info>", lambda found: parts[found[0]], chosen or _PROMPT)


def _between_fences(answer: str) -> str:
    """The text between the first and the last line of backticks; all of it if there are none."""
    found = _FENCED.search(answer)
    return (found[1] if found else answer).strip()
