"""The demo, smaller: the embedded model is tuned by burnish itself, and the result holds up."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from burnish.system import read_tree
from tests.cli.console import Burnish
from tests.example_copies import copy_example
from tests.models.gguf_files import gguf
from tests.models.smollm2 import HERE, needs_smollm2


@pytest.mark.model
@needs_smollm2
def test_a_small_model_learns_its_job_from_demonstrations(burnish: Burnish, tmp_path: Path) -> None:
    home = copy_example("extract", tmp_path / "extract")
    agent = home / "agent.yaml"
    agent.write_text(agent.read_text(encoding="utf-8").replace("name: smollm2", f"name: {HERE}"))
    for name, count in (("train", 5), ("holdout", 5), ("test", 4)):
        path = home / "data" / f"{name}.yaml"
        cases = cast("list[Any]", read_tree(path).data)
        path.write_text(json.dumps(cases[:count]), encoding="utf-8")  # JSON is YAML
    said = burnish("optimize", str(agent), "--progress", "none")
    assert said.code == 0
    words = "claim    sealed test, looked at once: score 0.000 → "
    assert words in said.out
    reached = float(said.out.partition(words)[2].split()[0])
    assert reached > 0.5
    (best,) = home.glob("results/optimizer/*/best.yaml")
    again = burnish("eval", str(best), "-q", "--cases", str(home / "data" / "holdout.yaml"))
    assert "passed" in again.out


def test_its_plan_is_short_and_leaves_nothing_out(burnish: Burnish, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the example's model runs on this machine")
    agent = copy_example("extract", tmp_path / "extract") / "agent.yaml"
    (tmp_path / "m.gguf").write_bytes(gguf())
    text = agent.read_text(encoding="utf-8").replace("name: smollm2", f"name: {tmp_path}/m.gguf")
    agent.write_text(text, encoding="utf-8")
    planned = burnish("optimize", str(agent), "--dry-run")
    assert planned.code == 0, planned
    assert "! " not in planned.out
    assert "210 calls" in planned.out
    # The note about repeats is left out because the answers cannot vary.
    agent.write_text(text.replace("temperature: 0.0", "temperature: 0.5"), encoding="utf-8")
    assert "! repeats is 1" in burnish("optimize", str(agent), "--dry-run").out
