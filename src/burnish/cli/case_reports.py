"""Converting, splitting and checking files of cases, and judges against labels."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import typer

from burnish.cli.evaluation import read_report
from burnish.cli.optimization import chosen_progress, resumable
from burnish.cli.progress import view
from burnish.core.cases import Split
from burnish.core.content import codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import counted, spending
from burnish.datasets.case_files import CaseFile
from burnish.datasets.checks import Findings, SplitFacts, check
from burnish.datasets.formats import convert, format_of, label_notes, read_cases, write_cases
from burnish.datasets.splits import split
from burnish.metrics.agreement import Agreement, JudgeVerdict
from burnish.projects.dialects import Flags
from burnish.projects.launch import Disagreement, JudgeChecked, prepare_judge_check
from burnish.reports.case_audit import CaseAudit, Doubt, audit_cases
from burnish.reports.rendering import Columns

_SHOWN = 10


def check_cases(files: list[Path], *, near: float, as_json: bool) -> None:
    """Check the files against each other; exit code 1 if there is an error."""
    twice = {path for path in files if files.count(path) > 1}
    if twice:
        raise ConfigError([Problem(where=str(p), message="named twice") for p in sorted(twice)])
    stems = [path.name for path in files]
    names = {path: path.name if stems.count(path.name) == 1 else str(path) for path in files}
    findings = check({names[path]: read_cases(path).cases for path in files}, near=near)
    if as_json:
        # What cannot be shown at all is infinite, which JSON cannot say.
        data = json.loads(
            json.dumps(codec(Findings).encode(findings)), parse_constant=lambda _: None
        )
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        _show(findings)
    if findings.errors:
        raise typer.Exit(1)


def _show(findings: Findings) -> None:
    table = Columns("file", "cases", "turns", "labels", "usual answer", "can show", cut=("labels",))
    for facts in findings.splits:
        table.add(*_row(facts))
    table.show()
    typer.echo("can show: the smallest difference in pass rate that a paired comparison on this")
    typer.echo("many cases finds in 4 of 5 tries, at 95 % confidence")
    if not findings.found:
        typer.echo("no other findings: no repeats, no leaks")
    for finding in findings.found:
        remedy = f" — {finding.remedy}" if finding.remedy else ""
        typer.echo(f"{finding.severity.value:8} {finding.where}: {finding.message}{remedy}")


def _row(facts: SplitFacts) -> Iterator[str]:
    labels = ", ".join(f"{label} {count}" for label, count in facts.labels.items())
    usual = "—" if facts.usual_share is None else f"{facts.usual_share:.0%}"
    small = facts.smallest_difference
    yield from (facts.name, str(facts.cases), str(facts.turns), labels or "—", usual)
    yield f"{small:.2f}" if math.isfinite(small) else "nothing"


def audit_measured_cases(names: list[str], *, as_json: bool) -> None:
    """Read the measurements and print the cases that should be looked at."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError([Problem(where=name, message="named twice") for name in twice])
    audit = audit_cases({name: read_report(name, name) for name in names})
    if as_json:
        typer.echo(json.dumps(codec(CaseAudit).encode(audit), indent=2, ensure_ascii=False))
        return
    several = counted(len(names), "measurement")
    typer.echo(f"audited  {counted(audit.cases, 'case')} with a verdict in {several}")
    table = Columns("case", "doubt", "evidence", cut=("case",), folded=("evidence",))
    listed = [each for each in audit.found if each.doubt is not Doubt.NEVER_FAILS]
    for each in listed:
        table.add(each.case, each.doubt.value, each.evidence)
    if listed:
        table.show()
    else:
        typer.echo("no case is in doubt")
    if easy := audit.of(Doubt.NEVER_FAILS):
        shown = ", ".join(each.case for each in easy[:_SHOWN])
        more = f" and {len(easy) - _SHOWN} more" if len(easy) > _SHOWN else ""
        typer.echo(f"easy     {len(easy)} of {audit.cases} never fail here: {shown}{more}")
        typer.echo("         they guard against regressions, and cannot show an improvement")
    if len(names) == 1:
        typer.echo(
            "note     whether a case is mislabelled takes measurements of two agents or more"
        )


def convert_cases(
    source: Path,
    target: Path,
    *,
    read_as: str | None,
    write_as: str | None,
    lossy: bool,
    force: bool,
) -> None:
    """Read, convert and write cases; stop before anything is lost unless allowed."""
    file = read_cases(source, format=read_as)
    format_name = write_as or format_of(target)
    write_converted(target, file, format_name, lossy=lossy, force=force)
    for note in label_notes(file, format_name):
        typer.echo(f"dropped  {note}", err=True)
    typer.echo(
        f"wrote    {target}: {counted(len(file.cases), 'case')}, {file.format} to {format_name}"
    )


