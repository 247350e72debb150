"""A function as a target: the texts that a program passes to it are what is optimised."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Outcome
from burnish.core.content import Json
from burnish.core.errors import Problem, WrongArgument
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import Candidate, Origin, Surface, TextSurface, placeholders_in
from burnish.datasets.rows import ALIASES
from burnish.system.code_hash import code_hash
from burnish.system.config import near
from burnish.targets.callables.programs import CallableTarget
from burnish.targets.callables.target import CallingTarget, Reply
from burnish.targets.user_code import is_async, qualified_name

_TALK = ("history", "session")
"""Parameters that get the earlier messages and the name of the conversation."""
_TEXT_NAMES = ("instructions", "instruction", "prompt", "system_prompt", "system", "template")
"""What a parameter for the one text is usually called."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What each parameter of a function gets in a run of a case."""

    texts: tuple[str, ...]
    input: str = ""
    """The one that gets the case's input; empty if none does."""
    columns: tuple[str, ...] = ()
    """Those that get the case's column of their name."""
    optional: tuple[str, ...] = ()
    """Those of the columns that have a default: a case need not have them."""
    positional: tuple[str, ...] = ()
    """Those that can only be passed by position, in order."""
    talk: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, function: Callable[..., Any], texts: Collection[str], asked: str = ""
    ) -> "Parameters":
        """Find out how to call a function with these texts; `asked` is the input's column."""
        named, rest = _parameters(function), dict[str, inspect.Parameter]()
        _require_taken(function, named, texts)
        for name, parameter in named.items():
            variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if not variadic and name not in texts and name not in _TALK:
                rest[name] = parameter
        needed = [name for name, each in rest.items() if each.default is each.empty]
        asked = asked if asked in rest else _input_among(list(rest), needed)
        columns = tuple(name for name in rest if name != asked)
        return cls(
            texts=tuple(texts),
            input=asked,
            columns=columns,
            optional=tuple(name for name in columns if name not in needed),
            positional=tuple(n for n, p in named.items() if p.kind is p.POSITIONAL_ONLY),
            talk=tuple(name for name in _TALK if name in named and name not in texts),
        )

    def problems(self, name: str, cases: Sequence[Case]) -> list[Problem]:
        """The parameters that some case has nothing for."""
        found: list[Problem] = []
        there = dict.fromkeys(column for case in cases for column in case.turns[0].settings)
        for column in self.columns:
            if column in self.optional:
                continue
            lacking = next((case for case in cases if _column(case, column) is None), None)
            if lacking is None:
                continue
            where = f"{name}({column}=…)"
            if column in ALIASES["expected"]:
                message = "an agent does not get to see what is expected of it"
                remedy = "rename the parameter, or take it out"
            else:
                message = f"no text has this name, and case '{lacking.id}' has no such column"
                remedy = near(column, [*self.texts, *there])
            found.append(Problem(where=where, message=message, remedy=remedy))
        return found

    def values(self, case: Case) -> dict[str, Any]:
        """By parameter, what the columns of a case have for it."""
        held = {column: _column(case, column) for column in self.columns}
        return {name: value for name, value in held.items() if value is not None}


def only_text(function: Callable[..., Any]) -> str:
    """The parameter that gets the one text, where it was passed without a name."""
    named = _parameters(function)
    usual = next((name for name in _TEXT_NAMES if name in named), "")
    if usual:
        return usual
    rest = [n for n, p in named.items() if n not in _TALK and p.default is p.empty]
    if len(rest) == 2:
        return next((n for n in rest if n not in ALIASES["input"]), rest[1])
    name = _name(function)
    remedy = f'name the parameter that takes it: {{"{(rest or ["instructions"])[-1]}": "…"}}'
    raise WrongArgument.of(
        "texts", f"it is not clear which parameter of {name} is the text", remedy
    )


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        message = f"the parameters of {_name(function)} cannot be read"
        raise WrongArgument.of("agent", message, "wrap it in a function of your own") from None


def _require_taken(
    function: Callable[..., Any], named: Mapping[str, inspect.Parameter], texts: Collection[str]
) -> None:
    if any(each.kind is each.VAR_KEYWORD for each in named.values()):
        return
    problems = [
        Problem(
            where=f"texts[{name!r}]",
            message=f"{_name(function)} takes no such parameter",
            remedy=near(name, list(named)),
        )
        for name in texts
        if name not in named
    ]
    if problems:
        raise WrongArgument(problems)


