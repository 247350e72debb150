"""The example of an agent that is too dear."""

from pathlib import Path

import pytest
from tests.docs.docs_examples import run_readme
from tests.example_copies import example_files

pytestmark = pytest.mark.slow


def test_what_the_agent_does_not_need_leaves(tmp_path: Path) -> None:
    steps = run_readme("cheaper", tmp_path)
    assert "saved 0.447" in steps[1].out
    home = tmp_path / "examples" / "cheaper"
    assert "name: medium" in (home / "agent.yaml").read_text(encoding="utf-8")
    text = (home / "instructions.md").read_text(encoding="utf-8")
    assert text == "Answer with one label: card, loan or account.\n"


def test_every_file_is_small() -> None:
    assert all(len(content.splitlines()) <= 120 for content in example_files("cheaper").values())
