"""Reading what the fields say at the start: their own texts, not what a killed run left in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.system.restoration import borrowed_folder, restore_abandoned
from burnish.targets.prompts.lent_callbacks import recall
from burnish.targets.prompts.locking import require_unborrowed
from burnish.targets.prompts.target_prompt import TargetPrompt


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What the fields say, and what had to be put back before."""

    values: Mapping[str, str]
    notes: tuple[str, ...] = ()


async def begin(prompts: TargetPrompt, home: Path) -> Begun:
    """Put back what killed runs left, files and callbacks; then read."""
    folder = borrowed_folder(home)
    notes = _files_back(prompts, home)
    notes += await recall(prompts.names(), prompts.callbacks, folder)
    return Begun(values=await prompts.read_all(), notes=notes)


def begin_at_once(prompts: TargetPrompt, home: Path) -> Begun:
    """The same where all fields are files."""
    notes = _files_back(prompts, home)
    return Begun(values=prompts.read_files(), notes=notes)


def _files_back(prompts: TargetPrompt, home: Path) -> tuple[str, ...]:
    fates = restore_abandoned(borrowed_folder(home))
    require_unborrowed(prompts.files, home)
    return tuple(f"{fate} (a killed run had changed it)" for fate in fates)
