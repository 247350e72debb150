"""`burnish data`: import, convert, split, check, audit; grow, accept; label, judge-check."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from burnish.cli import options

app = typer.Typer(
    no_args_is_help=True, help="Convert, split and check the cases that everything depends on."
)

_CASES, _GROWTH, _JUDGES = "Cases", "New cases", "Labels and judges"

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


@app.command("import", rich_help_panel=_CASES)
def import_traces(
    source: Annotated[
        Path, typer.Argument(metavar="LOG", help="An export of traces, or a folder of them.")
    ],
    *,
    target: Annotated[
        Path, _writing("-o", "--out", metavar="FILE", help="Its name determines the format.")
    ],
    read_as: options.TraceFormat = None,
    fields: options.TraceFields = None,
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
    redact: options.RedactPatterns = None,
    keep: options.KeepPersonal = None,
    lossy: Annotated[
        bool, _writing("--lossy", help="Continue even if the format cannot hold everything.")
    ] = False,
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
        lossy=lossy,
        force=force,
    ).run()


@app.command(rich_help_panel=_CASES)
def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A file of cases.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="Its name determines the format.")],
    *,
    read_as: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help="Needed if the name does not tell the format."
        ),
    ] = None,
    write_as: Annotated[
        str | None,
        typer.Option("--to", metavar="FORMAT", help="Needed if the name does not tell the format."),
    ] = None,
    input_column: _Input = "",
    expected_column: _Expected = "",
    lossy: Annotated[
        bool,
        typer.Option("--lossy", help="Continue even if the new format cannot hold everything."),
    ] = False,
    force: _Force = False,
) -> None:
    """Write cases in another format. Stops if the format cannot hold everything."""
    from burnish.cli.case_files import convert_cases

    columns = {"input": input_column, "expected": expected_column}
    convert_cases(
        source,
        target,
        read_as=read_as,
        write_as=write_as,
        columns=columns,
        lossy=lossy,
        force=force,
    )


@app.command(rich_help_panel=_CASES)
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


@app.command(rich_help_panel=_CASES)
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


@app.command(rich_help_panel=_CASES)
def audit(
    measurements: Annotated[
        list[str],
        typer.Argument(
            metavar="MEASUREMENT...",
            autocompletion=options.run_ids,
            help="Runs of `burnish eval` over the same cases, or their --json reports.",
        ),
    ],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Look for cases that are likely mislabelled, contradict others, always or never fail.

    Measurements of different agents are the best evidence: models, prompts, versions.
    """
    from burnish.cli.case_files import audit_measured_cases

    audit_measured_cases(measurements, as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class _Writer:
    """Who writes new cases."""

    model: Annotated[str, typer.Option(metavar="MODEL", help="Writes the cases.")]
    base_url: options.BaseUrl = ""
    api_key_env: options.KeyVariable = ""


@dataclass(frozen=True, kw_only=True)
class _Sources:
    """What new cases are made from, and how many."""

    runs: Annotated[
        list[str] | None,
        _choosing(
            "--run",
            metavar="RUN",
            autocompletion=options.run_ids,
            help="Grow from the failing cases of a run; may be repeated.",
        ),
    ] = None
    documents: Annotated[
        list[Path] | None,
        _choosing("--documents", metavar="PATH", help="Grow from files or a folder of them."),
    ] = None
    traces: Annotated[
        list[Path] | None,
        _choosing("--traces", metavar="LOG", help="Grow from traces, as `data import` reads them."),
    ] = None
    into: Annotated[
        Path | None,
        _choosing(
            "--into",
            metavar="FILE",
            help="Which file cases of documents and of new traces are for; by default the first.",
        ),
    ] = None
    kinds: Annotated[
        str,
        _choosing(
            metavar="KINDS",
            help="paraphrase, edge, adversarial, multi-turn, with commas between them.",
        ),
    ] = "paraphrase,edge,adversarial"
    count: Annotated[int, _choosing(min=1, max=20, help="Cases of each kind and source.")] = 1
    sample: Annotated[
        int, _choosing(min=1, metavar="N", help="So many sources at random, if there are more.")
    ] = 20
    seed: Annotated[
        int, _choosing(help="Random seed of the sample; another one asks for other cases.")
    ] = 42


@app.command(rich_help_panel=_GROWTH)
@options.flag_group("writer", _Writer)
@options.flag_group("sources", _Sources)
def grow(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="One file per split, train first.")
    ],
    *,
    writer: _Writer,
    target: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="FILE", help="The proposals, a JSONL file of cases."),
    ] = Path("proposals.jsonl"),
    sources: _Sources,
    redact: options.RedactPatterns = None,
    keep: options.KeepPersonal = None,
    max_calls: options.MaxCalls = None,
    max_usd: options.MaxUsd = None,
    concurrency: options.Concurrency = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be asked; nothing is paid.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Propose new cases from failures, documents and traces; `accept` adds those you want.

    A model writes them. Near-duplicates and cases that would leak between files are left out. Run
    the same command again to continue; nothing is paid twice.
    """
    from burnish.cli.case_curation import grow_cases, growth_options

    chosen = growth_options(
        files,
        model=writer.model,
        base_url=writer.base_url,
        api_key=f"${{{writer.api_key_env}}}" if writer.api_key_env else "",
        out=target,
        runs=tuple(sources.runs or ()),
        documents=tuple(sources.documents or ()),
        traces=tuple(sources.traces or ()),
        into=sources.into,
        kinds=sources.kinds,
        count=sources.count,
        most=sources.sample,
        seed=sources.seed,
        redact=redact or (),
        keep=keep or (),
        max_calls=max_calls,
        max_usd=max_usd,
        concurrency=concurrency,
    )
    grow_cases(chosen, dry_run=dry_run, as_json=as_json)


@app.command(rich_help_panel=_GROWTH)
def accept(
    proposals: Annotated[Path, typer.Argument(metavar="PROPOSALS", help="From `data grow`.")],
    *,
    cases: Annotated[
        list[str] | None,
        typer.Option("--case", metavar="NAME", help="Accept this proposal; may be repeated."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Accept all of them.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FILE", help="For proposals that do not say which file they are for."
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Another split, which must not have these cases; may be repeated."
        ),
    ] = None,
    person: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Who accepts; by default your user.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be added, and where.")
    ] = False,
) -> None:
    """Add proposed cases to the file that they are for, in its own format.

    Without --case or --all, the proposals are shown and nothing is added.
    """
    from burnish.cli.case_curation import accept_cases, show_proposals
    from burnish.datasets.proposals import acceptances

    if not cases and not everything:
        show_proposals(proposals)
        return
    name = options.user_name() if person is None else person
    chosen = acceptances(proposals, cases or [], to=to, against=against or ())
    accept_cases(chosen, person=name, dry_run=dry_run)


@app.command(rich_help_panel=_JUDGES)
def label(
    cases: Annotated[
        Path, typer.Argument(metavar="FILE", help="Cases, best with a column reply or recorded.")
    ],
    *,
    person: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Who labels; by default your user.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="SCALE",
            help="pass-fail (default), score from 0 to 1, or classes such as good,fair,bad.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also show the cases that you have labelled.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Only drop labels of cases that are gone or changed.")
    ] = False,
) -> None:
    """Label one case after the other with the keyboard; every answer is saved at once.

    Labels are in FILE.labels.jsonl. Several people can label; nobody sees the others' labels.
    """
    from burnish.cli.case_curation import forget_labels, label_cases

    if forget:
        forget_labels(cases)
        return
    name = options.user_name() if person is None else person
    label_cases(cases, person=name, scale=scale, everything=everything)


@app.command(rich_help_panel=_JUDGES)
def agreement(
    cases: Annotated[
        Path, typer.Argument(metavar="FILE", help="Cases that two people or more have labelled.")
    ],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Show how far people agree on their labels: raw, beyond chance, and where they do not."""
    from burnish.cli.case_curation import print_agreement

    print_agreement(cases, as_json=as_json)


@app.command("judge-check", rich_help_panel=_JUDGES)
def judge_check(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS", help="Rows with input, reply and label, and optionally expected."
        ),
    ],
    *,
    metrics: Annotated[
        Path, typer.Option("--metrics", metavar="FILE", help="A file that contains the metrics.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help="Only this metric; may be repeated."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="The judge for metrics that do not name one."),
    ] = None,
    max_calls: options.MaxCalls = None,
    max_usd: options.MaxUsd = None,
    concurrency: options.Concurrency = None,
    progress: options.Progress = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Measure a judge against your own labels: agreement, what it misses, what it leans to.

    Run the same command again to continue; nothing is paid twice.
    """
    from burnish.cli.case_curation import check_judges

    flags: dict[str, Any] = {
        "metrics": str(metrics.absolute()),
        "metric": metric or None,
        "judge": judge,
        "max_calls": max_calls,
        "max_usd": max_usd,
        "concurrency": concurrency,
    }
    check_judges(labels, flags, progress="none" if as_json else progress, as_json=as_json)
