"""The settings of the artifact loop, with the seed's defaults."""

from dataclasses import dataclass

from burnish.core.gates.strict import Direction


@dataclass(frozen=True, kw_only=True)
class EditsSettings:
    """How the loop goes about it."""

    task: str = ""
    """What the files are for, as the task says it; the editor reads it."""
    primary: str = "score"
    direction: Direction = "maximize"
    tolerance: float = 0.0
    """Two primary numbers that are no further apart are a tie."""
    accept_sigma: float = 1.0
    """Within so many times its noise a difference is a tie; without repeats there is no noise."""
    repeats: int = 1
    max_files: int | None = None
    """Files that one edit may touch."""
    max_changed_lines: int | None = None
    candidates_per_iteration: int = 1
    """Edits that are made and run side by side; they are decided on in order."""
    max_failures: int | None = None
    """Crashes after which the loop ends."""
    stop_on_failure: bool = False
    """End the loop at the first crash."""
