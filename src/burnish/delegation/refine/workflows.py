"""The workflow that a run is refined with: the one it was made with, or a plain one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, SeedRefused
from burnish.delegation.refine.gradients import mapping, text
from burnish.delegation.refine.seeds import ModelPair, Seed, reference_of, tier_of
from burnish.delegation.refine.settings import RefineSettings
from burnish.delegation.team import Team, Workflow, workflow_document
from burnish.delegation.workflow_spec import WorkflowOverrides
from burnish.projects.dialects import Document
from burnish.system import write_atomic

_PLAIN = "workflow.yaml"
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


def find_workflow(
    seed: Seed, settings: RefineSettings, folder: Path
) -> tuple[Document, RefineSettings]:
    """The file that was named, else the seed's, else a plain one that is written to `folder`.

    The settings say which of them it is.
    """
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
    """A workflow whose workers change from iteration to iteration, and whose graders do not.

    Losses can only be compared when the same critic and the same judges gave them.
    """

    team: Team
    overrides: WorkflowOverrides
    settings: RefineSettings
    base: Workflow
    """As the file has it."""

    @classmethod
    def of(cls, team: Team, settings: RefineSettings) -> "RefineWorkflow":
        """The workflow of a description; raises ConfigError with everything that is wrong."""
        overrides = WorkflowOverrides.model_validate(settings.made_with)
        base = team.workflow(overrides)
        named = settings.model or settings.worker_model or settings.named_tiers
        if named and not team.has_models:
            message = "this workflow runs a program: no model can be named for it"
            remedy = "leave the flag out, or name a workflow with models: --workflow FILE"
            raise ConfigError([Problem(message=message, remedy=remedy)])
        return cls(team=team, overrides=overrides, settings=settings, base=base)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the losses should know of the workflow itself."""
        return _PLAIN_NOTES[: 2 if self.base.metrics else 1] if self.settings.plain else ()

    def made(self, models: ModelPair) -> Workflow:
        """The workflow of one iteration."""
        named, own = {"manager": models.manager, "worker": models.worker}, self.base.models
        # What it has already is left: the file may say more of it than its name.
        other = {role: name for role, name in named.items() if name and name != own.get(role)}
        if not other:
            return self.base
        made = self.team.workflow(self.overrides.model_copy(update=other))
        return replace(made, critic=self.base.critic, metrics=self.base.metrics)

    @property
    def usual_tiers(self) -> dict[str, ModelPair]:
        """Those that the workflow file names."""
        return {
            name: ModelPair(manager=tier.manager, worker=tier.worker)
            for name, tier in self.team.tiers.items()
        }

    def comparable(self, seed: Seed) -> Seed:
        """The seed by the signals that the workflow can give too; the others are neutral for both.

        Otherwise a seed would be beaten, or could never be, by a score that nobody gives any more.
        """
        signals, own = seed.signals, self.base.models
        # Where a user named the file, its models are meant and not the seed's.
        models = (
            _seed_models(seed)
            if self.settings.workflow is None
            else ModelPair(manager=own.get("manager", ""), worker=own.get("worker", ""))
        )
        signals = replace(
            signals,
            eval_score=signals.eval_score if self.base.metrics else None,
            critique_score=signals.critique_score if self.base.critic else None,
        )
        return replace(seed, models=models, signals=signals)

    def iterations(self, seed: Seed) -> Iterator[tuple[str, Workflow]]:
        """The tier, where there is one, and the workflow of every iteration."""
        settings, inherited = self.settings, self.comparable(seed).models
        tiers = settings.tiers(self.usual_tiers)
        for k in range(1, settings.iterations + 1):
            if tiers.trivial:
                yield "", self.made(settings.models.or_else(inherited))
            else:
                pair = tiers.models(k, settings.iterations, inherited)
                yield tier_of(k, settings.iterations).value, self.made(pair)


def _seed_models(seed: Seed) -> ModelPair:
    """The seed's models as references; empty where they have no name here."""
    return ModelPair(
        manager=reference_of(seed.models.manager), worker=reference_of(seed.models.worker)
    )


def _plain(seed: Seed, settings: RefineSettings, folder: Path) -> Path:
    """A manager, a worker and a critic, as the seed had them, and nothing else."""
    own = _seed_models(seed)
    strongest = settings.tier_high.models if settings.tier_high else ModelPair()
    named = ModelPair() if settings.named_tiers else settings.models
    manager = named.manager or own.manager or strongest.manager
    worker = named.worker or own.worker or strongest.worker or manager
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
    path = folder / _PLAIN
    # JSON is YAML too.
    write_atomic(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    return path


def _why_unknown(seed: Seed) -> str:
    if seed.models.manager:
        return f"the seed's model '{seed.models.manager}' is not a reference that burnish knows"
    return f"run {seed.run_id} does not say which models it ran with"
