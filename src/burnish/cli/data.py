"""`burnish data`: convert, split, check, judge-check."""

from pathlib import Path
from typing import Annotated, Any

import typer

from burnish.cli import options

app = typer.Typer(no_args_is_help=True, help="Look after the cases that everything rests on.")

_CASES, _JUDGES = "Cases", "Judges"

_Format = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="evalset, promptiter, test_cases, jsonl, json or csv."),
]
_Near = Annotated[
    float, typer.Option(help="From which likeness on two questions count as near-duplicates.")
]
_Force = Annotated[bool, typer.Option("--force", help="Write over files that are there.")]


@app.command(rich_help_panel=_CASES)
def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A file of cases.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="Its name tells the format.")],
    *,
    read_as: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Where the name does not tell.")
    ] = None,
    write_as: Annotated[
        str | None, typer.Option("--to", metavar="FORMAT", help="Where the name does not tell.")
    ] = None,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Go on where the new format cannot hold everything.")
    ] = False,
    force: _Force = False,
) -> None:
    """Write cases in another format. What it cannot hold is said, and stops it."""
    from burnish.cli.case_reports import convert_cases

    convert_cases(source, target, read_as=read_as, write_as=write_as, lossy=lossy, force=force)


@app.command(rich_help_panel=_CASES)
def split(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A file of cases.")],
    *,
    train: Annotated[float, typer.Option(help="The share to learn from.")] = 0.5,
    holdout: Annotated[float, typer.Option(help="The share that decides.")] = 0.3,
    test: Annotated[float, typer.Option(help="The share that is looked at once.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 42,
    near: _Near = 0.8,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Beside FILE by default.")
    ] = None,
    force: _Force = False,
) -> None:
    """Make train, holdout and test files. Near-duplicates stay together, labels are spread."""
    from burnish.cli.case_reports import split_cases

    split_cases(source, (train, holdout, test), seed=seed, near=near, out=out, force=force)


@app.command(rich_help_panel=_CASES)
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="One file a split, train first.")
    ],
    *,
    near: _Near = 0.8,
    as_json: options.AsJson = False,
) -> None:
    """Look for repeats, leaks between files, empty references, and what a set can show.

    Exit code 1 when a case is in two files or a name is there twice.
    """
    from burnish.cli.case_reports import check_cases

    check_cases(files, near=near, as_json=as_json)


@app.command("judge-check", rich_help_panel=_JUDGES)
def judge_check(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="Rows with input, reply, label; expected.")
    ],
    *,
    metrics: Annotated[
        Path, typer.Option("--metrics", metavar="FILE", help="A file that has the metrics.")
    ],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="NAME", help="Only this one; repeat.")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Who judges where a metric names nobody."),
    ] = None,
    max_calls: options.MaxCalls = None,
    max_usd: options.MaxUsd = None,
    concurrency: options.Concurrency = None,
    progress: options.Progress = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Measure a judge against your own labels: agreement, what it misses, what it leans to.

    The same command again goes on where it was, and pays for nothing twice.
    """
    from burnish.cli.case_reports import check_judges

    flags: dict[str, Any] = {
        "metrics": str(metrics.absolute()),
        "metric": metric or None,
        "judge": judge,
        "max_calls": max_calls,
        "max_usd": max_usd,
        "concurrency": concurrency,
    }
    check_judges(labels, flags, progress="none" if as_json else progress, as_json=as_json)
