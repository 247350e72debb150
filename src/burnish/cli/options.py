"""Flags: those that several commands share, and those made from the fields of a run.

One field, one flag. The flags of a command depend on its file and strategy, which are looked up
among the arguments first. `--help` shows the flags of everything that is installed. The bounds of
flags are those of the file: see `system.settings`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast, get_args, get_origin

import typer
from typer.core import TyperCommand

from burnish.core.errors import BurnishError, ConfigError, Problem

if TYPE_CHECKING:
    from pydantic import JsonValue

    from burnish.projects.description import Doors
    from burnish.system.settings import SettingField


def in_panel(panel: str) -> Callable[..., Any]:
    """Makes options that `--help` shows in one group."""
    return partial(typer.Option, rich_help_panel=panel)


def flags_for(
    parameter: str,
    flags: Mapping[str, tuple[Any, Any]],
    build: Callable[[Mapping[str, Any]], object],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a group of flags in the place of one parameter.

    `flags` has an annotation and a default for each; `build` makes the parameter from their values.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_flags(*arguments: Any, **values: Any) -> None:
            own = {name: values.pop(name) for name in flags}
            command(*arguments, **{parameter: build(own)}, **values)

        parameters: list[Parameter] = []
        for each in signature(command).parameters.values():
            if each.name != parameter:
                parameters.append(each)
                continue
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=flag)
                for name, (flag, default) in flags.items()
            ]
        with_flags.__signature__ = Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
        with_flags.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_flags

    return decorate


def flag_group(parameter: str, group: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as flags, in the place of one parameter."""
    flags = {
        each.name: (each.type, Parameter.empty if each.default is MISSING else each.default)
        for each in fields(group)
    }
    return flags_for(parameter, flags, lambda values: group(**values))


def run_ids(incomplete: str) -> list[str]:
    """The ids of runs that begin like this, newest first, for the completion of a shell."""
    from burnish.runs.directory import known_runs

    return [folder.name for folder in known_runs() if folder.name.startswith(incomplete)]


def run_option(text: str) -> Any:
    """A flag that names a run."""
    return typer.Option(metavar="RUN", autocompletion=run_ids, help=text)


def file_kinds(incomplete: str) -> list[str]:
    """The kinds of files that begin like this, for the completion of a shell."""
    from burnish.projects.dialects import dialect_names

    return [kind for kind in dialect_names() if kind.startswith(incomplete)]


EVAL_USAGE_EXIT = 3
"""The exit code of `eval` for a configuration or a command line that is wrong."""


class ReportFormat(StrEnum):
    """What `burnish eval` prints."""

    TEXT = "text"
    GITHUB = "github"
    """An annotation for each case that does not pass, and the summary of the job."""
    JUNIT = "junit"
    MARKDOWN = "markdown"
    JSON = "json"


class FailOn(StrEnum):
    """What makes the exit code 1."""

    FAILURE = "failure"
    """A case that fails or is missing."""
    REGRESSION = "regression"
    """A metric that is worse than in the baseline beyond chance, or cannot be compared."""


class Requirement(StrEnum):
    """What a run has to show, or its exit code is 4."""

    IMPROVED = "improved"
    """A gain, by the sealed test or fresh draws."""


_output = in_panel("Output")

OutputDir = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output-dir", metavar="FOLDER", help="Create the run in exactly this folder."
    ),
]
Progress = Annotated[
    str, _output(metavar="VIEW", help="How to show progress: auto, live, lines, json or none.")
]
Quiet = Annotated[bool, _output("-q", "--quiet", help="Do not show progress, only the result.")]
Require = Annotated[
    Requirement | None,
    _output(help="Exit code 4 unless the sealed test or fresh draws show a gain."),
]
BaseUrl = Annotated[str, typer.Option(help="The endpoint's address.")]
KeyVariable = Annotated[
    str, typer.Option("--api-key-env", metavar="VAR", help="The variable that holds the key.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Db = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The registry of policy texts; by default $BURNISH_POLICY_DB, or the user's own.",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set any setting by its path, such as budget.max_calls=200; may be repeated.",
    ),
]


