"""The workflow that a run is refined with: the one it was made with, or a plain one."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, SeedRefused
from burnish.models.providers import find_provider
from burnish.projects.delegation.loading import LoadedWorkflow
from burnish.projects.delegation.overrides import WorkflowOverrides
from burnish.projects.refining.settings import RefineSettings
from burnish.strategies.refine.run_files import mapping, text
from burnish.strategies.refine.seeds import Seed
from burnish.strategies.refine.tiers import ModelPair
from burnish.system import write_atomic
from burnish.targets.delegation.workflow import Workflow

Loading: TypeAlias = Callable[[Path, WorkflowOverrides], LoadedWorkflow]
PLAIN = "workflow.yaml"
"""The file of the plain workflow, in the folder of the sessions."""
_AWP_METRICS: Json = [
    {"name": name, "kind": "deterministic_test", "weight": weight, "params": {"expr": expr}}
    for name, weight, expr in (
        ("has_result", 2.0, "result.length > 0"),
        ("confidence", 1.5, "result.confidence"),
        ("not_empty", 1.0, "files.count > 0 or result.length > 0"),
        ("efficiency", 0.5, "budget.remaining"),
    )
]
"""What awp-agents measures every run by, with its weights: mostly the model's own word."""
_PLAIN_NOTES = (
    "the workflow of this run is not known, or gone: a plain one takes its place",
    "the metrics are those of awp-agents: mostly what the model says of itself",
)
_AWP_ZONES: Json = {"accept": 0.75, "retry": 0.45, "fail": 0.20}


@dataclass(frozen=True, kw_only=True)
class RefineWorkflow:
    """A workflow whose workers change from iteration to iteration, and whose graders do not.

    Losses can only be compared when the same critic and the same judges gave them.
    """

    loaded: LoadedWorkflow
    kept: Mapping[str, Json]
    """What the manifests of the iterations keep, so that they can be refined in their turn."""
    notes: tuple[str, ...] = ()
    named: bool = False
    """Whether a user named the file: then its models are meant, and not the seed's."""

    @property
    def models(self) -> ModelPair:
        """Those that the file itself names."""
        told = self.loaded.workflow.models
        return ModelPair(manager=told.get("manager", ""), worker=told.get("worker", ""))

    def made(self, models: ModelPair) -> Workflow:
        """The workflow of one iteration."""
        base = self.loaded.workflow
        manager = _other(models.manager, base.models.get("manager", ""))
        worker = _other(models.worker, base.models.get("worker", ""))
        if not manager and not worker:
            return base
        made = self.loaded.with_models(manager=manager, worker=worker)
        return replace(made, critic=base.critic, metrics=base.metrics)

    @property
    def usual_tiers(self) -> dict[str, ModelPair]:
        """Those that the workflow file names."""
        return {
            name: ModelPair(manager=tier.manager, worker=tier.worker)
            for name, tier in self.loaded.tiers.items()
        }

    @property
    def has_models(self) -> bool:
        """Whether models work here, and not a program."""
        return self.loaded.block.orchestration.command is None


def find_workflow(
    seed: Seed, settings: RefineSettings, folder: Path, load: Loading
) -> RefineWorkflow:
    """The file that was named, else the seed's, else a plain one that is written to `folder`."""
    kept = mapping(seed.manifest.get("kept"))
    own = text(kept.get("file"))
    if settings.workflow is not None:
        found = _read(Path(settings.workflow).resolve(), WorkflowOverrides(), load)
        found = replace(found, named=True)
    elif own and Path(own).is_file():
        told = WorkflowOverrides.model_validate(dict(mapping(kept.get("overrides"))))
        found = _read(Path(own), told, load)
    else:
        found = _read(_plain(seed, settings, folder), WorkflowOverrides(), load)
        found = replace(found, notes=_PLAIN_NOTES[: 2 if found.loaded.workflow.metrics else 1])
    named = settings.model or settings.worker_model or settings.given_tiers
    if named and not found.has_models:
        told = "this workflow runs a program: no model can be named for it"
        remedy = "leave the flag out, or name a workflow with models: --workflow FILE"
        raise ConfigError([Problem(message=told, remedy=remedy)])
    return found


def comparable(seed: Seed, refined: RefineWorkflow) -> Seed:
    """The seed by the signals that the workflow can give too; what it cannot is neutral for both.

    Otherwise a seed would be beaten, or could never be, by a score that nobody gives any more.
    """
    signals, workflow = seed.signals, refined.loaded.workflow
    told = replace(
        signals,
        eval_score=signals.eval_score if workflow.metrics else None,
        critique_score=signals.critique_score if workflow.critic else None,
    )
    models = refined.models if refined.named else known_models(seed)
    return replace(seed, models=models, signals=told)


def known_models(seed: Seed) -> ModelPair:
    """The seed's models as references; empty where they have no name here."""
    return ModelPair(
        manager=reference_of(seed.models.manager), worker=reference_of(seed.models.worker)
    )


def _read(path: Path, overrides: WorkflowOverrides, load: Loading) -> RefineWorkflow:
    kept: dict[str, Json] = {"file": str(path), "overrides": overrides.to_json()}
    return RefineWorkflow(loaded=load(path, overrides), kept=kept)


def _plain(seed: Seed, settings: RefineSettings, folder: Path) -> Path:
    """A manager, a worker and a critic, as the seed had them, and nothing else."""
    known = known_models(seed)
    strongest = settings.tier_high.models if settings.tier_high else ModelPair()
    named = ModelPair() if settings.given_tiers else settings.models
    manager = named.manager or known.manager or strongest.manager
    worker = named.worker or known.worker or strongest.worker or manager
    if not manager:
        raise SeedRefused(
            _why_unknown(seed),
            remedy="name models with --model and --worker-model, or a workflow with --workflow",
        )
    models: Json = {"manager": manager, "worker": worker}
    data: dict[str, Json] = {
        "workflow": {"name": "refinement"},
        "orchestration": {"engine": "delegation_loop", "delegation_loop": {"models": models}},
    }
    if seed.signals.eval_score is not None and "kept" not in seed.manifest:
        evaluation: Json = {"metrics": _AWP_METRICS, "thresholds": _AWP_ZONES}
        data["observability"] = {"evaluation": evaluation}
    path = folder / PLAIN
    # JSON is YAML too.
    write_atomic(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    return path


def _why_unknown(seed: Seed) -> str:
    if seed.models.manager:
        return f"the seed's model '{seed.models.manager}' is not a reference that burnish knows"
    return f"run {seed.run_id} does not say which models it ran with"


def reference_of(told: str) -> str:
    """`openai/gpt-5` as other systems write it is `openai:gpt-5` here."""
    provider, colon, _ = told.partition(":")
    if colon and find_provider(provider) is not None:
        return told
    provider, slash, name = told.partition("/")
    row = find_provider(provider)
    return f"{row.name}:{name}" if slash and name and row is not None else ""


def _other(wanted: str, there: str) -> str:
    """Empty where it is what there is: the file may say more of it than its name."""
    return "" if wanted == there else wanted
