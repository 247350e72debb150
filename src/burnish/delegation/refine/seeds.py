"""The run that is refined, its budget and models, and how it is graded as the iterations are."""

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from burnish.core.content import Json, short_id
from burnish.core.errors import FileTrouble, RoleFailed, SeedRefused, in_shell
from burnish.core.money import Spend, total
from burnish.delegation.answers import Defect, WorkerResult
from burnish.delegation.delegation import Delegation, Site, work_context
from burnish.delegation.envelope import Envelope
from burnish.delegation.evaluation import DelegationJudge, DelegationMetric, Final, measure
from burnish.delegation.manager import critique_request
from burnish.delegation.record import is_of_burnish
from burnish.delegation.refine.gradients import (
    COMPLETION,
    MANIFEST,
    RunGradient,
    RunSignals,
    gradient_of,
    mapping,
    number,
    read_json,
    run_id_in,
    run_signals,
    text,
)
from burnish.delegation.refine.sessions import digests
from burnish.delegation.result import RUBRIC, ending_words
from burnish.delegation.team import Workflow
from burnish.delegation.workers import JobOutcome, WorkContext, WorkerJob
from burnish.journal.once import NamedScope
from burnish.models.awp_endpoint import awp_reference
from burnish.system.workspaces import shown
from burnish.targets.artifacts.task import finished


class Tier(StrEnum):
    """How strong the models of an iteration are."""

    LOW = "low"
    MID = "mid"
    HIGH = "high"


@dataclass(frozen=True, kw_only=True)
class ModelPair:
    """The models of a delegation; an empty name means the seed's model."""

    manager: str = ""
    worker: str = ""

    @classmethod
    def parse(cls, names: str) -> "ModelPair":
        """`manager:worker`, where either side may be empty; a single name is the manager's.

        Names of models contain colons, so it is split where both sides are references, or else
        at the first colon.
        """
        places = [place for place, char in enumerate(names) if char == ":"]
        for place in places:
            manager, worker = names[:place].strip(), names[place + 1 :].strip()
            if (not manager or _is_reference(manager)) and (not worker or _is_reference(worker)):
                return cls(manager=manager, worker=worker)
        if _is_reference(names.strip()):
            return cls(manager=names.strip())
        manager, _, worker = names.partition(":")
        return cls(manager=manager.strip(), worker=worker.strip())

    def or_else(self, seed: "ModelPair") -> "ModelPair":
        """This pair, with the seed's models for empty names."""
        return ModelPair(manager=self.manager or seed.manager, worker=self.worker or seed.worker)


@dataclass(frozen=True, kw_only=True)
class TierPlan:
    """A pair of models for each tier."""

    pairs: Mapping[Tier, ModelPair] = field(default_factory=dict[Tier, ModelPair])

    @property
    def trivial(self) -> bool:
        """Whether it is empty, so that every iteration uses the seed's models."""
        return all(pair == ModelPair() for pair in self.pairs.values())

    def models(self, k: int, n: int, seed: ModelPair) -> ModelPair:
        """The models of iteration `k` of `n`."""
        return self.pairs.get(tier_of(k, n), ModelPair()).or_else(seed)


def tier_of(k: int, n: int) -> Tier:
    """The tier of iteration `k` of `n`: thirds, the low one never the smallest."""
    if n < 1 or not 1 <= k <= n:
        raise ValueError(f"there is no iteration {k} of {n}")
    if n <= 2:
        return Tier.HIGH if k == n else Tier.LOW
    if k <= math.ceil(n / 3):
        return Tier.LOW
    return Tier.HIGH if k >= n - n // 3 + 1 else Tier.MID


def _is_reference(name: str) -> bool:
    return bool(awp_reference(name))


@dataclass(frozen=True, kw_only=True)
class SeedBudget:
    """The budget of the seed, and how long it took."""

    envelope: Envelope
    seconds: float = 0.0
    """As observed; 0 if unknown."""


_LEAST_LOOPS = 3
"""A task takes three loops: plan, delegate, complete."""