# -- Flags made from the fields of a run -----------------------------------------------------------


_FLAGS = "burnish.flags"
"""Where the context of a command keeps what its flags say."""
_PARAMETERS = "burnish.parameters"
"""Where it keeps the command's parameters, flags included."""
USUAL_FILE = Path("agent.yaml")
_HELP = {"-h", "--help"}


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag, as the command line shows and reads it."""

    name: str
    spellings: tuple[str, ...]
    field: "SettingField"
    panel: str
    metavar: str
    kind: type
    """int, float, bool or str; list for what may be repeated as NAME=VALUE, tuple for what may be
    repeated as it is."""
    paths: bool
    """Whether its values are files, which count from where the command is given."""

    @property
    def help(self) -> str:
        """Read from the source of its model, which takes longer than many a command."""
        text = self.field.help
        if self.field.switches_off:
            return self.field.door.off or (text and f"Switch off: {text[:1].lower()}{text[1:]}")
        return text

    def parameter(self, *, with_help: bool) -> inspect.Parameter:
        option = typer.Option(
            *self.spellings,
            help=(with_help and self.help) or None,
            rich_help_panel=self.panel if self.panel != "Options" else None,
            metavar=self.metavar or None,
            show_default=False,
        )
        kind = list[str] if self.kind in (list, tuple) else self.kind
        annotation = Annotated[kind | None, option]  # pyright: ignore[reportInvalidTypeForm]
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )

    def value(self, raw: Any) -> "JsonValue":
        """The value with absolute paths; links are kept, since an agent may read through them."""
        if raw is None:
            return None
        if self.kind is list:
            return {**self._pairs(raw)} or None
        if self.kind is tuple:
            return [self._path(each) for each in raw]
        return self._path(raw)

    def _path(self, value: Any) -> Any:
        return str(Path(value).absolute()) if self.paths else value

    def _pairs(self, texts: Sequence[str]) -> dict[str, str]:
        pairs, messages = dict[str, str](), list[str]()
        for text in texts:
            name, equals, value = text.partition("=")
            if not (name.strip() and equals and value.strip()):
                messages.append(f"'{text}' does not have the form {self.metavar}")
            elif name in pairs:
                messages.append(f"'{name}' has two {'files' if self.paths else 'values'}")
            else:
                pairs[name] = self._path(value)
        if messages:
            raise ConfigError([Problem(where=self.spellings[0], message=each) for each in messages])
        return pairs


class FieldsCommand(TyperCommand):
    """A command whose flags are fields of the run that its arguments describe."""

    panels: ClassVar[tuple[str, ...]] = ()
    """The groups of flags that it has; all of them where none is named."""
    explains: ClassVar[bool] = True
    """Whether a flag that it does not have is refused with the name of who has it."""
    implied: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """By flag, another flag and its value, which it stands for where the other is not given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Find out what the run is about, add its flags, then parse as usual."""
        own = self.params
        args = [*args, *self._implied_by(args)]
        looking = _HELP & set(args)
        made = self.flags_in_help(args) if looking else self.flags(args, own)
        flags = [flag for flag in made if not self.panels or flag.panel in self.panels]
        # A shell that completes a word has no use for an error.
        if self.explains and not ctx.resilient_parsing:
            _refuse_useless(args, flags, own)
        plain = [each for each in own if getattr(each, "rich_help_panel", None) is None]
        grouped = [each for each in own if each not in plain]  # groups stand in order of flags
        options = _options(flags, with_help=bool(looking) or ctx.resilient_parsing)
        ctx.meta[_PARAMETERS] = [*plain, *options, *grouped]
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Those of the function, and the flags that the arguments bring."""
        own = super().get_params(ctx)
        return [*ctx.meta.get(_PARAMETERS, self.params), *own[len(self.params) :]]

    def _implied_by(self, args: Sequence[str]) -> Iterator[str]:
        # A resumed run has its description already.
        if _value(args, "--resume") is None:
            for flag, (other, value) in self.implied.items():
                if _value(args, flag) is not None and _value(args, other) is None:
                    yield from (other, value)

    def flags(self, args: Sequence[str], own: Sequence[Any]) -> Iterator[Flag]:
        """The flags of the run that these arguments are about."""
        return _flags_for(args, own)

    def flags_in_help(self, args: Sequence[str]) -> Iterator[Flag]:
        """What `--help` shows."""
        del args
        return self.every_flag()

    def every_flag(self) -> Iterator[Flag]:
        """The flags of everything that is installed."""
        return _all_flags()


