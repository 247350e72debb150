"""The examples of skills and prompt templates, run as their READMEs say, in a copy."""

import re
from pathlib import Path

import pytest
from tests.docs.docs_examples import run_readme
from tests.example_copies import EXAMPLES

pytestmark = pytest.mark.slow

SIX = {
    "primary_score",
    "clarity",
    "coverage",
    "constraint_obedience",
    "violation_count",
    "length_tokens",
}


def verdicts_in(readme: Path) -> list[str]:
    """What the table of a README says becomes of each edit."""
    found: list[str] = []
    table = r"^\| (\d+(?:, \d+)*) \| .+ \| \*\*(\w+)\*\*"
    for numbers, word in re.findall(table, readme.read_text(encoding="utf-8"), re.MULTILINE):
        found += [word] * len(numbers.split(","))
    return found


def test_the_skill_gets_better_by_a_scorer_and_by_metrics_alone(tmp_path: Path) -> None:
    start, scored, judged = run_readme("skill_quality", tmp_path)
    assert scored.sources == judged.sources == start.sources
    rows = scored.rows("examples/skill_quality/work/results.jsonl")
    words = [row["decision"] for row in rows]
    assert words == ["baseline", *verdicts_in(EXAMPLES / "skill_quality" / "README.md")]
    assert rows[0]["metrics"].keys() >= SIX
    assert (rows[0]["score"], rows[-1]["score"]) == (0.4133, 1.0)
    padded, tempting = rows[4], rows[3]["score"]
    assert padded["score"] > tempting
    assert "length_tokens <= 220 is broken" in padded["reason"]
    assert "violation_count <= 0 is broken" in rows[6]["reason"]
    assert rows[2]["reason"].startswith("rubric.md: ")
    assert "lower length_tokens decides" in rows[10]["reason"]
    rows = judged.rows("examples/skill_quality/work/results.jsonl")[len(rows) :]
    assert (rows[0]["score"], rows[-1]["score"]) == (0.125, 1.0)
    stuffed = next(row for row in rows if row["rationale"].startswith("list the words"))
    assert stuffed["decision"] == "discard"
    assert "structure == 1 is broken" in stuffed["reason"]


def test_the_template_keeps_its_placeholders_and_learns_nothing_by_heart(tmp_path: Path) -> None:
    start, done = run_readme("prompt_template", tmp_path)
    assert done.sources == start.sources
    rows = done.rows("examples/prompt_template/work/results.jsonl")
    words = [row["decision"] for row in rows]
    assert words == ["baseline", *verdicts_in(EXAMPLES / "prompt_template" / "README.md")]
    by_heart = rows[3]
    assert (by_heart["score"], by_heart["holdout"]["score"]) == (0.8333, 0.1667)
    assert "placeholders_kept == 1 is broken" in rows[4]["reason"]
    best = rows[8]
    assert (best["score"], best["holdout"]["score"]) == (1.0, 1.0)
    assert all(row["metrics"]["placeholders_kept"] for row in rows if row["decision"] == "keep")
