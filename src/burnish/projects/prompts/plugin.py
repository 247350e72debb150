"""Prompts of an agent that is called, as a target, and where they live."""

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, JsonValue, model_validator

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import AtLeastOne, Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Surface, TextSurface
from burnish.metrics.files import MetricsRead
from burnish.projects.agent_blocks import CalledBlock, CommandBlock, HttpBlock, PythonBlock, User
from burnish.projects.measures import read_metrics, read_splits, simulated_user
from burnish.runs.directory import Header
from burnish.runs.homes import FILES, FileHome, FileHomes, Homes, measured_hashes
from burnish.runs.plugins import STEPS, Ability, Building, StrategyPlugin, TargetParts, TargetPlugin
from burnish.runs.spec import TargetSpec
from burnish.system import read_bytes
from burnish.system.files import state_folder
from burnish.system.restoration import borrowed_folder, digest, restore_abandoned
from burnish.system.settings import Door, Settings, Text
from burnish.targets.callables import CallingTarget
from burnish.targets.callables.target import notes_for, price_notes
from burnish.targets.prompts.fields import FileField, decoded, encoded
from burnish.targets.prompts.sources import Mode
from burnish.targets.prompts.target import PromptsTarget
from burnish.targets.prompts.target_prompt import TargetPrompt, lock_files

_PROMPTS = "prompts"
"""Where `Project.config` keeps the path of each field that is a file."""


def _prompt_files(prompts: TargetPrompt) -> dict[str, Json]:
    """The fields that are files, and a hash of each."""
    paths = {field.name: str(field.path) for field in prompts.files}
    hashes = {str(field.path): digest(field.content()) for field in prompts.files}
    return {_PROMPTS: {**paths}, FILES: {**hashes}}


