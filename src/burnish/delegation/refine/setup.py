"""What a refinement is set up with: its settings, and the workflow of the run or a plain one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, SeedRefused
from burnish.delegation.refine.gradients import mapping, rows, text
from burnish.delegation.refine.loop import MOST_ITERATIONS
from burnish.delegation.refine.seeds import ModelPair, Seed, Tier, TierPlan, tier_of
from burnish.delegation.team import Team, Workflow, workflow_document
from burnish.delegation.workflow_spec import Metric, TaskSettings, WorkflowOverrides
from burnish.models.awp_endpoint import awp_model, awp_reference, has_awp_endpoint
from burnish.projects.dialects import Document
from burnish.system import write_atomic
from burnish.system.settings import Access, Door, Settings

MIXED = "refinement.mixed_body: tier_* set; ignoring legacy model/worker_model"
_WHO = Door(flag="*", panel="Who", metavar="MODEL", environment=False, http=Access.MODEL)
_PAIR = replace(_WHO, metavar="MANAGER:WORKER")

_PARSE = BeforeValidator(
    lambda value: vars(ModelPair.parse(value)) if isinstance(value, str) else value
)
_CLAMP = BeforeValidator(
    lambda value: min(MOST_ITERATIONS, max(1, value)) if isinstance(value, int) else value
)


class Pair(Settings):
    """The models of a tier; an empty name means the seed's model."""

    manager: str | None = ""
    worker: str | None = ""

    @property
    def models(self) -> ModelPair:
        return ModelPair(manager=self.manager or "", worker=self.worker or "")


class RefineSettings(TaskSettings):
    """How the result of a run is improved."""

    iterations: Annotated[
        int,
        _CLAMP,
        Field(ge=1, le=MOST_ITERATIONS),
        Door(flag="*", aliases=("-n",), panel="Options", environment=False, http=Access.LIMIT),
    ] = 3
    """Maximum number of iterations, from 1 to 10; default 3."""
    workflow: Annotated[
        str | None,
        Door(flag="*", panel="Options", metavar="FILE", paths=True, environment=False),
    ] = None
    """A workflow file; by default the one of the run."""
    allow_missing_files: Annotated[
        bool, Door(flag="*", panel="Options", environment=False, http=Access.CLIENT)
    ] = False
    """Let a result win that lacks a file which the seed delivers."""
    model: Annotated[str | None, _WHO] = None
    """The model that plans; by default the one of the run."""
    worker_model: Annotated[str | None, _WHO] = None
    """The model that works; by default the one of the run."""
    tier_low: Annotated[Pair | None, _PARSE, _PAIR] = None
    """Models of the first iterations."""
    tier_mid: Annotated[Pair | None, _PARSE, _PAIR] = None
    """Models of the middle iterations."""
    tier_high: Annotated[Pair | None, _PARSE, _PAIR] = None
    """Models of the last iterations."""
    run: Annotated[str, Door(file=False)] = ""
    """The folder of the run to refine; empty if it is the best run of a task."""
    task: Annotated[str, Door(file=False)] = ""
    """EXP:TASK to refine the best run of a task."""
    made_with: Annotated[dict[str, Json], Door(file=False)] = Field(default_factory=dict[str, Json])
    """What overrode the workflow file when the run was made."""
    plain: Annotated[bool, Door(file=False)] = False
    """Whether a plain workflow replaces that of the run, which is gone or unknown."""

    @property
    def named_tiers(self) -> dict[Tier, ModelPair]:
        pairs = {Tier.LOW: self.tier_low, Tier.MID: self.tier_mid, Tier.HIGH: self.tier_high}
        return {tier: pair.models for tier, pair in pairs.items() if pair is not None}

    @property
    def warnings(self) -> list[str]:
        return [MIXED] if self.named_tiers and (self.model or self.worker_model) else []

    def tiers(self, usual: Mapping[str, ModelPair]) -> TierPlan:
        """The tiers: the named ones, else the workflow's unless other models were named."""
        named = self.named_tiers
        if not named and (self.model or self.worker_model):
            return TierPlan()
        return TierPlan(pairs={**{Tier(name): pair for name, pair in usual.items()}, **named})

    @property
    def models(self) -> ModelPair:
        return ModelPair(manager=self.model or "", worker=self.worker_model or "")

    def to_json(self) -> dict[str, Json]:
        hidden = {"repeats", "run", "task", "made_with", "plain"}
        return self.model_dump(mode="json", exclude=hidden, exclude_none=True)


