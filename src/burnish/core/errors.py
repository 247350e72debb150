"""Every error burnish raises on purpose.

BurnishError
├── ConfigError         a file, flag or argument is wrong; carries every problem found
├── MissingExtra        a part of burnish is needed that is not installed
├── FileTrouble         a file cannot be read or written
├── RollbackError       prompts could not be written, and not all could be put back
├── RunNotFound         no run by that name
├── SeedRefused         a run that cannot be refined
├── RunLocked           another process drives this run
├── ResumeRefused       what the run was started with has changed
├── ReplayDiverged      the journal and the strategy tell different stories
├── SealedTestRead      the sealed test was looked at; searching on would spoil it
├── JournalTrouble      the journal is damaged or from a newer burnish
│   └── JournalIncomplete   it has lost something that was on disk
├── NotJournalable      a value cannot be kept as JSON
├── PriceUnknown        a USD limit needs prices that are not known
├── RoleFailed          a role gave no usable answer
├── ProposerFailed      nothing was proposed: a role that has to never gave a usable answer
├── BaselineUnmeasured  too much of the baseline is missing for anything to be compared with it
├── HoldoutLeak         text of a holdout or test case was about to reach a proposer
├── TargetMismatch      the strategy needs something the target does not have
├── StrategyMisbehaved  a strategy broke the rules that make resume work
└── Interrupted         stopped by a signal; the run can be resumed
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnish.core.money import NOTHING, Spend


class BurnishError(Exception):
    """The root: says what was wrong and, in `remedy`, what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, where, and what to do about it."""

    message: str
    where: str = ""
    """A place a person can find: a file, a line, a path inside the file, a surface."""
    remedy: str = ""

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return f"{head} — {self.remedy}" if self.remedy else head


class ConfigError(BurnishError):
    """Everything that is wrong with what the user gave, shown together."""

    def __init__(self, problems: Sequence[Problem], *, remedy: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)), remedy=remedy)


class MissingExtra(BurnishError):
    """A part of burnish is needed that is not installed."""


class FileTrouble(BurnishError):
    """A file cannot be read or written."""


class RollbackError(BurnishError):
    """Prompts could not be written, and not all could be put back; `failures` says why, by field.

    What went wrong first is its `__context__`.
    """

    def __init__(self, failures: Mapping[str, Exception], *, remedy: str = "") -> None:
        self.failures = dict(failures)
        causes = "; ".join(f"'{name}': {error}" for name, error in self.failures.items())
        super().__init__(f"these prompts could not be put back: {causes}", remedy=remedy)


class RunNotFound(BurnishError):
    """No run by that name."""


class SeedRefused(BurnishError):
    """A run that cannot be refined."""

    exit_code = 2


class RunLocked(BurnishError):
    """Another process drives this run."""


class ResumeRefused(BurnishError):
    """What the run was started with has changed."""


class ReplayDiverged(BurnishError):
    """The journal and the strategy tell different stories."""


class SealedTestRead(BurnishError):
    """The sealed test was looked at; searching on would spoil it."""


class JournalTrouble(BurnishError):
    """The journal is damaged or was written by a newer burnish."""


class JournalIncomplete(JournalTrouble):
    """The journal has lost something that was on disk; going on would pay for it again."""


class NotJournalable(BurnishError):
    """A value cannot be kept as JSON: NaN, Infinity, a lone surrogate, a foreign object."""


class PriceUnknown(BurnishError):
    """A USD limit needs prices that are not known."""


class RoleFailed(BurnishError):
    """A role gave no usable answer; `spend` is what trying cost.

    `missing` says that nobody could be reached, so that asking again later may help.
    """

    def __init__(
        self, message: str, *, remedy: str = "", spend: Spend = NOTHING, missing: bool = False
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.spend = spend
        self.missing = missing


class ProposerFailed(BurnishError):
    """Nothing was proposed: a role that has to never gave a usable answer."""


class BaselineUnmeasured(BurnishError):
    """Too much of the baseline is missing for anything to be compared with it."""


class HoldoutLeak(BurnishError):
    """Text of a holdout or test case was about to reach a proposer."""


class TargetMismatch(BurnishError):
    """The strategy needs something that the target does not have."""


class StrategyMisbehaved(BurnishError):
    """A strategy broke the rules that make resume work."""


class Interrupted(BurnishError):
    """Stopped by a signal; the run can be resumed."""

    exit_code = 2
