"""What the service raises.

BurnishError
├── AppMissing     no app of that name is served here
├── AppUnfit       the app itself is wrong, or has no structure
├── DatasetMissing no dataset of that name
├── FileMissing    a run has no such file
├── TooManyRuns    as many runs as the limits allow are waiting
├── NotAllowed     a request names code or a model that the operator did not allow
├── NotHere        the run's folder is on another machine
└── ManagerClosed  the service is going down
"""

from burnish.core.errors import BurnishError


class AppMissing(BurnishError):
    """No app of that name is served here."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'no app "{name}" is served here', remedy="GET /api/v1/apps lists those that are"
        )


class AppUnfit(BurnishError):
    """The app itself is wrong, or does not have what is asked for."""


class DatasetMissing(BurnishError):
    """No dataset of that name."""


class FileMissing(BurnishError):
    """A run has no such file."""


class TooManyRuns(BurnishError):
    """As many runs as the limits allow are waiting."""


class NotAllowed(BurnishError):
    """A request names something that only the operator may."""


class NotHere(BurnishError):
    """What is asked for lies on another machine."""


class ManagerClosed(BurnishError):
    """The manager takes no more runs."""

    def __init__(self) -> None:
        super().__init__("the run manager is closed", remedy="start the service again")
