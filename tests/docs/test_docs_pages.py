"""Every page is run: Python blocks, commands, and the files they show."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.docs_console import level, matches, run_block
from tests.docs.docs_pages import (
    ROOT,
    TESTED_EXAMPLES,
    Block,
    all_pages,
    blocks,
    pages_to_run,
    written_pages,
)
from tests.example_copies import copy_examples, shipped

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toy_plugin")]

LANGUAGES = {"python", "console", "yaml", "text", "json", "csv", "diff", "toml"}


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages_to_run(), ids=_name)
def test_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_examples(tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "examples" / "own_target"), *sys.path])
    own = [path.stem for path in (tmp_path / "examples" / "own_target").glob("*.py")]
    for name in own:
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = ModuleType(f"page_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in filter(lambda block: block.is_run, blocks(page)):
        if block.language == "python":
            _execute(block, module)
        else:
            run_block(block, tmp_path)
    for name in own:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", TESTED_EXAMPLES)
def test_a_page_left_to_the_tests_of_examples_is_run_there(name: str) -> None:
    tests = (ROOT / "tests" / "examples").glob("test_*.py")
    assert any(f'run_readme("{name}"' in path.read_text(encoding="utf-8") for path in tests)
    page = ROOT / "examples" / name / "README.md"
    assert all(block.language != "python" and not block.not_run for block in blocks(page))


def _execute(block: Block, module: ModuleType) -> None:
    # Empty lines before it make a traceback point at the line of the page.
    padded = "\n" * block.line + block.text
    exec(compile(padded, str(block.page), "exec"), module.__dict__)


@pytest.mark.parametrize("page", written_pages(), ids=_name)
def test_a_block_that_shows_a_file_is_that_file(page: Path) -> None:
    for block in blocks(page):
        if block.file:
            file = shipped(ROOT / block.file).decode()
            assert block.text == file, f"{block.place}: copy {block.file} here again"


@pytest.mark.parametrize("page", all_pages(), ids=_name)
def test_every_block_says_its_language(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block.place}: '{block.language}'"


def test_few_blocks_are_not_run() -> None:
    kept_out = [block for page in written_pages() for block in blocks(page) if block.not_run]
    here = [block for block in kept_out if not block.not_run.startswith("needs ")]
    assert len(here) <= 10, [block.place for block in here]
    assert len(kept_out) - len(here) <= 7, "what needs other machines, libraries or a key"


def test_a_comparison_is_blind_to_ids_times_and_money_only() -> None:
    came = ["results/optimizer/2026-01-31T10-00-00_0123abcd", "a   12s", "b", "loss 0.1 $3"]
    assert matches(["results/optimizer/2027-02-28T11-11-11_ffffffff", "…", "loss 0.1 $0.5"], came)
    assert not matches(["…", "loss 0.2 $3"], came)
    assert not matches(["a 12s"], came)
    assert level("spent  3 calls") == "spent 3 calls"


def test_each_system_has_one_table_of_what_differs_without_an_empty_cell() -> None:
    """What differs, why, and how to get the other: once, on one page."""
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    header = "| what differs | why | how to get the other |"
    systems = {part.splitlines()[0]: part for part in text.split("\n## ")[1:]}
    assert next(iter(systems)) == "The same task, side by side"
    del systems["The same task, side by side"]
    assert list(systems) == [
        "HoloDeck",
        "AgentOptimizer and AgentEvaluator",
        "Artifact loop",
        "PromptIter",
        "AWP refine",
    ]
    for system, part in systems.items():
        assert part.count("\n|---") == part.count(header) == 1, system
        rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line[:1] == "|"]
        wrong = [row for row in rows[2:] if len(row) != 3 or not all(map(str.strip, row))]
        assert not wrong, system
    pages = {page.name: page.read_text(encoding="utf-8") for page in written_pages()}
    assert [name for name, page in pages.items() if "## What differs from" in page] == []