@dataclass(frozen=True, kw_only=True)
class PromptHomes(FileHomes):
    """A file a prompt; its mark and its line ends stay."""

    @classmethod
    def of(cls, header: Header) -> "PromptHomes | None":
        """Those of a run over prompts; None where none of them is a file."""
        paths = header.project.config.get(_PROMPTS)
        if not isinstance(paths, dict) or not paths:
            return None
        homes = {name: FileHome(path=Path(str(path))) for name, path in paths.items()}
        return cls(homes=homes, hashes=measured_hashes(header) or {})

    def home(self, surface: str) -> FileHome:
        """The file of a prompt."""
        if surface in self.homes:
            return self.homes[surface]
        message = "this prompt lies behind functions of a program, which burnish cannot call"
        remedy = "take its text from the run's folder and put it there yourself"
        raise ConfigError([Problem(where=surface, message=message, remedy=remedy)])

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Keeps runs that write candidates into the same prompt files away.

        What a killed run left in them is put back first.
        """
        fields = [
            FileField(name=name, shown=str(home.path), path=home.path)
            for name, home in self.homes.items()
        ]
        restore_abandoned(borrowed_folder(state_folder()))
        with lock_files(fields, state_folder()):
            yield

    def _text(self, path: Path) -> str:
        return decoded(read_bytes(path), path)

    def _content(self, text: str, before: bytes, path: Path) -> bytes:
        return encoded(text, before, path)


# -- The prompts of an agent that is called, as a target ------------------------------------------


_PANEL = "Prompts of any agent"
_SHORT = 20
"""A prompt of fewer characters has little that could be worded otherwise."""
_ASCII_PER_TOKEN = 4
"""Characters of plain text that make about one token; others are taken for a token each."""


class PromptField(Settings):
    """One prompt. A path alone is short for `{path: …}`."""

    short: ClassVar[str] = "path"
    path: Text
    """From the folder of the file."""
    max_chars: AtLeastOne | None = None
    frozen: list[Text] = Field(default_factory=list[str])
    """Parts that must stay word for word."""


class CalledAgent(Settings):
    """How the agent is called: one of the three."""

    python: PythonBlock | None = None
    http: HttpBlock | None = None
    command: CommandBlock | None = None
    also_in: str = ""
    """A second folder to find a Python module in: where the command was given."""

    @model_validator(mode="after")
    def _one(self) -> "CalledAgent":
        if len([each for each in self._all if each is not None]) != 1:
            raise ValueError("say how the agent is called: python, http or command, one of them")
        return self

    @property
    def _all(self) -> tuple[PythonBlock | HttpBlock | CommandBlock | None, ...]:
        return self.python, self.http, self.command

    @property
    def block(self) -> PythonBlock | HttpBlock | CommandBlock:
        """The one that is there."""
        return next(each for each in self._all if isinstance(each, CalledBlock))

    def folder(self, home: Path) -> Path:
        """Where a Python module is found: beside the file, or where the command was given."""
        if self.python is None or not self.also_in:
            return home
        top = self.python.call.partition(":")[0].partition(".")[0]
        places = (home, Path(self.also_in))
        return next((each for each in places if PathFinder.find_spec(top, [str(each)])), home)


class PromptsSpec(TargetSpec):
    """The prompts of an agent that is called."""

    kind: str = "prompts"
    agent: Annotated[
        CalledAgent | None,
        Door(flag="*", panel=_PANEL, metavar="MODULE:FUNCTION", environment=False, http=True),
    ] = None
    """The function that is the agent."""
    prompts: Annotated[
        dict[str, PromptField],
        Door(flag="prompt", panel=_PANEL, metavar="NAME=FILE", paths=True, environment=False),
    ] = Field(default_factory=dict[str, PromptField])
    """A prompt to rewrite; may be repeated."""
    isolation: Mode = "source"
    """`source` writes candidates where the agent reads its prompts, one at a time, and puts the
    files back; `isolated` hands them to it, so that nothing is written and many run at once."""
    max_prompt_tokens: AtLeastOne | None = None
    """Of each prompt, estimated; a longer text is turned away before any call."""
    max_prompt_chars: AtLeastOne | None = None
    """The same in characters."""


class PromptsPlugin(TargetPlugin):
    """Builds the target from its description."""

    kind: ClassVar[str] = "prompts"
    Spec: ClassVar[type[TargetSpec]] = PromptsSpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (TextSurface,)
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS,)

    def flag_value(self, name: str, value: JsonValue) -> JsonValue:
        """`--agent module:function` is found beside the file, or where the command was given."""
        if name != "agent":
            return value
        return {"python": {"call": value}, "also_in": str(Path.cwd())}

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The agent with its prompts, cases and metrics."""
        spec: PromptsSpec = building.spec.target
        dataset = read_splits(building, strategy)
        cases = tuple(_cases(dataset))
        target = _live(building, spec) if building.live else _called(building, spec, cases)
        metrics = read_metrics(building, cases, replies_only=True)
        if dataset is None or target is None:
            return None
        # A flag names a function only; a file could say what a call of it costs.
        settable = spec.agent is not None and not spec.agent.also_in
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=metrics,
            no_model="there is nobody to rewrite prompts",
            record=_prompt_files(target.prompts),
            notes=(
                *_agent_notes(target, dataset, settable=settable),
                *MetricsRead(blocks=building.spec.metrics.blocks).notes,
            ),
            resources=(target,),
        )

    def homes(self, header: Header) -> Homes | None:
        """The prompts that are files."""
        return PromptHomes.of(header)


def _cases(dataset: Dataset | None) -> Iterator[Case]:
    if dataset is not None:
        yield from (*dataset.train, *dataset.holdout, *dataset.test)


def _called(building: Building, spec: PromptsSpec, cases: Sequence[Case]) -> PromptsTarget | None:
    """The agent as it is described, over its prompt files."""
    agent = _agent(building, spec, simulated_user(building, cases))
    prompts = building.problems.attempt("target.prompts", lambda: _prompts(building, spec), None)
    if agent is None or prompts is None:
        return None
    return building.problems.attempt("target.prompts", lambda: _target(spec, agent, prompts), None)


def _live(building: Building, spec: PromptsSpec) -> PromptsTarget | None:
    """The target of a program, with the caps that are described."""
    target = building.live
    assert isinstance(target, PromptsTarget)
    values = {name: str(text) for name, text in target.baseline.values.items()}
    limits = _limits(spec, values)
    if not limits:
        return target
    cap = "max_prompt_tokens" if spec.max_prompt_chars is None else "max_prompt_chars"

    def capped() -> PromptsTarget:
        made = PromptsTarget(
            agent=target.agent,
            prompts=target.prompts,
            values=values,
            mode=target.mode,
            max_chars=limits,
        )
        made.notes = target.notes
        return made

    return building.problems.attempt(f"target.{cap}", capped, None)


