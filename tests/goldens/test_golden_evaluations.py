"""`burnish eval` of recorded replies, an agent file and a graph: console, reports, run folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from burnish.cli.evaluation import EvalRequest, evaluate_agent
from burnish.projects.measurements import measurement_for
from tests.cli.console import Burnish, tree
from tests.cli.test_cli_eval import AWAY, BAD, CRASH, EQUALITY, GOOD, write
from tests.goldens.harness import Goldens, Watching, left_behind, shown
from tests.projects import optimizer_world
from tests.projects.graph import graph_world

pytestmark = pytest.mark.slow

ARGS = ("eval", "cases.jsonl", "--metrics", "metrics.yaml", "--progress", "lines")


def test_recorded_replies(tmp_path: Path, burnish: Burnish, goldens: Goldens) -> None:
    (tmp_path / "metrics.yaml").write_text(EQUALITY, encoding="utf-8")
    write(tmp_path, GOOD, BAD, CRASH, AWAY)
    before = tree(tmp_path)
    files = ("--json", "report.json", "--junit", "report.xml")
    made = {"console.txt": shown(burnish(*ARGS, "-o", "run", *files))}
    made |= left_behind(tmp_path, before)
    write(tmp_path, GOOD, CRASH)
    made["baseline.txt"] = shown(burnish(*ARGS, "-o", "again", "--baseline", "run"))
    made["noise.txt"] = shown(burnish(*ARGS, "-o", "noise", "--aa", "3"))
    made["quiet.txt"] = shown(burnish(*ARGS[:4], "-q"))
    made["show.txt"] = shown(burnish("runs", "show", "run"))
    made["compare.txt"] = shown(burnish("runs", "compare", "run", "again"))
    goldens.check("evaluations/recorded", made)


def agent(folder: Path) -> Callable[[], None]:
    """The agent file of the optimizer's tests."""
    file = optimizer_world.write_world(folder)
    models = optimizer_world.echo_models(optimizer_world.echo())
    flags = {"cases": str(folder / "train.yaml")}
    asked = EvalRequest(agent=file, flags=flags, output_dir=Path("run"), progress="lines")
    return lambda: evaluate_agent(asked, load=partial(measurement_for, models=models))


def graph(folder: Path) -> Callable[[], None]:
    """A graph as it stands."""
    asked = EvalRequest(
        agent=graph_world.write_world(folder), output_dir=Path("run"), progress="lines"
    )
    load = partial(measurement_for, models=graph_world.models())
    return lambda: evaluate_agent(asked, load=load)


@pytest.mark.parametrize("world", [agent, graph], ids=["agent", "graph"])
def test_an_agent(
    world: Callable[[Path], Callable[[], None]],
    tmp_path: Path,
    watching: Watching,
    goldens: Goldens,
) -> None:
    measure = world(tmp_path)
    before = tree(tmp_path)
    made = {"console.txt": shown(watching(measure)), **left_behind(tmp_path, before)}
    goldens.check(f"evaluations/{world.__name__}", made)
