"""The texts of a run's cases, read again from the files that its description names."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.datasets.formats import read_cases
from burnish.runs.directory import RunRecord, known_runs


def stored_cases(run: RunRecord) -> Dataset | None:
    """The cases as their files have them now; None if the run names no file that can be read.

    Nothing is built or run for this. A folder from elsewhere may name any file of this machine,
    so only runs of its index are looked up.
    """
    spec = run.header.project.spec
    if not spec or run.folder.resolve() not in {folder.resolve() for folder in known_runs()}:
        return None
    data, source = _mapping(spec.get("data")), _mapping(spec.get("source"))
    home = Path(str(source.get("folder") or run.folder))
    splits = {split: _read(data.get(split.value), home) for split in Split}
    if not splits[Split.TRAIN]:
        # Agent files have their cases inside, unless they name a file.
        splits[Split.TRAIN] = _read(data.get("cases") or source.get("file"), home)
    if not any(splits.values()):
        return None
    return Dataset(
        train=splits[Split.TRAIN], holdout=splits[Split.HOLDOUT], test=splits[Split.TEST]
    )


def _read(sets: Json, home: Path) -> tuple[Case, ...]:
    named: Sequence[Json] = sets if isinstance(sets, list) else [sets]
    cases: list[Case] = []
    for each in named:
        file = each.get("file") if isinstance(each, dict) else each
        if isinstance(file, str) and file:
            with suppress(BurnishError, OSError):
                cases += read_cases(home / file).cases
    return tuple(cases)


def _mapping(value: Json) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", value) if isinstance(value, dict) else {}
