"""BEST: copies of the best deliverable beside the seed, exchanged whole, with what they beat."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.strategies.refine.run_files import mapping, number, read_json
from burnish.system import write_atomic
from burnish.system.workspaces import remove_tree

BEST = "BEST"
MANIFEST = "manifest.json"
ASIDE = "manifest.burnish.json"
"""The manifest's name where the deliverable has a manifest.json of its own."""
_NEW, _OLD = ".BEST.new", ".BEST.old"


@dataclass(frozen=True, kw_only=True)
class BestManifest:
    """Which run is the best, and what it beat."""

    best_run_id: str
    best_loss: float
    seed_loss: float
    session_id: str
    winning_run_dir: str
    """From the folder that BEST lies in, where it is inside; so the folder may be moved."""

    def to_json(self) -> dict[str, Json]:
        """As the file keeps it."""
        return dict(vars(self))


def best_so_far(home: Path) -> Mapping[str, Json] | None:
    """The manifest of BEST in a folder, or None where there is none."""
    recover(home)
    for name in (ASIDE, MANIFEST):
        found = mapping(read_json(home / BEST / name))
        if "best_loss" in found or "loss" in found:
            return found
    return None


def loss_of(manifest: Mapping[str, Json] | None) -> float | None:
    """The loss that a manifest speaks of."""
    if manifest is None:
        return None
    told = manifest.get("best_loss", manifest.get("loss"))
    return number(told)


def put_best(home: Path, deliverable: Path, manifest: Mapping[str, Json]) -> Path:
    """Exchange BEST for copies of these files; a kill leaves the old one or the new one."""
    recover(home)
    new, best = home / _NEW, home / BEST
    remove_tree(new)
    copy_files(deliverable, new)
    name = ASIDE if (new / MANIFEST).exists() else MANIFEST
    text = json.dumps(dict(manifest), indent=2, ensure_ascii=False)
    write_atomic(new / name, text + "\n")
    if best.exists():
        best.rename(home / _OLD)
    new.rename(best)
    remove_tree(home / _OLD)
    return best


def recover(home: Path) -> None:
    """Put BEST back where a kill came between the two renames; remove what was left half made."""
    old, best = home / _OLD, home / BEST
    if old.exists() and not best.exists():
        old.rename(best)
    for left in (old, home / _NEW):
        if left.exists():
            remove_tree(left)


def copy_files(source: Path, to: Path) -> None:
    """Copies, never links: what is written to one may not change the other."""
    shutil.copytree(source, to, symlinks=True)
    for path in to.rglob("*"):
        if path.is_symlink() and _leads_out(path, to):
            path.unlink()
        elif path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def _leads_out(link: Path, home: Path) -> bool:
    return not Path(os.path.realpath(link)).is_relative_to(home.resolve())
