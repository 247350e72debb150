"""What an agent asks for while it is optimised: the texts that the candidate under way gives it.

Agents import this in production too, where no run is under way, so it imports next to nothing.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from burnish.tracing.steps import applied

_BOM = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class CurrentPrompts:
    """The texts of one candidate, for one run of one case."""

    texts: Mapping[str, str]
    make_folder: Callable[[], Path]
    """The folder in which they lie as files, made when somebody asks for it."""
    used: set[str] = field(default_factory=set[str])
    """The fields that were asked for by name."""

    @property
    def folder(self) -> Path:
        """The folder in which they lie as files."""
        return self.make_folder()


_CURRENT: ContextVar[CurrentPrompts | None] = ContextVar("burnish_prompts", default=None)


def prompt(
    name: str, path: str | os.PathLike[str] | None = None, *, default: str | None = None
) -> str:
    """The text of a prompt field: the candidate's while a run is under way.

    Otherwise what stands in the file, or the default, so that an agent in production needs no
    other code. Inside a `burnish.step` it is one of the surfaces of that step. A thread that the
    agent starts by itself does not know of the run, unless `burnish.carry` takes it there.
    """
    current = _CURRENT.get()
    if current is not None and name in current.texts:
        current.used.add(name)
        applied(name)
        return current.texts[name]
    if path is not None:
        return Path(path).read_bytes().decode().removeprefix(_BOM)
    if default is not None:
        return default
    raise KeyError(_no_prompt(name, current))


def prompts_folder(default: str | os.PathLike[str] | None = None) -> Path:
    """The folder in which the candidate's prompt files lie; `default` where no run is under way."""
    current = _CURRENT.get()
    if current is not None:
        return current.folder
    if default is not None:
        return Path(default)
    raise LookupError(
        "no run is under way, so there is no folder of prompts: say where they lie otherwise, "
        'such as burnish.prompts_folder("prompts")'
    )


def current_prompts() -> CurrentPrompts | None:
    """What the candidate under way gives; None where there is none."""
    return _CURRENT.get()


@contextmanager
def providing(prompts: CurrentPrompts) -> Generator[None, None, None]:
    """While entered, whoever is called from here is given these prompts."""
    token = _CURRENT.set(prompts)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _no_prompt(name: str, current: CurrentPrompts | None) -> str:
    if current is not None:
        return f'no prompt field "{name}": there are {", ".join(current.texts) or "none"}'
    return (
        f'no run is under way, so nobody gives the prompt "{name}": say what it is otherwise, '
        f'such as burnish.prompt("{name}", "prompts/{name}.md") or default="…"'
    )
