"""What a test may not leave behind in the process for the next one on the same worker."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_PYTESTS_OWN = "PYTEST_CURRENT_TEST"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """What all tests of a worker share: import path, variables, folder, signals.

    Not threads: a pool that a wider fixture holds starts them whenever it needs one.
    """

    path: tuple[str, ...]
    variables: Mapping[str, str]
    folder: str
    handlers: Mapping[signal.Signals, Any]

    @classmethod
    def now(cls) -> Self:
        """As it is."""
        return cls(
            path=tuple(sys.path),
            variables=_variables(),
            folder=_folder(),
            handlers={number: signal.getsignal(number) for number in _SIGNALS},
        )

    def leaks(self, *projects: Path) -> list[str]:
        """What differs now, in words; it is put back.

        A folder below `projects` on the import path is no leak: burnish adds the folder of the
        project whose functions it imports, and it is taken off here.
        """
        return [
            *self._path_leaks(projects),
            *self._variable_leaks(),
            *self._folder_leaks(),
            *self._handler_leaks(),
        ]

    def _path_leaks(self, projects: Sequence[Path]) -> Iterator[str]:
        if sys.path == [*self.path]:
            return
        added = [each for each in sys.path if each not in self.path]
        missing = [each for each in self.path if each not in sys.path]
        sys.path[:] = self.path
        yield from (f"sys.path has lost {each}" for each in missing)
        foreign = [each for each in added if not any(map(Path(each).is_relative_to, projects))]
        yield from (f"sys.path has gained {each}" for each in foreign)

    def _variable_leaks(self) -> Iterator[str]:
        now = _variables()
        if now == self.variables:
            return
        for name in sorted(now.keys() | self.variables.keys()):
            before = self.variables.get(name)
            if now.get(name) == before:
                continue
            if before is None:
                del os.environ[name]
                yield f"the variable {name} is set"
            else:
                os.environ[name] = before
                yield f"the variable {name} is {'changed' if name in now else 'gone'}"

    def _folder_leaks(self) -> Iterator[str]:
        if (now := _folder()) != self.folder:
            os.chdir(self.folder)
            yield f"the working directory is {now or 'one that is gone'}"

    def _handler_leaks(self) -> Iterator[str]:
        for number, before in self.handlers.items():
            if (now := signal.getsignal(number)) != before:
                signal.signal(number, before)
                yield f"the handler of {number.name} is {now}"


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != _PYTESTS_OWN}


def _folder() -> str:
    """Where the process is; empty if that is no more."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""
