"""What a run was given besides its task, so that an iteration can be given it again."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.content import Json
from burnish.strategies.refine.run_files import mapping


def inputs_of(run: Path, manifest: Mapping[str, Json], deliverable: Path) -> tuple[Path, ...]:
    """The given files that are still there; the deliverable comes before those of its names."""
    taken = {path.name for path in deliverable.iterdir()}
    found: dict[str, Path] = {}
    for path in _given(run, manifest):
        if path.name not in taken and path.exists():
            found.setdefault(path.name, path)
    return tuple(found.values())


def _given(run: Path, manifest: Mapping[str, Json]) -> Iterator[Path]:
    """In the run's own workspace first: what lies elsewhere may be another file by now."""
    kept = mapping(manifest.get("kept")).get("inputs")
    for told in kept if isinstance(kept, list) else []:
        path = Path(str(told))
        yield run / "workspace" / "input" / path.name
        yield path
    if run.parts[-3:-1] == ("workspace", "runs"):
        place = run.parent.parent / "inputs"
        yield from sorted(place.iterdir()) if place.is_dir() else ()