def _agent(building: Building, spec: PromptsSpec, user: User | None) -> CallingTarget | None:
    agent = spec.agent
    if agent is None:
        key, flag = "target: {python: module:function}", "--agent module:function"
        ways = building.problems.ways("target.agent", key=key, flag=flag)
        building.problems.add("target.agent", "there is no agent", f"name it: {ways}")
        return None
    block, folder = agent.block, agent.folder(building.folder)
    name = next(key for key in ("python", "http", "command") if getattr(agent, key) is block)
    return building.problems.in_block(
        f"target.agent.{name}", block, lambda: block.made(folder, user)
    )


def _prompts(building: Building, spec: PromptsSpec) -> TargetPrompt:
    """Prompts that are files; everything that is wrong with them is said at once."""
    prompts, problems = TargetPrompt(), list[Problem]()
    for name, field in spec.prompts.items():
        path = building.path(field.path)
        try:
            prompts.add_path(name, path)
        except ValueError as error:
            problems.append(Problem(where=name, message=str(error)))
            continue
        if not path.is_file():
            problems.append(Problem(where=name, message=f"there is no file {path}"))
    if not spec.prompts:
        key, flag = "prompts: {system: prompts/system.md}", "--prompt NAME=FILE"
        ways = building.problems.ways("target.prompts", key=key, flag=flag)
        message = "there are no prompts to rewrite"
        problems.append(Problem(message=message, remedy=f"name one: {ways}"))
    if problems:
        raise ConfigError(problems)
    return prompts


def _target(spec: PromptsSpec, agent: CallingTarget, prompts: TargetPrompt) -> PromptsTarget:
    return PromptsTarget.load_files(
        agent,
        prompts,
        mode=spec.isolation,
        max_chars=_limits(spec, prompts.read_files()),
        frozen={name: each.frozen for name, each in spec.prompts.items()},
    )


def _limits(spec: PromptsSpec, values: Mapping[str, str]) -> dict[str, int]:
    """The most characters of each prompt, where there is a cap."""
    most = prompt_limits(values, max_chars=spec.max_prompt_chars, max_tokens=spec.max_prompt_tokens)
    own = {name: each.max_chars for name, each in spec.prompts.items() if each.max_chars}
    names = {**most, **own}
    return {n: min(v for v in (most.get(n), own.get(n)) if v) for n in names}


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: a quarter of its ASCII characters, and every other one.

    No tokenizer is asked: it would be another one for every model.
    """
    plain = sum(character.isascii() for character in text)
    return math.ceil(plain / _ASCII_PER_TOKEN) + len(text) - plain


def prompt_limits(
    values: Mapping[str, str], *, max_chars: int | None, max_tokens: int | None
) -> dict[str, int]:
    """The most characters of each field; tokens are turned into characters of its own language."""
    limits: dict[str, int] = {}
    for name, text in values.items():
        per_token = len(text) / estimated_tokens(text) if text else _ASCII_PER_TOKEN
        in_tokens = None if max_tokens is None else math.floor(max_tokens * per_token)
        caps = [limit for limit in (max_chars, in_tokens) if limit is not None]
        if caps:
            limits[name] = min(caps)
    return limits


def _agent_notes(target: PromptsTarget, dataset: Dataset, *, settable: bool) -> Iterator[str]:
    """What is to be said of the agent and its prompts; `settable` where the file sets prices."""
    yield from target.notes
    cases: list[Case] = [case for split in Split for case in dataset.cases(split)]
    if isinstance(target.agent, CallingTarget):
        yield from notes_for(target.agent, cases)
        yield from price_notes(target.agent, settable=settable)
    for name, text in target.baseline.values.items():
        if len(str(text).strip()) < _SHORT:
            about = f"the prompt '{name}' has {len(str(text).strip())} characters"
            yield f"{about}: there is little in it that could be worded otherwise"
