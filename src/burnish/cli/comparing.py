"""`burnish runs compare`."""

import json

import typer

from burnish.cli.listing import facts, losses
from burnish.core.content import Json
from burnish.core.words import counted, number, spending, visible
from burnish.reports.compare import CaseDelta, compare_cases
from burnish.reports.terminal import Columns
from burnish.runs.index import find_run
from burnish.runs.record import RunRecord, sealed_words

_SPLITS = ("train", "holdout")
_SHOWN = 20


def print_comparison(left_name: str, right_name: str, *, as_json: bool) -> None:
    """Two runs side by side."""
    left, right = (RunRecord.read(find_run(name)) for name in (left_name, right_name))
    deltas = {split: compare_cases(left, right, split) for split in _SPLITS}
    if as_json:
        cases: dict[str, Json] = {
            split: [_fields(d) for d in found] for split, found in deltas.items()
        }
        told = {"left": facts(left), "right": facts(right), "cases": cases}
        typer.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return
    _print_sides(left, right)
    for split, found in deltas.items():
        _print_cases(split, found)


def _print_sides(left: RunRecord, right: RunRecord) -> None:
    names = (left.header.id, right.header.id)
    table = Columns("", *names, folded=names)
    rows = (
        ("strategy", *(run.header.strategy for run in (left, right))),
        ("status", left.status, right.status),
        ("trials", *(f"{run.trials}, {run.accepted} accepted" for run in (left, right))),
        *((f"{split} loss", losses(left, split), losses(right, split)) for split in _SPLITS),
        ("sealed test", _sealed(left), _sealed(right)),
        ("spent", spending(left.spent), spending(right.spent)),
    )
    for row in rows:
        table.add(*row)
    table.show()


def _print_cases(split: str, deltas: list[CaseDelta]) -> None:
    if not deltas:
        typer.echo(f"{split}: the best candidates share no scored case")
        return
    words = {word: sum(d.word == word for d in deltas) for word in ("up", "down", "same")}
    shared = counted(len(deltas), "shared case")
    told = ", ".join(f"{n} {word}" for word, n in words.items())
    typer.echo(f"{split}: {told} of {shared}, from left to right by score")
    moved = [delta for delta in deltas if delta.word != "same"]
    for delta in moved[:_SHOWN]:
        scores = f"{number(delta.left)} → {number(delta.right)}"
        typer.echo(f"  {delta.word:<4} {visible(delta.case)}  {scores}")
    if len(moved) > _SHOWN:
        typer.echo(f"  … and {len(moved) - _SHOWN} more")


def _fields(delta: CaseDelta) -> Json:
    return {"case": delta.case, "left": delta.left, "right": delta.right, "word": delta.word}


def _sealed(run: RunRecord) -> str:
    return "not read" if run.sealed is None else sealed_words(run.sealed)