def flag_values(
    ctx: typer.Context, assignments: Sequence[str] | None = None
) -> "dict[str, JsonValue]":
    """The values of the flags of a command, by field name; `--set` is under `set`."""
    flags = dict(cast("Mapping[str, JsonValue]", ctx.meta.get(_FLAGS, {})))
    return {**flags, "set": list(assignments)} if assignments else flags


def _options(flags: Sequence[Flag], *, with_help: bool) -> list[Any]:
    """The flags as typer options, which store their values in the context."""

    def command(**_: object) -> None:
        return None

    parameters = [flag.parameter(with_help=with_help) for flag in flags]
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    made = typer.Typer(add_completion=False)
    made.command()(command)
    by_name = {flag.name: flag for flag in flags}
    options: list[Any] = []
    for option in cast("Any", typer.main.get_command(made)).params:
        if option.name in by_name:
            option.expose_value = False
            option.callback = _keeper(by_name[option.name])
            # An argument of the command may have the same name, and must not become its value.
            option.name = f"field {option.name}"
            options.append(option)
    return options


def _keeper(flag: Flag) -> Any:
    def keep(ctx: typer.Context, _: object, raw: Any) -> None:
        value = flag.value(raw or None if flag.kind in (list, tuple) else raw)
        if value is not None:
            ctx.meta.setdefault(_FLAGS, {})[flag.name] = value

    return keep


def _flags_for(args: Sequence[str], own: Sequence[Any]) -> Iterator[Flag]:
    """The flags for these arguments; those of every run if that is unclear."""
    doors = _doors_for(args, own)
    # Where no file can be told from another, what is wrong with it is the first thing to say.
    return _all_flags() if doors is None else map(flag_of, doors.named().values())


def _doors_for(args: Sequence[str], own: Sequence[Any]) -> "Doors | None":
    """The doors of the run that these arguments are about, if that is clear."""
    from burnish.projects.description import Doors, doors_of, doors_of_run

    shared = map(flag_of, Doors.of_any_run().named().values())
    files = list(file_arguments(args, own, shared))
    takes_run = any(
        getattr(each, "metavar", None) == "RUN" and not each.opts[0].startswith("-") for each in own
    )
    runs = [_value(args, "--resume"), *(args if takes_run else ())]
    if not any(str(file) in args for file in files):  # a file describes what is forked anew
        runs.append(_value(args, "--fork"))
    folders = (_folder(run) for run in runs if run is not None)
    doors = next((doors_of_run(each) for each in folders if each is not None), None)
    return doors or doors_of(files, _value(args, "--strategy"))


def flags_of_run(names: Sequence[str]) -> Iterator[Flag]:
    """The flags of the run that one of these words names; without one, those of every run."""
    from burnish.projects.description import Doors, doors_of_run

    folders = (folder for name in names if (folder := _folder(name)) is not None)
    doors = next(map(doors_of_run, folders), None) or Doors.of_any_run()
    return map(flag_of, doors.named().values())


