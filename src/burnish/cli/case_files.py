"""Converting and splitting files of cases."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import typer

from burnish.core.cases import Split
from burnish.core.errors import ConfigError, Problem
from burnish.core.words import counted
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.converting import convert
from burnish.evaluation.datasets.format_table import format_of
from burnish.evaluation.datasets.formats import read_cases, write_cases
from burnish.evaluation.datasets.splitting import split

_ENDINGS = (".evalset.json", ".test.json")


def convert_cases(
    source: Path,
    target: Path,
    *,
    read_as: str | None,
    write_as: str | None,
    lossy: bool,
    force: bool,
) -> None:
    """Read, convert, write; stop before anything is lost unasked."""
    file = read_cases(source, format=read_as)
    wanted = write_as or format_of(target)
    converted, losses = convert(file, wanted)
    if losses and not lossy:
        raise ConfigError(
            [Problem(where=wanted, message=loss) for loss in losses],
            remedy="--lossy writes the rest; JSONL holds everything",
        )
    _refuse_overwriting([target], force=force)
    write_cases(target, converted, format=wanted)
    for loss in losses:
        typer.echo(f"lost     {loss}", err=True)
    typer.echo(f"wrote    {target}: {counted(len(file.cases), 'case')}, {file.format} to {wanted}")


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
    wanted = dict(zip(Split, shares, strict=True))
    found = split(file.cases, seed=seed, shares=wanted, near=near)
    folder = out or source.parent
    files = {s: folder / _named(source, s) for s in Split if found.dataset.cases(s)}
    _refuse_overwriting(files.values(), force=force)
    folder.mkdir(parents=True, exist_ok=True)
    for each, path in files.items():
        cases = found.dataset.cases(each)
        write_cases(path, replace(_part(file, each), cases=cases), format=file.format)
        typer.echo(f"{each.value:8} {counted(len(cases), 'case'):10} {path}")
    for note in found.notes:
        typer.echo(f"note     {note}")
    typer.echo("next     burnish data check " + " ".join(map(str, files.values())))


def _part(file: CaseFile, part: Split) -> CaseFile:
    return replace(file, eval_set_id=f"{file.eval_set_id}-{part}" if file.eval_set_id else "")


def _named(source: Path, part: Split) -> str:
    ending = next((e for e in _ENDINGS if source.name.endswith(e)), source.suffix)
    return f"{source.name.removesuffix(ending)}-{part.value}{ending}"


def _refuse_overwriting(paths: Iterable[Path], *, force: bool) -> None:
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise ConfigError(
            [Problem(where=str(path), message="this file is there already") for path in there],
            remedy="--force writes over it",
        )
