"""`burnish schema`: the JSON Schemas of files, and of the lines of `--progress json`."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            autocompletion=options.file_kinds,
            help="A kind of file, such as agent, prompts, graph, task or suite; or progress, for "
            "the lines of --progress json.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it to a file instead."),
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of file, so that an editor can complete and check it.

    It includes the settings of installed plug-ins. With the schema in a file, the first line of a
    YAML file names it: `# yaml-language-server: $schema=agent.schema.json`.
    """
    from burnish.projects.schemas import schema_text
    from burnish.system import write_atomic

    text = schema_text(kind)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_atomic(output, text)
    typer.echo(f"made     {output}")
    if kind in options.file_kinds(""):
        typer.echo(f"use it   # yaml-language-server: $schema={output.name}")
