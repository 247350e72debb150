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
from burnish.projects.called_blocks import CommandBlock, HttpBlock, PythonBlock
from burnish.projects.evaluation_setup import User, read_metrics, read_splits, simulated_user
from burnish.runs.directory import Header
from burnish.runs.homes import FILES, FileHome, FileHomes, Homes, measured_hashes
from burnish.runs.plugins import STEPS, Ability, Building, StrategyPlugin, TargetParts, TargetPlugin
from burnish.runs.spec import TargetSpec
from burnish.system import read_bytes
from burnish.system.files import state_folder
from burnish.system.restoration import borrowed_folder, digest, restore_abandoned
from burnish.system.settings import Access, Door, Settings, Text
from burnish.targets.callables import CallingTarget
from burnish.targets.callables.target import notes_for, price_notes
from burnish.targets.prompts.fields import FileField, decoded, encoded, lock_files
from burnish.targets.prompts.target import Mode, PromptsTarget
from burnish.targets.prompts.target_prompt import TargetPrompt

_PROMPTS = "prompts"
"""Where `Project.config` keeps the path of each field that is a file."""


@dataclass(frozen=True, kw_only=True)
class PromptHomes(FileHomes):
    """A file a prompt; its mark and its line ends stay."""

    @classmethod
    def of(cls, header: Header) -> "PromptHomes | None":
        paths = header.project.config.get(_PROMPTS)
        if not isinstance(paths, dict) or not paths:
            return None
        homes = {name: FileHome(path=Path(str(path))) for name, path in paths.items()}
        return cls(homes=homes, hashes=measured_hashes(header) or {})

    def home(self, surface: str) -> FileHome:
        if surface in self.homes:
            return self.homes[surface]
        message = "a program reads and writes this prompt with functions that burnish cannot call"
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


_PANEL = "Prompts of any agent"
_ASCII_PER_TOKEN = 4
"""Characters of plain text that make about one token; others are taken for a token each."""


class PromptField(Settings):
    """One prompt. A path alone is short for `{path: …}`."""

    short: ClassVar[str] = "path"
    path: Text
    """Relative to the folder of the file."""
    max_chars: AtLeastOne | None = None
    frozen: list[Text] = Field(default_factory=list[str])
    """Parts that must stay word for word."""


class CalledAgent(Settings):
    """How the agent is called: one of the three."""

    python: PythonBlock | None = None
    http: HttpBlock | None = None
    command: CommandBlock | None = None
    also_in: str = ""
    """A second folder to look for a Python module in: where the command was run."""

    @model_validator(mode="after")
    def _one(self) -> "CalledAgent":
        if len(self.blocks) != 1:
            raise ValueError("give exactly one of python, http or command")
        return self

    @property
    def blocks(self) -> dict[str, PythonBlock | HttpBlock | CommandBlock]:
        """Those that are there, by their keys; it is always one."""
        blocks = {"python": self.python, "http": self.http, "command": self.command}
        return {key: block for key, block in blocks.items() if block is not None}

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
        Door(
            flag="*", panel=_PANEL, metavar="MODULE:FUNCTION", environment=False, http=Access.CODE
        ),
    ] = None
    """The function that is the agent."""
    prompts: Annotated[
        dict[str, PromptField],
        Door(flag="prompt", panel=_PANEL, metavar="NAME=FILE", paths=True, environment=False),
    ] = Field(default_factory=dict[str, PromptField])
    """A prompt to rewrite; may be repeated."""
    isolation: Mode = "source"
    """`source` writes candidates where the agent reads its prompts, one at a time, and puts the
    files back; `isolated` passes them to it, so nothing is written and many can run at once."""
    max_prompt_tokens: AtLeastOne | None = None
    """The most tokens of each prompt, estimated; a longer text is rejected before any call."""
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
        spec: PromptsSpec = building.spec.target
        dataset = read_splits(building, strategy)
        cases = [] if dataset is None else [*dataset.train, *dataset.holdout, *dataset.test]
        live = building.live.target
        target = _called(building, spec, cases) if live is None else _live(building, spec)
        metrics = read_metrics(building, cases, replies_only=True)
        if dataset is None or target is None:
            return None
        files = target.prompts.files
        paths: dict[str, Json] = {field.name: str(field.path) for field in files}
        hashes: dict[str, Json] = {str(each.path): digest(each.content()) for each in files}
        # A flag names a function only; a file could say what a call of it costs.
        settable = spec.agent is not None and not spec.agent.also_in
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=metrics,
            no_model="there is no model to rewrite prompts",
            record={_PROMPTS: {**paths}, FILES: {**hashes}},
            notes=(
                *_agent_notes(target, dataset, settable=settable),
                *MetricsRead(blocks=building.spec.metrics.blocks).notes,
            ),
            resources=(target,),
        )

    def homes(self, header: Header) -> Homes | None:
        return PromptHomes.of(header)


def _called(building: Building, spec: PromptsSpec, cases: Sequence[Case]) -> PromptsTarget | None:
    problems = building.problems
    agent = _agent(building, spec, simulated_user(building, cases))
    prompts = problems.attempt("target.prompts", lambda: _prompts(building, spec), None)
    if agent is None or prompts is None:
        return None

    def target() -> PromptsTarget:
        return PromptsTarget.load_files(
            agent,
            prompts,
            mode=spec.isolation,
            max_chars=_limits(spec, prompts.read_files()),
            frozen={name: each.frozen for name, each in spec.prompts.items()},
        )

    return problems.attempt("target.prompts", target, None)


def _live(building: Building, spec: PromptsSpec) -> PromptsTarget | None:
    target = building.live.target
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
    [(name, block)] = agent.blocks.items()
    folder = agent.folder(building.folder)
    return building.problems.in_block(
        f"target.agent.{name}", block, lambda: block.made(folder, user)
    )


def _prompts(building: Building, spec: PromptsSpec) -> TargetPrompt:
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


def _limits(spec: PromptsSpec, values: Mapping[str, str]) -> dict[str, int]:
    most = prompt_limits(values, max_chars=spec.max_prompt_chars, max_tokens=spec.max_prompt_tokens)
    for name, prompt in spec.prompts.items():
        if prompt.max_chars:
            most[name] = min(prompt.max_chars, most.get(name) or prompt.max_chars)
    return most


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
        if (length := len(str(text).strip())) < 20:
            about = f"the prompt '{name}' has {length} characters"
            yield f"{about}: there is little that could be reworded"