def write_converted(
    target: Path, file: CaseFile, format_name: str, *, lossy: bool, force: bool
) -> None:
    """Write cases in a format; stop before anything is lost unless allowed, and say what is."""
    converted, losses = convert(file, format_name)
    if losses and not lossy:
        raise ConfigError(
            [Problem(where=format_name, message=loss) for loss in losses],
            remedy="use --lossy to write the rest; JSONL can hold everything",
        )
    _refuse_overwriting([target], force=force)
    write_cases(target, converted, format=format_name)
    for loss in losses:
        typer.echo(f"lost     {loss}", err=True)


def split_cases(
    source: Path,
    shares: tuple[float, float, float],
    *,
    seed: int,
    near: float,
    out: Path | None,
    force: bool,
) -> None:
    """Split a file into three beside it."""
    file = read_cases(source)
    by_split = dict(zip(Split, shares, strict=True))
    result = split(file.cases, seed=seed, shares=by_split, near=near)
    folder, endings = out or source.parent, (".evalset.json", ".test.json")
    ending = next((each for each in endings if source.name.endswith(each)), source.suffix)
    stem = source.name.removesuffix(ending)
    parts = [part for part in Split if result.dataset.cases(part)]
    files = {part: folder / f"{stem}-{part.value}{ending}" for part in parts}
    _refuse_overwriting(files.values(), force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for each, path in files.items():
        cases = result.dataset.cases(each)
        name = f"{file.eval_set_id}-{each}" if file.eval_set_id else ""
        write_cases(path, replace(file, eval_set_id=name, cases=cases), format=file.format)
        typer.echo(f"{each.value:8} {counted(len(cases), 'case'):10} {path}")
    for note in result.notes:
        typer.echo(f"note     {note}")
    typer.echo("next     burnish data check " + " ".join(map(str, files.values())))


def _refuse_overwriting(paths: Iterable[Path], *, force: bool) -> None:
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise ConfigError(
            [Problem(where=str(path), message="this file already exists") for path in there],
            remedy="use --force to overwrite it",
        )


def check_judges(labels: Path, flags: Flags, *, progress: str, as_json: bool) -> None:
    """Ask the judges, compare them with the labels, and print the agreement."""
    check = prepare_judge_check(labels, flags)
    with resumable([]), view(chosen_progress(progress), check.setup) as listeners:
        result = check.run(listeners)
    if as_json:
        data = {
            "metrics": {
                name: {
                    "said": [*agreed.sentences(), *result.verdicts[name].sentences()],
                    **_fields(agreed),
                    "verdict": codec(JudgeVerdict).encode(result.verdicts[name]),
                }
                for name, agreed in result.agreements.items()
            },
            "disagreements": [codec(Disagreement).encode(each) for each in result.disagreements],
            "notes": [*check.notes],
            "folder": str(result.ending.folder),
        }
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        for note in check.notes:
            typer.echo(f"note     {note}")
        _show_agreement(result)


def _show_agreement(checked: JudgeChecked) -> None:
    for name, agreed in checked.agreements.items():
        typer.echo(f"\n{name}")
        for sentence in (*agreed.sentences(), *checked.verdicts[name].sentences()):
            typer.echo(f"  {sentence}")
    apart = checked.disagreements
    if apart:
        typer.echo(f"\n{counted(len(apart), 'case')} on which label and judge differ")
    for each in apart[:_SHOWN]:
        typer.echo(f"  {each.case} · {each.metric}: {_disagreement_words(each)}")
    if len(apart) > _SHOWN:
        typer.echo(f"  … and {len(apart) - _SHOWN} more: --json shows all")
    typer.echo(f"\nspent    {spending(checked.ending.spent)}")
    typer.echo(f"journal  {checked.ending.folder}")


def _disagreement_words(each: Disagreement) -> str:
    label = each.label if not isinstance(each.label, bool) else ("pass" if each.label else "fail")
    verdict = "nothing" if each.value is None else f"{each.value:.2f}"
    return f"label {label}, judge {verdict}{f' ({each.reason})' if each.reason else ''}"


def _fields(agreed: Agreement) -> dict[str, object]:
    data = codec(Agreement).encode(agreed)
    assert isinstance(data, dict)
    return {**data}
