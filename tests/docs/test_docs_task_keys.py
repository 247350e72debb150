"""The page on files names every key of a task file."""

from collections.abc import Iterator

from pydantic import BaseModel
from tests.docs.docs_pages import ROOT

from burnish.projects.artifacts.spec import (
    AxisBlock,
    HeldOutBlock,
    LimitsBlock,
    LoggingBlock,
    ParseBlock,
    RunnerBlock,
    ScorerBlock,
)
from burnish.projects.file_kinds import TaskFile
from burnish.runs.spec import BudgetSpec, ConstraintSpec, TieBreakerSpec

BLOCKS: tuple[type[BaseModel], ...] = (
    RunnerBlock, ScorerBlock, ParseBlock, HeldOutBlock, ConstraintSpec, TieBreakerSpec,
    LoggingBlock, LimitsBlock, AxisBlock,
)  # fmt: skip


def keys() -> Iterator[str]:
    """Every key of the file and of its blocks; the limits of every run are on another page."""
    for key in TaskFile.keys:
        name = key.rpartition(".")[2]
        if name not in BudgetSpec.model_fields:
            yield name
    for block in BLOCKS:
        yield from block.model_fields


def test_every_key_of_a_task_file_is_on_its_page() -> None:
    page = (ROOT / "docs" / "optimise-files.md").read_text(encoding="utf-8")
    table = page.partition("## The task file")[2].partition("## Scorers")[0]
    unnamed = {key for key in keys() if not any(f"{mark}{key}" in table for mark in "`.")}
    assert not unnamed, f"docs/optimise-files.md does not name: {', '.join(sorted(unnamed))}"
