"""What stores raise.

BurnishError
├── RunExists      create: a run of that app has this id
├── RunNotRunning  cancel or update: the run is finished
├── LeaseLost      another process drives the run now
├── StoreTrouble   the database does not answer, is closed, or has another schema
└── RunNotFound
    └── RunMissing no such run of that app
"""

from burnish.core.errors import BurnishError, RunNotFound


class RunExists(BurnishError):
    """A run of that app has this id already."""

    def __init__(self, app_name: str, run_id: str) -> None:
        super().__init__(f'run "{run_id}" for app "{app_name}" already exists')


class RunMissing(RunNotFound):
    """No run of that app has this id."""

    def __init__(self, app_name: str, run_id: str) -> None:
        super().__init__(f'run "{run_id}" for app "{app_name}" not found: file does not exist')


class RunNotRunning(BurnishError):
    """The run is finished: what it ended with stays."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f'run "{run_id}" is not running: file does not exist')


class LeaseLost(BurnishError):
    """Whoever asks held the lease of this run, and another process has it now."""

    def __init__(self, app_name: str, run_id: str, owner: str) -> None:
        super().__init__(
            f'run "{run_id}" for app "{app_name}" is no longer driven by {owner}',
            remedy="its lease was not renewed in time; stop driving it, its new driver goes on",
        )


class StoreTrouble(BurnishError):
    """The store cannot be used."""
