"""The pages of the docs, and the blocks in them."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.example_copies import EXAMPLES, ROOT

REFERENCE = ROOT / "docs" / "reference"
TESTED_EXAMPLES = (
    "advanced_strategies",
    "blackbox_cli",
    "cheaper",
    "ci_integration",
    "config_tuning",
    "fast_code",
    "http_service",
    "killed",
    "multi_agent_pipeline",
    "multi_metric_with_judges",
    "own_strategy",
    "prompt_template",
    "quickstart",
    "refine_report",
    "remote_prompt_store",
    "skill_quality",
    "slo_runtime_control",
    "task_suite",
)
"""Their READMEs are run by tests/examples, which look at what is left behind as well."""

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_FILE = re.compile(r"<!-- file: (.+) -->")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    """The line of the fence, from 1."""
    language: str
    text: str
    not_run: str = ""
    """Why it is not run."""
    file: str = ""
    """The file it shows word for word."""

    @property
    def is_run(self) -> bool:
        """Whether it is a program, or commands."""
        return self.language in ("python", "console") and not self.not_run

    @property
    def place(self) -> str:
        """A place a person can find."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def all_pages() -> list[Path]:
    """README, docs and the READMEs of the examples."""
    examples = sorted(EXAMPLES.glob("*/README.md"))
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *examples]


def written_pages() -> list[Path]:
    """The pages that people write."""
    return [page for page in all_pages() if REFERENCE not in page.parents]


def pages_to_run() -> list[Path]:
    """Those of them with something to run that no test of an example runs."""
    elsewhere = {EXAMPLES / name / "README.md" for name in TESTED_EXAMPLES}
    pages = [page for page in written_pages() if page not in elsewhere]
    return [page for page in pages if any(block.is_run for block in blocks(page))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: int | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if opened is None and fence:
            opened = number
        elif opened is not None and line == "```":
            found.append(_block(page, lines, opened, number))
            opened = None
    assert opened is None, f"{page}:{opened}: this block is never closed"
    return found


def _block(page: Path, lines: list[str], opened: int, closed: int) -> Block:
    above = next((line for line in reversed(lines[:opened]) if line.strip()), "")
    fence, not_run, file = _FENCE.match(lines[opened]), _NOT_RUN.match(above), _FILE.match(above)
    assert fence is not None
    return Block(
        page=page,
        line=opened + 1,
        language=fence[1],
        text="".join(f"{line}\n" for line in lines[opened + 1 : closed]),
        not_run=not_run[1] if not_run else "",
        file=file[1] if file else "",
    )
