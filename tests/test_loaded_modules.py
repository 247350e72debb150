"""What a command loads: the modules of what its file names, and little else."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from burnish.models.embedded.files import KNOWN
from tests.example_copies import copy_example
from tests.models.gguf_files import gguf

MOST = 350
"""Modules of burnish that a dry run of an agent file may load."""
FOREIGN = (
    "burnish.compat",
    "burnish.delegation",
    "burnish.metrics.eval_factory",
    "burnish.metrics.graders",
    "burnish.models.wire",
    "burnish.projects.artifacts",
    "burnish.projects.graph",
    "burnish.projects.prompts",
    "burnish.retrieval",
    "burnish.server",
    "burnish.strategies.backprop.strategy",
    "burnish.strategies.edits",
    "burnish.strategies.reflective.search",
    "burnish.system.pdf_files",
    "burnish.targets.agent.office_documents",
    "burnish.targets.artifacts",
    "burnish.targets.callables",
    "burnish.targets.graph",
    "burnish.targets.prompts",
    "burnish.testing",
)
"""What an agent file that names nothing of it has no use for."""
DRY_RUN = """
import sys
from burnish.cli import main
try:
    main(["optimize", "agent.yaml", "--dry-run"])
except SystemExit as end:
    print(end.code, *(name for name in sys.modules if name.split(".")[0] == "burnish"))
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The modules of burnish that a dry run of examples/extract has loaded."""
    pytest.importorskip("xllamacpp", reason="the example's model runs on this machine")
    home = tmp_path_factory.mktemp("home")
    (home / "models").mkdir()
    (home / "models" / KNOWN["smollm2"].name).write_bytes(gguf())
    done = subprocess.run(
        [sys.executable, "-c", DRY_RUN],
        cwd=copy_example("extract", tmp_path_factory.mktemp("example") / "extract"),
        env={**os.environ, "BURNISH_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, *names = done.stdout.splitlines()[-1].split()
    assert code == "0", done.stderr
    return names


def test_a_dry_run_loads_few_modules(modules: list[str]) -> None:
    rooms = Counter(".".join(name.split(".")[1:3]) for name in modules)
    assert len(modules) <= MOST, rooms.most_common(30)


def test_a_dry_run_loads_nothing_that_its_file_does_not_name(modules: list[str]) -> None:
    loaded = [name for name in modules if f"{name}.".startswith(tuple(f"{f}." for f in FOREIGN))]
    assert loaded == []
