"""The demo, smaller: the embedded model is tuned by burnish itself, and the result holds up."""

from pathlib import Path

import pytest

from burnish.datasets.formats import read_cases, write_cases
from tests.cli.console import Burnish
from tests.example_copies import copy_example
from tests.models.smollm2 import HERE, needs_smollm2


@pytest.mark.model
@needs_smollm2
def test_a_small_model_learns_its_job_from_demonstrations(burnish: Burnish, tmp_path: Path) -> None:
    home = copy_example("extract", tmp_path / "extract")
    agent = home / "agent.yaml"
    agent.write_text(agent.read_text(encoding="utf-8").replace("name: smollm2", f"name: {HERE}"))
    for name, count in (("train", 5), ("holdout", 5), ("test", 4)):
        path = home / "data" / f"{name}.yaml"
        write_cases(path, read_cases(path).cases[:count])
    said = burnish("optimize", str(agent), "--repeats", "2", "--progress", "none")
    assert said.code == 0
    words = "claim    sealed test, looked at once: score 0.000 → "
    assert words in said.out
    reached = float(said.out.partition(words)[2].split()[0])
    assert reached > 0.5
    (best,) = home.glob("results/optimizer/*/best.yaml")
    again = burnish("eval", str(best), "-q", "--cases", str(home / "data" / "holdout.yaml"))
    assert "passed" in again.out