def _input_among(rest: Sequence[str], needed: Sequence[str]) -> str:
    """The parameter for the input: the only one that is left, or one with a usual name."""
    usual = next((name for name in ALIASES["input"] if name in rest), "")
    if usual:
        return usual
    choices = needed or rest
    return choices[0] if len(choices) == 1 else ""


def _column(case: Case, name: str) -> Any:
    """What a case has under a name; None if nothing."""
    turn = case.turns[0]
    if name in ALIASES["context"] and turn.context:
        return turn.context[0] if len(turn.context) == 1 else list(turn.context)
    return turn.settings.get(name)


def _name(function: Callable[..., Any]) -> str:
    return f"{qualified_name(function).rpartition(':')[2]}()"


@dataclass(frozen=True, kw_only=True)
class FunctionTarget(CallingTarget):
    """Calls a function with the case's input, its columns, and the texts of a candidate."""

    function: Callable[..., Any]
    texts: Mapping[str, str]
    parameters: Parameters

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        texts: str | Mapping[str, str],
        *,
        asked: str = "",
        **more: Any,
    ) -> "FunctionTarget":
        """The target for a function and its texts; one without a name goes where it fits.

        A parameter named like the column `asked` gets the input.
        """
        named = {only_text(function): texts} if isinstance(texts, str) else dict(texts)
        parameters = Parameters.of(function, named, asked)
        return cls(function=function, texts=named, parameters=parameters, **more)

    @property
    def calls_function(self) -> bool:
        return True

    @property
    def title(self) -> str:
        """Its name, for reports."""
        return qualified_name(self.function).rpartition(":")[2]

    @property
    def call(self) -> str:
        """Its name in its module."""
        return qualified_name(self.function)

    @property
    def surfaces(self) -> Sequence[Surface]:
        return [
            TextSurface(id=name, placeholders=placeholders_in(text))
            for name, text in self.texts.items()
        ]

    @property
    def baseline(self) -> Candidate:
        return Candidate(values=dict(self.texts), origin=Origin(kind="baseline"))

    @property
    def description(self) -> Description:
        """Its name, the names of its texts, and a hash of its code."""
        config: dict[str, Json] = {
            "call": self.call,
            "source": code_hash(self.function),
            "texts": list(self.texts),
        }
        return self._described("function", config)

    @property
    def remembers(self) -> bool:
        return bool(self.parameters.talk)

    def conversation(self) -> AbstractAsyncContextManager[Reply]:
        """A conversation with its own texts, for a case that has no columns."""
        return self._called(self.baseline, Case.single("")).conversation()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        called = self._called(candidate, case)
        return await called.run(candidate, case, draw=draw, effects=effects)

    def _called(self, candidate: Candidate, case: Case) -> CallableTarget:
        return CallableTarget(
            agent=self._bound(candidate, case),
            name=self.title,
            usd_per_call=self.usd_per_call,
            user=self.user,
        )

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        del home
        return {f"{name}.txt": str(value).encode() for name, value in candidate.values.items()}

    def _bound(self, candidate: Candidate, case: Case) -> Callable[..., Any]:
        """The function with everything but the input, and what is known of the conversation."""
        parameters = self.parameters
        fixed = {**candidate.values, **parameters.values(case)}

        def arguments(query: str, talk: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
            named = {**fixed, **talk}
            if parameters.input:
                named[parameters.input] = query
            return [named.pop(name) for name in parameters.positional if name in named], named

        def call(query: str, **talk: Any) -> Any:
            by_place, by_name = arguments(query, talk)
            return self.function(*by_place, **by_name)

        async def awaited(query: str, **talk: Any) -> Any:
            return await call(query, **talk)

        made: Any = awaited if is_async(self.function) else call
        kinds = inspect.Parameter
        made.__signature__ = inspect.Signature(
            [
                kinds("query", kinds.POSITIONAL_ONLY),
                *(kinds(name, kinds.KEYWORD_ONLY) for name in parameters.talk),
            ]
        )
        return made
