"""Every error that burnish raises on purpose.

BurnishError
├── ConfigError         a file, flag or argument is wrong; lists the first ten problems
│   └── WrongArgument       an argument of a call is wrong; also a TypeError
├── MissingExtra        an optional part of burnish is not installed
├── FileTrouble         a file cannot be read or written
│   └── FilesChanged        files that must stay as they are were changed during a run
├── RollbackError       prompts could not be written, and not all could be restored
├── RunNotFound         no run has that name
├── SeedRefused         the run cannot be refined
├── RunLocked           another process drives this run
├── ResumeRefused       what the run was started with has changed
├── ReplayDiverged      the strategy does not do what the journal recorded
├── SealedTestRead      the sealed test was read; more search would spoil it
├── JournalTrouble      the journal is damaged or from another version
│   └── JournalIncomplete   it has lost something that was on disk
├── NotJournalable      a value cannot be stored as JSON
├── PriceUnknown        a USD limit needs prices that are not known
├── RoleFailed          a role gave no usable answer
├── ProposerFailed      nothing was proposed: a required role never gave a usable answer
├── BaselineUnmeasured  the baseline has no number to compare anything with
├── EndpointDown        many calls in a row failed in the same way
├── HoldoutLeak         text of a holdout or test case was about to reach a proposer
├── TargetMismatch      the strategy needs something the target does not have
├── WorkerTrouble       the workers of a run cannot be used
│   ├── WorkerUnready       no worker could start, so nothing was paid
│   └── WorkerLost          a worker ended in the middle of its work
├── StrategyMisbehaved  a strategy broke the rules that make resume work
├── NotImproved         a run ended well and shows no gain, although one is required
└── Interrupted         stopped by a signal; the run can be resumed
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from burnish.core.money import NOTHING, Spend

MOST_PROBLEMS = 10
"""How many problems an error names; of the others it says how many there are."""
T = TypeVar("T")


def in_shell(word: object) -> str:
    """A name or a path as it stands in a command that can be pasted."""
    return shlex.quote(str(word))


class BurnishError(Exception):
    """The root: says what was wrong and, in `remedy`, what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message

    def reword(self, change: Callable[[str], str]) -> None:
        """Say it in other words, for another door than the one it was written for."""
        self.message, self.remedy = change(self.message), change(self.remedy)
        self.args = (self.message,)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, where, and what to do about it."""

    message: str
    where: str = ""
    """A file, a line, a path inside the file, a surface."""
    remedy: str = ""

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} — {self.remedy}" if self.remedy else head


@dataclass(frozen=True, kw_only=True)
class MoreProblems(Problem):
    """Stands at the end of a list for the problems that it does not name."""

    count: int

    @classmethod
    def of(cls, count: int) -> "MoreProblems":
        message = f"and {count:,} more problem{'' if count == 1 else 's'}"
        return cls(message=message, count=count)


def first_problems(items: Sequence[T], problem: Callable[[T], Problem]) -> list[Problem]:
    """The problems of the first items, and how many more there are.

    Finding words for a problem takes long: what is not shown gets none.
    """
    more = len(items) - MOST_PROBLEMS
    named = [problem(item) for item in items[:MOST_PROBLEMS]]
    return [*named, MoreProblems.of(more)] if more > 0 else named


def _shortened(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The first of these problems, and one that counts all others."""
    named: list[Problem] = []
    more = 0
    for each in problems:
        if isinstance(each, MoreProblems):
            more += each.count
        elif len(named) < MOST_PROBLEMS:
            named.append(each)
        else:
            more += 1
    return (*named, MoreProblems.of(more)) if more else tuple(named)


class ConfigError(BurnishError):
    """What is wrong with the user's files, flags and arguments, shown together.

    Of many problems it has the first ten, and how many more there are.
    """

    def __init__(self, problems: Sequence[Problem], *, remedy: str = "") -> None:
        self.problems = _shortened(problems)
        super().__init__("\n".join(map(str, self.problems)), remedy=remedy)

    def reword(self, change: Callable[[str], str]) -> None:
        super().reword(change)
        self.problems = tuple(
            replace(
                each,
                where=change(each.where),
                message=change(each.message),
                remedy=change(each.remedy),
            )
            for each in self.problems
        )

    @classmethod
    def of(cls, where: str, message: str, remedy: str = "") -> Self:
        """A single problem."""
        return cls([Problem(where=where, message=message, remedy=remedy)])


class WrongArgument(ConfigError, TypeError):
    """An argument of a call that cannot mean anything; found before anything is paid."""


class MissingExtra(BurnishError):
    """An optional part of burnish is not installed."""


class FileTrouble(BurnishError):
    """A file cannot be read or written."""


class FilesChanged(FileTrouble):
    """Files that must stay as they are were changed during a run."""


class RollbackError(BurnishError):
    """Prompts could not be written, and not all could be restored; `failures` has an error each.

    The first error is its `__context__`.
    """

    def __init__(self, failures: Mapping[str, Exception], *, remedy: str = "") -> None:
        self.failures = dict(failures)
        causes = "; ".join(f"'{name}': {error}" for name, error in self.failures.items())
        super().__init__(f"these prompts could not be restored: {causes}", remedy=remedy)


class RunNotFound(BurnishError):
    """No run has that name."""


class SeedRefused(BurnishError):
    """The run cannot be refined."""

    exit_code = 2


class RunLocked(BurnishError):
    """Another process drives this run."""


class ResumeRefused(BurnishError):
    """What the run was started with has changed."""


class ReplayDiverged(BurnishError):
    """The strategy does not do what the journal recorded."""


class SealedTestRead(BurnishError):
    """The sealed test was read; more search would spoil it."""


class JournalTrouble(BurnishError):
    """The journal is damaged or was written by another version of burnish."""


class JournalIncomplete(JournalTrouble):
    """The journal has lost something that was on disk; continuing would pay for it again."""


class NotJournalable(BurnishError):
    """A value cannot be stored as JSON: NaN, Infinity, a lone surrogate, a foreign object."""


class PriceUnknown(BurnishError):
    """A USD limit needs prices that are not known."""


class RoleFailed(BurnishError):
    """A role gave no usable answer; `spend` is what the attempts cost.

    `missing` means that the model could not be reached, so a later attempt may work. `unusable`
    are the answers that it gave, for the record.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        spend: Spend = NOTHING,
        missing: bool = False,
        unusable: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.spend = spend
        self.missing = missing
        self.unusable = unusable


class ProposerFailed(BurnishError):
    """Nothing was proposed: a required role never gave a usable answer."""


class BaselineUnmeasured(BurnishError):
    """The baseline has no number, or too much of it is missing to compare anything with it."""


class EndpointDown(BurnishError):
    """Many calls in a row failed in the same way, so that nothing more can be measured."""


class HoldoutLeak(BurnishError):
    """Text of a holdout or test case was about to reach a proposer."""


class TargetMismatch(BurnishError):
    """The strategy needs something that the target does not have."""


class WorkerTrouble(BurnishError):
    """The workers of a run cannot be used: other versions, other files, nobody there."""


class WorkerUnready(WorkerTrouble):
    """No worker could start with it: nothing was paid, and nothing is billed."""


class WorkerLost(WorkerTrouble):
    """A worker ended in the middle of its work, which another one takes over."""


class StrategyMisbehaved(BurnishError):
    """A strategy broke the rules that make resume work."""


class NotImproved(BurnishError):
    """A run ended well and shows no gain, although one is required."""

    exit_code = 4


class Interrupted(BurnishError):
    """Stopped by a signal; the run can be resumed."""

    exit_code = 2
