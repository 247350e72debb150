"""What checking judges against labels says."""

import json
from pathlib import Path

import typer

from burnish.cli.progress import Progress, view
from burnish.cli.running import chosen_progress, resumable
from burnish.core.codec import codec
from burnish.core.words import counted, spending
from burnish.evaluation.agreement import Agreement
from burnish.projects.describing import Flags
from burnish.projects.judge_check import Disagreement, JudgeChecked, prepare_judge_check

_SHOWN = 10


def check_judges(labels: Path, flags: Flags, *, progress: str, as_json: bool) -> None:
    """Ask the judges, compare with the labels, say what follows."""
    check = prepare_judge_check(labels, flags)
    chosen: Progress = chosen_progress(progress)
    with resumable([]), view(chosen, check.setup.budget) as listeners:
        found = check.run(listeners)
    if as_json:
        typer.echo(json.dumps(_plain(found), indent=2, ensure_ascii=False))
    else:
        _show(found)


def _show(found: JudgeChecked) -> None:
    for name, agreed in found.agreements.items():
        typer.echo(f"\n{name}")
        for sentence in agreed.sentences():
            typer.echo(f"  {sentence}")
    apart = found.disagreements
    if apart:
        typer.echo(f"\n{counted(len(apart), 'case')} on which label and judge differ")
    for each in apart[:_SHOWN]:
        typer.echo(f"  {each.case} · {each.metric}: {_told(each)}")
    if len(apart) > _SHOWN:
        typer.echo(f"  … and {len(apart) - _SHOWN} more: --json shows all")
    typer.echo(f"\nspent    {spending(found.ending.spent)}")
    typer.echo(f"journal  {found.ending.folder}")


def _told(each: Disagreement) -> str:
    label = each.label if not isinstance(each.label, bool) else ("pass" if each.label else "fail")
    said = "nothing" if each.value is None else f"{each.value:.2f}"
    return f"label {label}, judge {said}{f' ({each.reason})' if each.reason else ''}"


def _plain(found: JudgeChecked) -> object:
    return {
        "metrics": {
            name: {"said": list(agreed.sentences()), **_fields(agreed)}
            for name, agreed in found.agreements.items()
        },
        "disagreements": [codec(Disagreement).encode(each) for each in found.disagreements],
        "folder": str(found.ending.folder),
    }


def _fields(agreed: Agreement) -> dict[str, object]:
    data = codec(Agreement).encode(agreed)
    assert isinstance(data, dict)
    return {**data}
