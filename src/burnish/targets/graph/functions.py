"""The functions and skills of a graph."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json
from burnish.journal.executors import timed_call
from burnish.system.user_functions import UserFunction, file_fingerprint
from burnish.targets.agent.files import Instructions, read_instructions
from burnish.targets.callables.functions import in_thread


@dataclass(frozen=True, kw_only=True)
class GraphFunction:
    """A function, what it is called, and a hash of the file it stands in."""

    function: Callable[..., Any]
    name: str
    fingerprint: str = ""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "GraphFunction":
        """A function that was given as it is."""
        inner: Any = function.func if isinstance(function, partial) else function
        named: Any = inner if hasattr(inner, "__qualname__") else cast("Any", type(inner))
        name = f"{getattr(named, '__module__', 'builtins')}:{named.__qualname__}"
        return cls(
            function=cast("Callable[..., Any]", function), name=name, fingerprint=_source(named)
        )

    @classmethod
    def loaded(cls, loaded: UserFunction) -> "GraphFunction":
        """A function that a file names."""
        return cls(function=loaded.function, name=loaded.reference, fingerprint=loaded.fingerprint)

    @property
    def described(self) -> Json:
        """What decides what it does; what its file imports is not seen."""
        return {"function": self.name, "source": self.fingerprint}

    async def call(self, value: object) -> Any:
        """What it returns: awaited where it is async, in a thread of its own where it is not."""
        call = partial(self.function, value)
        with timed_call():
            result = call() if self._is_async() else await in_thread(call)
            return await result if inspect.isawaitable(result) else result

    def _is_async(self) -> bool:
        inner: object = self.function
        while isinstance(inner, partial):
            inner = inner.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        call = getattr(inner, "__call__", None)  # noqa: B004 - asked for what it is, not whether
        return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(call)


def first_parameter(function: Callable[..., Any]) -> inspect.Parameter | None:
    """What the function takes first; None where it takes nothing."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Something made in C that does not tell: it is given the text.
        return inspect.Parameter("text", inspect.Parameter.POSITIONAL_ONLY)
    plain = [each for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    return next((e for e in plain if e.kind is not inspect.Parameter.VAR_KEYWORD), None)


def _source(named: Any) -> str:
    try:
        return file_fingerprint(inspect.getsourcefile(named))
    except TypeError:
        return ""  # made in C, or typed into a console


# -- Skills ---------------------------------------------------------------------------------------


_USUAL_NAME = "SKILL"


@dataclass(frozen=True, kw_only=True)
class Skill:
    """One skill: its file, and the text without the frontmatter."""

    name: str
    path: str
    """As the graph spells it, from its folder."""
    content: Instructions = field(repr=False)

    @classmethod
    def read(cls, path: str, folder: Path) -> "Skill":
        """The skill of a file, called as its frontmatter says, else as its folder or file is."""
        content = read_instructions(folder / path)
        place = Path(path)
        usual = place.parent.name if place.stem.upper() == _USUAL_NAME else place.stem
        return cls(name=content.name or usual or place.stem, path=path, content=content)


def skill_section(skill: str, text: str) -> str:
    """A skill as it stands among the instructions."""
    return f"# Skill: {skill}\n\n{text.strip()}"