def halved(seed: SeedBudget) -> Envelope:
    """The envelope of an iteration: half of the seed's, but room for one task and all its depth."""
    caps = seed.envelope
    seconds = seed.seconds or caps.max_wall_time
    return replace(
        caps,
        max_loops=max(_LEAST_LOOPS, math.ceil(caps.max_loops / 2)),
        max_total_workers=math.ceil(caps.max_total_workers / 2),
        max_tool_calls=math.ceil(caps.max_tool_calls / 2),
        max_total_tokens=max(1, caps.max_total_tokens // 2),
        max_wall_time=float(max(60, int(seconds / 2))),
    )


def _inputs_of(run: Path, manifest: Mapping[str, Json], deliverable: Path) -> tuple[Path, ...]:
    """The input files that still exist, without those that the deliverable replaces."""
    taken = {path.name for path in deliverable.iterdir()}
    inputs: dict[str, Path] = {}
    for path in _input_paths(run, manifest):
        if path.name not in taken and path.exists():
            inputs.setdefault(path.name, path)
    return tuple(inputs.values())


def _input_paths(run: Path, manifest: Mapping[str, Json]) -> Iterator[Path]:
    """The run's own workspace first, since other files may have changed."""
    inputs = mapping(manifest.get("kept")).get("inputs")
    for entry in inputs if isinstance(inputs, list) else []:
        path = Path(str(entry))
        yield run / "workspace" / "input" / path.name
        yield path
    if run.parts[-3:-1] == ("workspace", "runs"):
        place = run.parent.parent / "inputs"
        yield from sorted(place.iterdir()) if place.is_dir() else ()


_CAPS = {
    "max_loops": ("loops", "max"),
    "max_total_workers": ("workers", "max"),
    "max_total_tokens": ("tokens", "max"),
    "max_tool_calls": ("tool_calls", "max"),
    "max_wall_time": ("wall_time", "max_s"),
}
_USUAL = Envelope(
    max_loops=20,
    max_total_workers=20,
    max_total_tokens=1_000_000,
    max_wall_time=3600,
    max_depth=4,
    max_tool_calls=600,
)
WHOLE_BUDGET = "whole_budget"
"""The key in an iteration's manifest for the seed's whole budget."""


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A finished run."""

    folder: Path
    run_id: str
    task: str
    budget: SeedBudget
    models: ModelPair
    deliverable: Path
    inputs: tuple[Path, ...]
    """Its input files and folders."""
    signals: RunSignals
    gradient: RunGradient
    tags: tuple[str, ...] = ()
    manifest: Mapping[str, Json]
    """What the run was started with, as far as it is known."""

    @property
    def loss(self) -> float:
        return self.signals.loss.total


def read_seed(folder: Path) -> Seed:
    """Read a run; raises SeedRefused if it cannot be refined."""
    if not folder.is_dir():
        remedy = "name the folder of a finished run"
        raise SeedRefused(f"there is no run in {folder}", remedy=remedy)
    try:
        return _read(folder.resolve())
    except FileTrouble as error:
        raise SeedRefused(error.message, remedy=error.remedy) from error


def _read(folder: Path) -> Seed:
    completion, manifest = _completion(folder), mapping(read_json(folder / MANIFEST))
    task = text(completion.get("task")) or text(manifest.get("task"))
    if not task.strip():
        raise SeedRefused(
            f"{folder / COMPLETION} does not contain the task",
            remedy='add "task" to it: the text that the run was started with',
        )
    run_id = run_id_in(completion, folder)
    signals, deliverable = run_signals(folder), _deliverable(folder, run_id, completion)
    tags = completion.get("tags")
    return Seed(
        folder=folder,
        run_id=run_id,
        task=task,
        budget=_budget(completion, manifest),
        models=_models(completion, manifest),
        deliverable=deliverable,
        inputs=_inputs_of(folder, manifest, deliverable),
        signals=signals,
        gradient=gradient_of(folder, loss=signals.loss.total),
        tags=tuple(map(text, tags)) if isinstance(tags, list) else (),
        manifest=manifest,
    )


def _completion(folder: Path) -> Mapping[str, Json]:
    completion = read_json(folder / COMPLETION)
    command = f"`burnish delegate --resume {in_shell(folder)}`"
    if completion is not None and not isinstance(completion, dict):
        message = f"{folder / COMPLETION} is not an object, so it says nothing about a run"
        raise SeedRefused(message, remedy="write the object that describes the run at its root")
    if completion is None:
        remedy = "name the folder of a finished run"
        if is_of_burnish(folder):
            remedy = f"it was killed: {command} resumes it"
        raise SeedRefused(f"{folder} has no {COMPLETION}", remedy=remedy)
    if completion.get("status") == "aborted":
        message = f"the run in {folder} was interrupted"
        raise SeedRefused(message, remedy=f"resume it first: {command}")
    return completion


def _deliverable(folder: Path, run_id: str, completion: Mapping[str, Json]) -> Path:
    deliverable = deliverable_of(folder, run_id)
    if deliverable is None and is_of_burnish(folder) and completion.get("deliverables") == []:
        how = f"{text(completion.get('status'))}: {ending_words(text(completion.get('reason')))}"
        raise SeedRefused(
            f"run {run_id} delivered nothing ({how})",
            remedy=f"run its task again first; {folder / 'RUN_SUMMARY.md'} says what happened",
        )
    if deliverable is None:
        places = ", ".join(map(str, dict.fromkeys(_places(folder, run_id))))
        raise SeedRefused(
            f"run {run_id} has no deliverable", remedy=f"burnish looked for its files in {places}"
        )
    return deliverable


def deliverable_of(folder: Path, run_id: str) -> Path | None:
    """The folder with what a run delivered; None if there is none with a file."""
    for place in _places(folder, run_id):
        if place.is_dir() and any(path.is_file() for path in place.rglob("*")):
            return place
    return None


def _places(folder: Path, run_id: str) -> Iterator[Path]:
    """FINAL in the run, then the output folders of the run or of its workspace."""
    yield folder / "FINAL"
    yield folder / "output" / "FINAL"
    yield folder / "output" / run_id
    if folder.parts[-3:-1] == ("workspace", "runs"):
        output = folder.parents[2] / "output"
        if _is_of_run(output / "FINAL", output / run_id):
            yield output / "FINAL"
    for home in folder.parents[:3]:
        yield home / "output" / run_id


def _is_of_run(final: Path, made: Path) -> bool:
    """Whether the run made the files of FINAL, which all runs of a workspace share."""
    if not final.is_dir() or not made.is_dir():
        return final.is_dir()
    own = {(Path(path).name, digest) for path, digest in digests(made).items()}
    return all((Path(path).name, digest) in own for path, digest in digests(final).items())


def _budget(completion: Mapping[str, Json], manifest: Mapping[str, Json]) -> SeedBudget:
    """The limits that the run was started with, else those at its end, in either of two formats."""
    final, flat = mapping(completion.get("final_budget")), mapping(completion.get("budget"))
    # An iteration of a refinement has half of its seed's; refined again, it is not halved twice.
    whole = mapping(mapping(manifest.get("kept")).get(WHOLE_BUDGET))
    started = {**mapping(manifest.get("budget")), **whole}
    limits: dict[str, Any] = {}
    for name in vars(_USUAL):
        outer, inner = _CAPS.get(name, ("", ""))
        nested = mapping(final.get(outer)).get(inner)
        stated = (started.get(name), nested, final.get(name), flat.get(name), completion.get(name))
        for value in map(number, stated):
            if value and value > 0:
                limits[name] = value if name == "max_wall_time" else max(1, int(value))
                break
    times = (
        mapping(final.get("wall_time")).get("elapsed_s"),
        final.get("observed_wall_time"),
        flat.get("observed_wall_time"),
        completion.get("wall_time"),
    )
    seconds = next((value for each in times if (value := number(each))), 0.0)
    return SeedBudget(envelope=replace(_USUAL, **limits), seconds=seconds)


def _models(completion: Mapping[str, Json], manifest: Mapping[str, Json]) -> ModelPair:
    for models in (mapping(manifest.get("models")), mapping(completion.get("models"))):
        if models:
            return ModelPair(manager=text(models.get("manager")), worker=text(models.get("worker")))
    return ModelPair(
        manager=text(completion.get("model")), worker=text(completion.get("worker_model"))
    )


_USED = {
    "max_loops": ("loops", "used"),
    "max_total_workers": ("workers", "spawned"),
    "max_total_tokens": ("tokens", "consumed"),
    "max_tool_calls": ("tool_calls", "used"),
    "max_wall_time": ("wall_time", "elapsed_s"),
}


@dataclass(frozen=True, kw_only=True)
class Grade:
    """What the metrics and the critic say of one deliverable."""

    scores: Mapping[str, float]
    """By metric; those without a score are missing."""
    critique: float | None


@dataclass(frozen=True, kw_only=True)
class Ruler:
    """Grades a deliverable by the files alone, and by what the seed reported too."""

    delegation: Delegation
    metrics: tuple[DelegationMetric, ...]
    """Those that can be measured on both sides."""
    left_out: tuple[str, ...]
    """The names of the others."""
    reports: bool
    """Whether the seed reported a result, so that judges may see those of the iterations."""

    @property
    def id(self) -> str:
        """A hash of the graders: losses under another one are not comparable."""
        inputs, delegation = self.delegation.workflow.inputs(), self.delegation
        names: list[Json] = [each.name for each in self.metrics]
        rubric = delegation.policy[RUBRIC]
        return short_id([inputs["critic"], inputs["checks"], rubric, names, self.reports])

    @property
    def cost(self) -> Spend:
        """What it costs to grade one deliverable: the critic and the judges among the metrics."""
        critic = self.delegation.workflow.critic
        roles = [] if critic is None else [critic.role.client]
        roles += [each.role.client for each in self.metrics if isinstance(each, DelegationJudge)]
        return total(client.estimate() for client in roles)

    async def grade(self, name: str, run: Path, deliverable: Path, site: Site) -> Grade:
        """Grade what a run delivered, in a workspace of its own."""
        delegation = self.delegation.redacted(site.redactor)
        workflow = delegation.workflow
        scope = NamedScope(site.effects, f"grade {name}")
        context = work_context(workflow, site, delegation.policy, scope, {})
        workspace = context.workspace

        async def fill() -> Json:
            await finished(delegation.starting_files.fill, workspace.folder)
            return None

        async def deliver() -> Json:
            await finished(_copy_into, deliverable, workspace.folder)
            return None

        await workspace.step("begin", {"grade": name}, fill)
        origin = workspace.state
        await workspace.step("deliver", {"grade": name}, deliver)
        completion = mapping(read_json(run / COMPLETION))
        result = text(completion.get("result")) if self.reports else ""
        critique, defects = await _critique(delegation, context, origin, result)
        files = {shown(path): workspace.read(path) for path in workspace.changed_since(origin)}
        final = Final(
            task=delegation.task,
            result=result,
            confidence=number(completion.get("confidence")),
            files=files,
            declared=tuple(files),
            defects=defects,
            remaining=1.0,
            draw=1,
        )
        evaluated = await measure(self.metrics, final, context, workflow.zones)
        await workspace.clear()
        return Grade(scores=evaluated.per_metric, critique=critique)

    def signals(self, own: RunSignals, grade: Grade, seed: Grade) -> RunSignals:
        """The signals of a run under this ruler: only what the seed has, too."""
        weights = {each.name: each.weight for each in self.metrics if each.name in seed.scores}
        complete = bool(weights) and weights.keys() <= grade.scores.keys()
        weighted = [grade.scores[name] * weights[name] for name in weights] if complete else []
        score = math.fsum(weighted) / math.fsum(weights.values()) if complete else None
        critique = None if seed.critique is None else grade.critique
        return replace(own, eval_score=score, critique_score=critique)


async def _critique(
    delegation: Delegation, context: WorkContext, origin: str, result: str
) -> tuple[float | None, tuple[Defect, ...]]:
    """The critic's score of all files, as if one worker had made them in one go."""
    critic, task = delegation.workflow.critic, delegation.task
    if critic is None:
        return None, ()
    job = WorkerJob(worker_id="graded", task=task, instructions=task, iteration=1)
    report = WorkerResult(summary="delivered", result=result)
    outcome = JobOutcome(result=report, before=origin, after=context.workspace.state)
    request = critique_request(job, outcome, context)
    try:
        answer = await critic.critique(request, draw=job.draw, effects=context.effects)
    except RoleFailed:
        return None, ()
    return answer.score, tuple(answer.defects)


def ruler_for(seed: Seed, delegation: Delegation) -> Ruler | None:
    """The ruler of a refinement; None if the seed was graded just as its iterations will be."""
    workflow, completion = delegation.workflow, mapping(read_json(seed.folder / COMPLETION))
    reports = bool(text(completion.get("result")))
    known = {"result.text", "result.length"} if reports else set[str]()
    known |= set() if number(completion.get("confidence")) is None else {"result.confidence"}
    metrics = tuple(each for each in workflow.metrics if each.reads <= known)
    if metrics == workflow.metrics and _graded_alike(seed, workflow, completion):
        return None
    left_out = tuple(each.name for each in workflow.metrics if each not in metrics)
    return Ruler(delegation=delegation, metrics=metrics, left_out=left_out, reports=reports)


def _graded_alike(seed: Seed, workflow: Workflow, completion: Mapping[str, Json]) -> bool:
    """Whether the same critic and metrics graded the seed, and left nothing out."""
    before, now = mapping(seed.manifest.get("inputs")), workflow.inputs()
    same = all(before.get(name) == now[name] for name in ("critic", "checks"))
    signals = seed.signals
    scored = not workflow.metrics or signals.eval_score is not None
    scored &= workflow.critic is None or signals.critique_score is not None
    return same and scored and not mapping(completion.get("evaluation")).get("missing")


def share_left(run: Path, whole: Envelope) -> float | None:
    """How much of the seed's whole budget a run left, whatever its own budget was."""
    budget = mapping(mapping(read_json(run / COMPLETION)).get("final_budget"))
    shares: list[float] = []
    for limit, (outer, inner) in _USED.items():
        used = number(mapping(budget.get(outer)).get(inner))
        shares += [] if used is None else [1 - used / getattr(whole, limit)]
    return max(0.0, min(shares)) if shares else None


def _copy_into(deliverable: Path, folder: Path) -> None:
    shutil.copytree(deliverable, folder, dirs_exist_ok=True, ignore_dangling_symlinks=True)
