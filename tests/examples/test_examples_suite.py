"""The example of a trained policy, run as its README says, in a copy."""

from pathlib import Path

import pytest
from tests.docs.docs_examples import run_readme

pytestmark = pytest.mark.slow

HOME = "examples/task_suite"


def test_one_fault_in_four_tasks_is_gone_from_a_fifth(tmp_path: Path) -> None:
    start, put, trained, _, delegated = run_readme("task_suite", tmp_path)
    assert delegated.sources == start.sources
    assert f"{HOME}/work/policy.db" in put.files
    pages = [text for name, text in trained.files.items() if name.endswith("/report.md")
             and "optimizer" in name and "delegations" not in name]  # fmt: skip
    assert len(pages) == 1
    assert b"| frost (held out) | 0.365 | 0.030 |" in pages[0]
    assert "°C" in delegated.files[f"{HOME}/work/frost/FINAL/report.md"].decode()
