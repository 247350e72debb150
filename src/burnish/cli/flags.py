"""Flags made from the fields of a run: one field, one flag.

Which flags a command has depends on what its file is about and on the strategy: those are looked
for among the arguments first, and nothing else is loaded. `--help` shows the flags of everything
that is installed.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast, get_args, get_origin

import typer
from typer.core import TyperCommand

from burnish.core.errors import BurnishError, ConfigError, Problem

if TYPE_CHECKING:
    from pydantic import JsonValue

    from burnish.system.settings import SettingField

_FLAGS = "burnish.flags"
"""Where the context of a command keeps what its flags say."""
USUAL_FILE = Path("agent.yaml")
_KINDS: Mapping[object, type] = {int: int, float: float, bool: bool}


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag: as much of a field as the command line shows and reads."""

    name: str
    spellings: tuple[str, ...]
    help: str
    panel: str
    metavar: str
    kind: type
    """int, float, bool or str; list for what may be repeated as NAME=VALUE, tuple for what may be
    repeated as it is."""
    paths: bool
    """Whether its values are files, which count from where the command is given."""

    def parameter(self) -> inspect.Parameter:
        """The flag as a parameter of a function, as typer reads it."""
        option = typer.Option(
            *self.spellings,
            help=self.help or None,
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
        """What the flag says, with whole paths; links stay, since an agent may read by them."""
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
        """NAME=VALUE, each name once; everything that is wrong is said at once."""
        pairs, messages = dict[str, str](), list[str]()
        for text in texts:
            name, equals, value = text.partition("=")
            if not (name.strip() and equals and value.strip()):
                messages.append(f"'{text}' is not of the form {self.metavar}")
            elif name in pairs:
                messages.append(f"'{name}' has two {'files' if self.paths else 'values'}")
            else:
                pairs[name] = str(Path(value).absolute()) if self.paths else value
        if messages:
            raise ConfigError([Problem(where=self.spellings[0], message=each) for each in messages])
        return pairs


class FieldsCommand(TyperCommand):
    """A command whose flags are fields of the run that its arguments describe."""

    panels: ClassVar[tuple[str, ...]] = ()
    """The groups of flags that it has; all of them where none is named."""
    explains: ClassVar[bool] = True
    """Whether a flag that it does not have is refused with the name of who has it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Find out what the run is about, add its flags, then read the arguments as usual."""
        own = [*self.params]
        looking = {"-h", "--help"} & set(args)
        made = self.every_flag() if looking else self.flags(args, own)
        flags = [flag for flag in made if not self.panels or flag.panel in self.panels]
        if self.explains:
            _refuse_useless(args, flags, own)
        plain = [each for each in own if getattr(each, "rich_help_panel", None) is None]
        grouped = [each for each in own if each not in plain]  # groups stand in order of flags
        self.params = [*plain, *_options(flags), *grouped]
        try:
            return super().parse_args(ctx, args)
        finally:
            if not looking:
                self.params = own

    def flags(self, args: Sequence[str], own: Sequence[Any]) -> Iterator[Flag]:
        """The flags of the run that these arguments are about."""
        return _flags_for(args, own)

    def every_flag(self) -> Iterator[Flag]:
        """What `--help` shows."""
        return _all_flags()


def flag_values(
    ctx: typer.Context, assignments: Sequence[str] | None = None
) -> "dict[str, JsonValue]":
    """What the flags of a command say, by the name of the field; `--set` under `set`."""
    flags = dict(cast("Mapping[str, JsonValue]", ctx.meta.get(_FLAGS, {})))
    return {**flags, "set": list(assignments)} if assignments else flags


def _options(flags: Sequence[Flag]) -> list[Any]:
    """The flags as options of typer, which keep what they are told in the context."""

    def command(**_: object) -> None:
        return None

    parameters = [flag.parameter() for flag in flags]
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
            options.append(option)
    return options


def _keeper(flag: Flag) -> Any:
    def keep(ctx: typer.Context, _: object, raw: Any) -> None:
        value = flag.value(raw or None if flag.kind in (list, tuple) else raw)
        if value is not None:
            ctx.meta.setdefault(_FLAGS, {})[flag.name] = value

    return keep


def _flags_for(args: Sequence[str], own: Sequence[Any]) -> Iterator[Flag]:
    """The flags of the run that these arguments are about; of every run, where that is unclear."""
    from burnish.projects.description import Doors, doors_of, doors_of_run

    shared = map(flag_of, Doors.of_any_run().named().values())
    files = list(file_arguments(args, own, shared))
    runs = [_value(args, "--resume"), *(args if _takes_run(own) else ())]
    if not any(str(file) in args for file in files):  # a file describes what is forked anew
        runs.append(_value(args, "--fork"))
    folders = (_folder(run) for run in runs if run is not None)
    doors = next((doors_of_run(each) for each in folders if each is not None), None)
    if doors is None:
        doors = doors_of(files, _value(args, "--strategy"))
    # Where no file can be told from another, what is wrong with it is the first thing to say.
    return _all_flags() if doors is None else map(flag_of, doors.named().values())


def _all_flags() -> Iterator[Flag]:
    """The flags of every target and strategy that is installed, each once."""
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
    many = getattr(inner, "__origin__", None) is dict and field.path[0] != "roles"
    return Flag(
        name=field.name,
        spellings=field.flags,
        help=field.door.off or _off(field.help) if field.switches_off else field.help,
        panel=field.door.panel,
        metavar=field.door.metavar,
        kind=list if many else tuple if _is_texts(inner) else _KINDS.get(inner, str),
        paths=field.door.paths,
    )


def _off(text: str) -> str:
    """The help of a flag that switches off what the text says."""
    return f"Switch off: {text[:1].lower()}{text[1:]}" if text else text


def _takes_run(own: Sequence[Any]) -> bool:
    """Whether the argument of a command is a run."""
    return any(getattr(each, "metavar", None) == "RUN" and not each.opts[0].startswith("-")
               for each in own)  # fmt: skip


def _is_texts(kind: object) -> bool:
    """Whether a field holds any number of texts."""
    from burnish.system.settings import plain_type

    return get_origin(kind) is tuple and plain_type(get_args(kind)[0]) is str


def file_arguments(
    args: Sequence[str], own: Sequence[Any], shared: Iterable[Flag]
) -> Iterator[Path]:
    """What may be the file: arguments that are neither flags nor values of flags that are known.

    Known are the command's own options, and the flags of all its runs.
    """
    valued = {spelling for flag in shared if flag.kind is not bool for spelling in flag.spellings}
    options = [each for each in own if not getattr(each, "is_flag", True)]
    valued |= {spelling for option in options for spelling in option.opts}
    values = {index + 1 for index, arg in enumerate(args) if arg in valued}
    for index, arg in enumerate(args):
        if index not in values and not arg.startswith("-") and Path(arg).is_file():
            yield Path(arg)
    if _value(args, "--agent") is not None:
        yield Path.cwd()
    elif USUAL_FILE.is_file():
        yield USUAL_FILE


def _value(args: Sequence[str], flag: str) -> str | None:
    """The value of a flag among arguments that were not read yet."""
    for index, arg in enumerate(args):
        if arg == flag and index + 1 < len(args):
            return args[index + 1]
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
    return None


def _folder(run: str) -> Path | None:
    """The folder of a run; None where there is no such run, which is said later."""
    from burnish.runs.directory import find_run

    try:
        return find_run(run)
    except BurnishError:
        return None


def _refuse_useless(args: Sequence[str], flags: Sequence[Flag], own: Sequence[Any]) -> None:
    """A flag of another strategy or target is more likely a mistake than a wish: say whose."""
    spellings = {spelling for flag in flags for spelling in flag.spellings}
    spellings |= {spelling for option in own for spelling in getattr(option, "opts", ())}
    names = (arg.partition("=")[0] for arg in args if arg.startswith("--") and len(arg) > 2)
    unknown = [name for name in names if name not in spellings]
    if not unknown:
        return
    from burnish.projects.description import owners_of

    problems = [
        Problem(where=name, message=f"only {' or '.join(owners)} can be told this")
        for name in unknown
        if (owners := owners_of(name))
    ]
    if problems:
        raise ConfigError(problems)
