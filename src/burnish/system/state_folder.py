"""The folder in which burnish keeps what belongs to this machine, not to a project."""

import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """$BURNISH_HOME, or a folder in the user's state folder."""
    env = os.environ if environ is None else environ
    if home := env.get("BURNISH_HOME"):
        return Path(home)
    state = env.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "burnish"
