"""The run that is refined: its task, budget, models and deliverable, wherever its files lie."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import SeedRefused
from burnish.strategies.refine.budgets import SeedBudget
from burnish.strategies.refine.run_files import mapping, number, read_json, text
from burnish.strategies.refine.tiers import ModelPair
from burnish.targets.delegation.envelope import Envelope

COMPLETION = "run_completion.json"
_CAPS = {
    "max_loops": ("loops", "max"),
    "max_total_workers": ("workers", "max"),
    "max_total_tokens": ("tokens", "max"),
    "max_tool_calls": ("tool_calls", "max"),
    "max_wall_time": ("wall_time", "max_s"),
}
"""Where final_budget has each limit."""
_USUAL = Envelope(
    max_loops=20,
    max_total_workers=20,
    max_total_tokens=1_000_000,
    max_wall_time=3600,
    max_depth=4,
    max_tool_calls=600,
)
"""What is taken where a run does not say."""


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A finished run."""

    folder: Path
    run_id: str
    task: str
    status: str
    budget: SeedBudget
    models: ModelPair
    deliverable: Path
    """The folder with its files."""
    tags: tuple[str, ...] = ()


def read_seed(folder: Path) -> Seed:
    """Read a run; raises SeedRefused where it cannot be refined."""
    if not folder.is_dir():
        raise SeedRefused(
            f"there is no run in {folder}", remedy="name the folder of a finished run"
        )
    completion = read_json(folder / COMPLETION)
    if not isinstance(completion, dict):
        raise SeedRefused(
            f"{folder} has no {COMPLETION}",
            remedy="only a run that has ended can be refined; resume it first if it was killed",
        )
    manifest = mapping(read_json(folder / "run_manifest.json"))
    task = text(completion.get("task")) or text(manifest.get("task"))
    if not task.strip():
        raise SeedRefused(f"{folder / COMPLETION} does not say what the task was")
    run_id = text(completion.get("run_id")) or folder.name
    deliverable = deliverable_of(folder, run_id)
    if deliverable is None:
        raise SeedRefused(
            f"run {run_id} has no deliverable",
            remedy=f"its files are looked for in {', '.join(map(str, _places(folder, run_id)))}",
        )
    tags = completion.get("tags")
    return Seed(
        folder=folder,
        run_id=run_id,
        task=task,
        status=text(completion.get("status")),
        budget=_budget(completion, manifest),
        models=_models(completion, manifest),
        deliverable=deliverable,
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
    )


def deliverable_of(folder: Path, run_id: str) -> Path | None:
    """The folder that holds what a run delivered; None where there is none with a file in it."""
    for place in _places(folder, run_id):
        if place.is_dir() and any(path.is_file() for path in place.rglob("*")):
            return place
    return None


def _places(folder: Path, run_id: str) -> Iterator[Path]:
    """FINAL in the run, else the output folders of the workspace that the run lies in."""
    yield folder / "FINAL"
    yield folder / "output" / "FINAL"
    for home in folder.parents[:3]:
        yield home / "output" / run_id
        yield home / "output" / "FINAL"


def _budget(completion: Mapping[str, Json], manifest: Mapping[str, Json]) -> SeedBudget:
    """The limits: as the run was started, else as it ended, in either of two shapes."""
    final, flat = mapping(completion.get("final_budget")), mapping(completion.get("budget"))
    started = mapping(manifest.get("budget"))
    found: dict[str, float] = {}
    for limit in fields(Envelope):
        name = limit.name
        outer, inner = _CAPS.get(name, ("", ""))
        told = [started.get(name), mapping(final.get(outer)).get(inner), final.get(name)]
        known = [value for each in (*told, flat.get(name)) if (value := number(each)) and value > 0]
        if known:
            found[name] = known[0]
    seconds = number(mapping(final.get("wall_time")).get("elapsed_s"))
    if seconds is None:
        seconds = number(flat.get("observed_wall_time")) or number(completion.get("wall_time"))
    return SeedBudget(envelope=_envelope(found), seconds=seconds or 0.0)


def _envelope(found: Mapping[str, float]) -> Envelope:
    values = {limit.name: getattr(_USUAL, limit.name) for limit in fields(Envelope)}
    for name, value in found.items():
        values[name] = float(value) if name == "max_wall_time" else int(value)
    return Envelope(**values)


def _models(completion: Mapping[str, Json], manifest: Mapping[str, Json]) -> ModelPair:
    for told in (mapping(manifest.get("models")), mapping(completion.get("models"))):
        if told:
            return ModelPair(manager=text(told.get("manager")), worker=text(told.get("worker")))
    return ModelPair(
        manager=text(completion.get("model")), worker=text(completion.get("worker_model"))
    )
