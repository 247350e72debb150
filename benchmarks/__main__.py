"""Print the table. Name a part to measure only that: `python -m benchmarks overhead`."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec

from rich.console import Console
from rich.table import Table

from benchmarks import (
    attribution,
    embedded,
    evaluating,
    false_accepts,
    growth,
    metrics,
    models,
    overhead,
    peers,
    retrieval,
    search_report,
    startup,
)
from benchmarks.figures import Figure
from benchmarks.page import add_option, made_with, write


def _service() -> list[Figure]:
    """Nothing where the extra `server` is not installed."""
    if not all(map(find_spec, ("fastapi", "sqlalchemy", "uvicorn"))):
        return []
    from benchmarks import service

    return service.figures()


def _pages() -> list[Figure]:
    """Nothing where the extra `view` is not installed."""
    if not all(map(find_spec, ("jinja2", "plotly"))):
        return []
    from benchmarks import pages

    return pages.figures()


def _workers() -> list[Figure]:
    """Nothing where the extra `cluster` is not installed."""
    if find_spec("distributed") is None:
        return []
    from benchmarks import workers

    return workers.figures()


PARTS = {
    "overhead": overhead.figures,
    "growth": growth.figures,
    "evaluating": evaluating.figures,
    "metrics": metrics.figures,
    "retrieval": retrieval.figures,
    "startup": startup.figures,
    "models": models.figures,
    "embedded": embedded.figures,
    "peers": peers.figures,
    "false-accepts": false_accepts.figures,
    "attribution": attribution.figures,
    "service": _service,
    "pages": _pages,
    "workers": _workers,
}


def main() -> None:
    """Measure, then print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}: all")
    add_option(parser)
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as home:
        os.environ["BURNISH_HOME"] = home
        found = [figure for name in asked.parts or PARTS for figure in PARTS[name]()]
    Console().print(table(found))
    if asked.write:
        rows = search_report.table(COLUMNS, map(_row, found))
        write("speed", f"{made_with('speed')}:\n\n{rows}")


COLUMNS = ("what", "measured", "goal", "", "beside")


def table(figures: Sequence[Figure]) -> Table:
    """The figures as a table for a terminal."""
    shown = Table(title="burnish, measured here and now", box=None, pad_edge=False)
    for column in COLUMNS:
        shown.add_column(column, justify="right" if column in {"measured", "goal"} else "left")
    for each in figures:
        shown.add_row(*_row(each))
    return shown


def _row(figure: Figure) -> list[str]:
    return [figure.what, figure.shown, figure.goal_shown, figure.mark, figure.peer_shown]


if __name__ == "__main__":
    main()
