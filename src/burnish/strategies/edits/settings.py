"""The settings of the artifact loop."""

from typing import Annotated

from burnish.core.gates.strict import Direction
from burnish.runs.spec import StrategySettings
from burnish.system.settings import AtLeastOne, Door, NotNegative


class EditsSettings(StrategySettings):
    """How the loop goes about it."""

    task: Annotated[str, Door(file=False)] = ""
    """What the files are for, as the task says it; the editor reads it."""
    primary: Annotated[str, Door(file=False)] = "score"
    """The number that counts."""
    direction: Annotated[Direction, Door(file=False)] = "maximize"
    tolerance: Annotated[NotNegative, Door(file=False)] = 0.0
    """Two primary numbers that are no further apart are a tie."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=True)] = 1.0
    """Within so many times its noise a difference is a tie; without repeats there is no noise."""
    max_files: AtLeastOne | None = None
    """Files that one edit may touch."""
    max_changed_lines: AtLeastOne | None = None
    """Lines added and lines removed, together, in one edit."""
    candidates_per_iteration: AtLeastOne = 1
    """Edits that are made and run side by side; they are decided on in order."""
    max_failures: AtLeastOne | None = None
    """Crashes after which the loop ends."""
    stop_on_failure: bool = False
    """End the loop at the first crash."""
