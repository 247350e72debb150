"""How far the judges of a run agree with people, as checks of the same judges found out."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from burnish.core.content import Json
from burnish.metrics.agreement import AGREEMENT, CheckedJudge, stored_judges
from burnish.runs.directory import RunRecord, look_into


def checked_judges(run: RunRecord, folders: Iterable[Path]) -> tuple[CheckedJudge, ...]:
    """What is known about the metrics of a run: from the checks in these folders, each once."""
    checks = [each for each in folders if (each / AGREEMENT).is_file()]
    if not checks:
        return ()
    metrics = _metrics(run)
    found = dict.fromkeys(each for folder in checks for each in stored_judges(folder))
    return tuple(each for each in found if (each.metric, each.fingerprint) in metrics)


def _metrics(run: RunRecord) -> set[tuple[str, str]]:
    """Name and fingerprint of the metrics that scored its first trials."""
    with look_into(run.folder) as journal:
        rows = journal.values({0, 1}, kinds=("score",))
        return {pair for row in rows for pair in _pairs(row.request)}


def _pairs(request: Json) -> Iterator[tuple[str, str]]:
    metrics = request.get("metrics") if isinstance(request, dict) else None
    for each in metrics if isinstance(metrics, list) else ():
        match each:
            case [str(name), str(fingerprint)]:
                yield name, fingerprint
            case _:
                pass
