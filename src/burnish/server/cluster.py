"""What a process of the service does, and how urgent a run is."""

from enum import StrEnum


class Priority(StrEnum):
    """How urgent a run is; a run waits while there is one of a higher priority."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """Its number in the store: lower ones wait for higher ones."""
        return list(Priority).index(self) - list(Priority).index(Priority.NORMAL)

    @classmethod
    def of_rank(cls, rank: int) -> "Priority":
        return next(each for each in cls if each.rank == rank)


class ServiceRole(StrEnum):
    """What a process of the service does."""

    BOTH = "both"
    API = "api"
    """It answers requests and shows pages; others drive the runs."""
    WORKER = "worker"
    """It drives runs, and answers nothing but questions about itself."""

    @property
    def drives(self) -> bool:
        return self is not ServiceRole.API

    @property
    def answers(self) -> bool:
        return self is not ServiceRole.WORKER
