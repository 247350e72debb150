"""The page on files names every key of a task file."""

from collections.abc import Iterator

from pydantic import BaseModel
from tests.docs.docs_pages import ROOT

from burnish.projects.artifacts.numeric_axes import AxisBlock, CoordinateBlock
from burnish.projects.artifacts.step_blocks import (
    HoldoutBlock,
    ParseBlock,
    RunnerBlock,
    ScorerBlock,
)
from burnish.projects.artifacts.task_file import (
    ArtifactsBlock,
    ConstraintBlock,
    LimitsBlock,
    LoggingBlock,
    MutationBlock,
    ObjectiveBlock,
    PolicyBlock,
    TaskFile,
    TieBreakerBlock,
)

BLOCKS: tuple[type[BaseModel], ...] = (
    TaskFile, ArtifactsBlock, MutationBlock, RunnerBlock, ScorerBlock, ParseBlock, HoldoutBlock,
    ObjectiveBlock, ConstraintBlock, PolicyBlock, TieBreakerBlock, LoggingBlock, LimitsBlock,
    AxisBlock, CoordinateBlock,
)  # fmt: skip


def keys() -> Iterator[str]:
    for block in BLOCKS:
        yield from block.model_fields


def test_every_key_of_a_task_file_is_on_its_page() -> None:
    page = (ROOT / "docs" / "optimise-files.md").read_text(encoding="utf-8")
    table = page.partition("## The task file")[2].partition("## Scorers")[0]
    unnamed = {key for key in keys() if not any(f"{mark}{key}" in table for mark in "`.")}
    assert not unnamed, f"docs/optimise-files.md does not name: {', '.join(sorted(unnamed))}"