def _all_flags() -> Iterator[Flag]:
    from burnish.projects.description import all_doors

    fields: dict[str, SettingField] = {}
    for doors in all_doors():
        for name, field in doors.named().items():
            if name not in fields or not fields[name].help:
                fields[name] = field
    return map(flag_of, fields.values())


def flag_of(field: "SettingField") -> Flag:
    """The flag of a field."""
    from burnish.system.settings import plain_type

    inner = plain_type(field.info.annotation)
    kind = inner if isinstance(inner, type) and inner in (int, float, bool) else str
    if getattr(inner, "__origin__", None) is dict and field.path[0] != "roles":
        kind = list
    elif get_origin(inner) is tuple:
        item = plain_type(get_args(inner)[0])
        if item is str or _choices(item):
            inner, kind = item, tuple
    return Flag(
        name=field.name,
        spellings=field.flags,
        field=field,
        panel=field.door.panel,
        metavar=field.door.metavar or "|".join(_choices(inner)),
        kind=kind,
        paths=field.door.paths,
    )


def _choices(kind: object) -> tuple[str, ...]:
    """The values of a field that takes one of a few words."""
    values = get_args(kind) if get_origin(kind) is Literal else ()
    return tuple(values) if all(isinstance(each, str) for each in values) else ()


def file_arguments(
    args: Sequence[str], own: Sequence[Any], shared: Iterable[Flag]
) -> Iterator[Path]:
    """Arguments that may be the file: neither flags nor values of known flags.

    The known flags are the command's own options and those that all its runs share.
    """
    from burnish.system.user_code import is_reference

    valued = {spelling for flag in shared if flag.kind is not bool for spelling in flag.spellings}
    options = [each for each in own if not getattr(each, "is_flag", True)]
    valued |= {spelling for option in options for spelling in option.opts}
    values = {index + 1 for index, arg in enumerate(args) if arg in valued}
    for index, arg in enumerate(args):
        if index not in values and not arg.startswith("-") and Path(arg).is_file():
            yield Path(arg)
    # A model may look the same, but is always the value of a flag.
    agents = (i for i, arg in enumerate(args) if is_reference(arg) and not Path(arg).exists())
    yield from (Path(args[i]) for i in agents if not (i and args[i - 1].startswith("--")))
    if _value(args, "--agent") is not None:
        yield Path.cwd()
    elif USUAL_FILE.is_file():
        yield USUAL_FILE


def _value(args: Sequence[str], flag: str) -> str | None:
    """The value of a flag among unparsed arguments."""
    for index, arg in enumerate(args):
        if arg == flag and index + 1 < len(args):
            return args[index + 1]
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
    return None


def _folder(run: str) -> Path | None:
    """The folder of a run; None if there is none, which is reported later."""
    from burnish.runs.directory import find_run

    try:
        return find_run(run)
    except BurnishError:
        return None


def _refuse_useless(args: Sequence[str], flags: Sequence[Flag], own: Sequence[Any]) -> None:
    """Reject flags of other strategies or targets, and say whose they are."""
    spellings = {spelling for flag in flags for spelling in flag.spellings}
    spellings |= {spelling for option in own for spelling in getattr(option, "opts", ())}
    names = (arg.partition("=")[0] for arg in args if arg.startswith("--") and len(arg) > 2)
    unknown = [name for name in names if name not in spellings | _HELP]
    if not unknown:
        return
    from burnish.projects.description import only_strategy_with, owners_of

    doors = _doors_for(args, own) if "--strategy" in spellings else None
    problems = list[Problem]()
    for name in unknown:
        if owners := owners_of(name):
            message = f"only {' or '.join(owners)} has this flag"
            strategy = only_strategy_with(name, doors.target) if doors else ""
            remedy = f"add --strategy {strategy}" if strategy else ""
            problems.append(Problem(where=name, message=message, remedy=remedy))
    if problems:
        raise ConfigError(problems)
