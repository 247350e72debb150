"""The run that is refined, its budget, and the models of each iteration."""

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from burnish.core.content import Json
from burnish.core.errors import FileTrouble, SeedRefused
from burnish.delegation.envelope import Envelope
from burnish.delegation.home import is_of_burnish
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
from burnish.delegation.result import ending_words
from burnish.models.references import split_reference


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


def _is_reference(reference: str) -> bool:
    return split_reference(reference) is not None


def reference_of(name: str) -> str:
    """Convert `openai/gpt-5`, as other systems write it, to `openai:gpt-5`; empty if unknown."""
    parts = split_reference(name)
    return f"{parts[0].name}:{parts[1]}" if parts is not None else ""


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
    command = f"`burnish delegate --resume {shlex.quote(str(folder))}`"
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
