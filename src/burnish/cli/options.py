"""Flags that several commands share. Their bounds are those of the file: see `system.settings`."""

import getpass
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer


def user_name() -> str:
    """Who is at the keyboard; empty if the system does not know."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # nobody has a name in this container
        return ""


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


_limit, _output = in_panel("Limits"), in_panel("Output")

MaxCalls = Annotated[int | None, _limit(help="Paid calls: agent, judge, proposer.")]
MaxUsd = Annotated[float | None, _limit(help="US dollars.")]
Concurrency = Annotated[int | None, typer.Option(help="The number of cases to run at once.")]
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

_traces = in_panel("Reading")
TraceFormat = Annotated[
    str | None,
    _traces(
        "--from", metavar="FORMAT", help="otel, langfuse, langsmith or jsonl; else recognised."
    ),
]
TraceFields = Annotated[
    list[str] | None,
    _traces(
        "--field",
        metavar="PART=NAME",
        help="Where a plain log has a part, such as input=request.text; may be repeated.",
    ),
]
RedactPatterns = Annotated[
    list[str] | None,
    _traces("--redact", metavar="PATTERN", help="Remove this too; may be repeated."),
]
KeepPersonal = Annotated[
    list[str] | None,
    _traces("--keep", metavar="KIND", help="Do not remove: email, phone or card; repeatable."),
]
