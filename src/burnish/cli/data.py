"""`burnish data`: import, convert, split, check."""

from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import options

app = typer.Typer(
    no_args_is_help=True, help="Convert, split and check the cases that everything depends on."
)

_Near = Annotated[
    float, typer.Option(help="The similarity from which two questions count as near-duplicates.")
]
_Input = Annotated[
    str, typer.Option("--input", metavar="COLUMN", help="The column with the question.")
]
_Expected = Annotated[
    str, typer.Option("--expected", metavar="COLUMN", help="The column with the answer.")
]
_Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]

_reading, _choosing, _writing = map(options.in_panel, ("Reading", "Choosing", "Writing"))
_TraceFormat = Annotated[
    str | None,
    _reading(
        "--from", metavar="FORMAT", help="otel, langfuse, langsmith or jsonl; else recognised."
    ),
]
_TraceFields = Annotated[
    list[str] | None,
    _reading(
        "--field",
        metavar="PART=NAME",
        help="Where a plain log has a part, such as input=request.text; may be repeated.",
    ),
]
_RedactPatterns = Annotated[
    list[str] | None,
    _reading("--redact", metavar="PATTERN", help="Remove this too; may be repeated."),
]
_KeepPersonal = Annotated[
    list[str] | None,
    _reading("--keep", metavar="KIND", help="Do not remove: email, phone or card; repeatable."),
]


@app.command("import")
def import_traces(
    source: Annotated[
        Path, typer.Argument(metavar="LOG", help="An export of traces, or a folder of them.")
    ],
    *,
    target: Annotated[
        Path, _writing("-o", "--out", metavar="FILE", help="A file that ends in .jsonl.")
    ],
    read_as: _TraceFormat = None,
    fields: _TraceFields = None,
    conditions: Annotated[
        list[str] | None,
        _choosing(
            "--where",
            metavar="CONDITION",
            help="error, ok, negative, positive, tag=NAME, score<0.5; commas between "
            "alternatives; repeat it to require several.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        _choosing(min=1, metavar="N", help="So many at random, balanced by outcome and tag."),
    ] = None,
    seed: Annotated[int, _choosing(help="Random seed of the sample.")] = 42,
    join_sessions: Annotated[
        bool, _choosing("--join-sessions", help="One case of several turns for each session.")
    ] = False,
    reply: Annotated[
        str,
        _writing(
            metavar="USE",
            help="The logged reply: keep (beside the case), record (`burnish eval` scores it), "
            "or expect (it is the right answer).",
        ),
    ] = "keep",
    redact: _RedactPatterns = None,
    keep: _KeepPersonal = None,
    force: _Force = False,
) -> None:
    """Make cases from traces: OpenTelemetry, Langfuse, LangSmith, plain logs.

    Keys, e-mail addresses, telephone and card numbers are removed. A question that comes twice
    is taken once. Broken lines are counted.
    """
    from burnish.cli.case_files import TraceImport, kinds_kept

    TraceImport(
        source=source,
        target=target,
        read_as=read_as,
        fields=tuple(fields or ()),
        conditions=tuple(conditions or ()),
        size=sample,
        seed=seed,
        reply=reply,
        join=join_sessions,
        patterns=tuple(redact or ()),
        personal=kinds_kept(keep or ()),
        force=force,
    ).run()


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A file of cases.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="A file that ends in .jsonl.")],
    *,
    read_as: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help="Needed if the name does not tell the format."
        ),
    ] = None,
    input_column: _Input = "",
    expected_column: _Expected = "",
    force: _Force = False,
) -> None:
    """Write cases of any format as JSON lines, which hold everything."""
    from burnish.cli.case_files import convert_cases

    columns = {"input": input_column, "expected": expected_column}
    convert_cases(source, target, read_as=read_as, columns=columns, force=force)


@app.command()
def split(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A file of cases.")],
    *,
    train: Annotated[float, typer.Option(help="The share to learn from.")] = 0.5,
    holdout: Annotated[float, typer.Option(help="The share that decides.")] = 0.3,
    test: Annotated[
        float, typer.Option(help="The share that is only read once, at the end.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Random seed of the split.")] = 42,
    near: _Near = 0.8,
    input_column: _Input = "",
    expected_column: _Expected = "",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Beside FILE by default.")
    ] = None,
    force: _Force = False,
) -> None:
    """Create train, holdout and test files. Near-duplicates stay together, labels are balanced."""
    from burnish.cli.case_files import split_cases

    columns = {"input": input_column, "expected": expected_column}
    shares = (train, holdout, test)
    split_cases(source, shares, seed=seed, near=near, columns=columns, out=out, force=force)


@app.command()
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="One file per split, train first.")
    ],
    *,
    near: _Near = 0.8,
    input_column: _Input = "",
    expected_column: _Expected = "",
    as_json: options.AsJson = False,
) -> None:
    """Look for repeats, leaks between files, empty references, and what a set can show.

    Exit code 1 if a case is in two files or a name occurs twice.
    """
    from burnish.cli.case_files import check_cases

    columns = {"input": input_column, "expected": expected_column}
    check_cases(files, near=near, columns=columns, as_json=as_json)