_AWP_METRICS: Json = [
    {"name": name, "kind": "deterministic_test", "weight": weight, "params": {"expr": expr}}
    for name, weight, expr in (
        ("has_result", 2.0, "result.length > 0"),
        ("confidence", 1.5, "result.confidence"),
        ("not_empty", 1.0, "files.count > 0 or result.length > 0"),
        ("efficiency", 0.5, "budget.remaining"),
    )
]
"""The metrics of awp-agents with their weights: mostly the model's own claims."""
_ZONES: Json = {"accept": 0.75, "retry": 0.45, "fail": 0.20}
_AWP_FILES = ("workflow.awp.yaml", "workflow.awp.yml", "workflow.yaml", "workflow.yml")
"""Names of the workflow file in a workspace of awp-agents."""
_PLAIN = "the workflow of this run is unknown or gone: a plain one replaces it"
_CLAIMS = "the metrics are those of awp-agents: mostly the model's claims about itself"
_OWN = "the metrics are those of the workflow file in the run's workspace"


def find_workflow(
    seed: Seed, settings: RefineSettings, folder: Path
) -> tuple[Document, RefineSettings]:
    """The named file, else the seed's, else a plain one written to `folder`; and the settings."""
    origin = mapping(seed.manifest.get("kept"))
    own = text(origin.get("file"))
    if settings.workflow is not None:
        return workflow_document(Path(settings.workflow).resolve()), settings
    if own and Path(own).is_file():
        overrides = dict(mapping(origin.get("overrides")))
        return workflow_document(Path(own)), settings.model_copy(update={"made_with": overrides})
    plain = workflow_document(_plain(seed, settings, folder))
    return plain, settings.model_copy(update={"plain": True})


@dataclass(frozen=True, kw_only=True)
class RefineWorkflow:
    """A workflow whose workers may change with each iteration, but not its graders.

    Losses are only comparable if the same critic and judges gave them.
    """

    team: Team
    overrides: WorkflowOverrides
    settings: RefineSettings
    base: Workflow

    @classmethod
    def of(cls, team: Team, settings: RefineSettings) -> "RefineWorkflow":
        """The workflow of a description; raises ConfigError with everything that is wrong."""
        overrides = WorkflowOverrides.model_validate(settings.made_with)
        base = team.workflow(overrides)
        named = settings.model or settings.worker_model or settings.named_tiers
        if named and team.spec.orchestration.command is not None:
            message = "this workflow runs a program: no model can be named for it"
            remedy = "omit the flag, or name a workflow with models: --workflow FILE"
            raise ConfigError([Problem(message=message, remedy=remedy)])
        return cls(team=team, overrides=overrides, settings=settings, base=base)

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.settings.plain:
            return ()
        usual = {text(metric["name"]) for metric in rows(_AWP_METRICS)}
        names = {metric.name for metric in self.base.metrics}
        return (_PLAIN, *([_CLAIMS if names <= usual else _OWN] if names else []))

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes with the settings' warnings and those of the workflow itself."""
        return (*self.settings.warnings, *self.notes, *self.base.notes())

    def for_models(self, models: ModelPair) -> Workflow:
        """The workflow of one iteration."""
        named, own = {"manager": models.manager, "worker": models.worker}, self.base.models
        # What it has already is left: the file may say more of it than its name.
        other = {
            role: name
            for role, name in named.items()
            if name and (awp_reference(name) or name) != own.get(role)
        }
        if not other:
            return self.base
        made = self.team.workflow(self.overrides.model_copy(update=other))
        return replace(made, critic=self.base.critic, metrics=self.base.metrics)

    @property
    def usual_tiers(self) -> dict[str, ModelPair]:
        return {
            name: ModelPair(manager=tier.manager, worker=tier.worker)
            for name, tier in self.team.tiers.items()
        }

    def comparable(self, seed: Seed) -> Seed:
        """The seed with only the signals that the workflow has too; others become neutral.

        Otherwise a score that is no longer given would decide the comparison.
        """
        signals, own = seed.signals, self.base.models
        # A named file means its own models; a plain one was written with those of the seed.
        models = (
            _seed_models(seed)
            if self.settings.workflow is None and not self.settings.plain
            else ModelPair(manager=own.get("manager", ""), worker=own.get("worker", ""))
        )
        signals = replace(
            signals,
            eval_score=signals.eval_score if self.base.metrics else None,
            critique_score=signals.critique_score if self.base.critic else None,
        )
        return replace(seed, models=models, signals=signals)

    def iterations(self, seed: Seed) -> Iterator[tuple[str, Workflow]]:
        """The tier, if there is one, and the workflow of every iteration."""
        settings, inherited = self.settings, self.comparable(seed).models
        tiers = settings.tiers(self.usual_tiers)
        for k in range(1, settings.iterations + 1):
            if tiers.trivial:
                yield "", self.for_models(settings.models.or_else(inherited))
            else:
                pair = tiers.models(k, settings.iterations, inherited)
                yield tier_of(k, settings.iterations).value, self.for_models(pair)


