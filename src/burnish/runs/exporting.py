"""How accepted candidates lie in a run's folder: which files, and which links lead to the best."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from burnish.core.candidates import Candidate
from burnish.core.protocols import Target

CANDIDATES = "candidates"
BEST = "best"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A candidate's files and the links to them, by path relative to the run's folder."""

    files: Mapping[str, bytes]
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """A link's path, and what it leads to from its own folder."""


Exporter: TypeAlias = Callable[[Candidate, Path, int], Exported]
"""Candidate, run folder, number of the trial."""


def in_folders(target: Target) -> Exporter:
    """A folder for each candidate: `candidates/iter-03/`, and `candidates/best` to the leader."""

    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = f"iter-{number:02d}"
        files = target.export(candidate, folder / CANDIDATES / name)
        return Exported(
            files={f"{CANDIDATES}/{name}/{path}": content for path, content in files.items()},
            links={f"{CANDIDATES}/{BEST}": name},
        )

    return export
