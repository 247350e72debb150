"""Print the table. Name a part to measure only that: `python -m benchmarks overhead`."""

import os
import sys
import tempfile
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
    startup,
)
from benchmarks.figures import Figure


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
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"no benchmark '{unknown[0]}'; there are: {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as home:
        os.environ["BURNISH_HOME"] = home
        found = [figure for name in wanted for figure in PARTS[name]()]
    Console().print(table(found))


def table(figures: list[Figure]) -> Table:
    """The figures as a table."""
    shown = Table(title="burnish, measured here and now", box=None, pad_edge=False)
    for column in ("what", "measured", "goal", "", "beside"):
        shown.add_column(column, justify="right" if column in {"measured", "goal"} else "left")
    for each in figures:
        shown.add_row(each.what, each.shown, each.goal_shown, each.mark, each.peer_shown)
    return shown


if __name__ == "__main__":
    main()