def _at_awp_endpoint(seed: Seed) -> bool:
    """Whether the models of a run are those of awp-agents' one endpoint."""
    return "kept" not in seed.manifest and has_awp_endpoint()


def _seed_models(seed: Seed) -> ModelPair:
    names = seed.models
    if _at_awp_endpoint(seed):
        own = [f"openai:{name}" if name else "" for name in (names.manager, names.worker)]
        return ModelPair(manager=own[0], worker=own[1])
    return ModelPair(manager=awp_reference(names.manager), worker=awp_reference(names.worker))


def _require_known(seed: Seed, named: ModelPair) -> None:
    """Refuse a seed whose models are unknown and not replaced: others would answer in silence."""
    own = _seed_models(seed)
    for role, flag in (("manager", "--model"), ("worker", "--worker-model")):
        name = getattr(seed.models, role)
        if name and not (getattr(own, role) or getattr(named, role)):
            raise SeedRefused(
                f"the seed's {role} '{name}' is not a reference that burnish knows",
                remedy=f"name the model with {flag}, such as openrouter:{name}, or a workflow with "
                "--workflow",
            )


def _workspace_metrics(seed: Seed) -> Json:
    """The metrics in the workflow file of the seed's workspace, as far as burnish knows them."""
    if seed.folder.parts[-3:-1] != ("workspace", "runs"):
        return []
    home = seed.folder.parents[2]
    file = next((home / name for name in _AWP_FILES if (home / name).is_file()), None)
    data = None if file is None else Document.read(file).tree.data
    evaluation = mapping(mapping(mapping(data).get("observability")).get("evaluation"))
    return [dict(metric) for metric in rows(evaluation.get("metrics")) if _is_known(metric)]


def _is_known(metric: Mapping[str, Json]) -> bool:
    try:
        TypeAdapter[Metric](Metric).validate_python(metric)
    except ValidationError:
        return False
    return True


def _plain(seed: Seed, settings: RefineSettings, folder: Path) -> Path:
    own = _seed_models(seed)
    strongest = settings.tier_high.models if settings.tier_high else ModelPair()
    named = ModelPair() if settings.named_tiers else settings.models
    manager = named.manager or own.manager or strongest.manager
    worker = named.worker or own.worker or strongest.worker or manager
    _require_known(seed, ModelPair(manager=manager, worker=named.worker or strongest.worker))
    if not manager:
        message = f"run {seed.run_id} does not say which models it ran with"
        remedy = "name models with --model and --worker-model, or a workflow with --workflow"
        raise SeedRefused(message, remedy=remedy)
    kept = set[str]() if _at_awp_endpoint(seed) else {own.manager, own.worker}
    models: Json = {
        role: name if name in kept else awp_model(name)
        for role, name in (("manager", manager), ("worker", worker))
    }
    data: dict[str, Json] = {
        "workflow": {"name": "refinement"},
        "orchestration": {"engine": "delegation_loop", "delegation_loop": {"models": models}},
    }
    metrics = _workspace_metrics(seed)
    if not metrics and seed.signals.eval_score is not None and "kept" not in seed.manifest:
        metrics = _AWP_METRICS
    if metrics:
        evaluation: Json = {"metrics": metrics, "thresholds": _ZONES}
        data["observability"] = {"evaluation": evaluation}
    path = folder / "workflow.yaml"
    # JSON is YAML too.
    write_atomic(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    return path
