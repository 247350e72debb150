"""The example of a refined report, run as its README says, in a copy."""

import json
from pathlib import Path

import pytest
from tests.docs.docs_examples import run_readme

pytestmark = pytest.mark.slow

SEED = "examples/refine_report/work/seed"


def test_three_planted_flaws_are_gone_after_three_iterations(tmp_path: Path) -> None:
    start, drafted, refined = run_readme("refine_report", tmp_path)
    assert refined.sources == start.sources
    for name, content in drafted.files.items():
        assert refined.files[name] == content, name
    draft = drafted.files[f"{SEED}/FINAL/report.md"].decode()
    report = refined.files[f"{SEED}/BEST/report.md"].decode()
    for words in ("°C", "station", "## Conclusion"):
        assert words not in draft
        assert words in report
    assert "TODO" not in report
    best = json.loads(refined.files[f"{SEED}/BEST/manifest.json"])
    session = json.loads(refined.files[f"{SEED}/refinement_sessions/{best['session_id']}.json"])
    assert session["best_iter"] == 3
    place = f"{SEED}/refinement_sessions/{best['session_id']}"
    counts: list[tuple[int, int, int]] = []
    for k in (1, 2, 3):
        told = json.loads(refined.files[f"{place}/iter_{k}/gradient_input.json"])
        parts = (told["defects"], told["rejected_gates"], told["eval_deltas"])
        counts.append((len(parts[0]), len(parts[1]), len(parts[2])))
    assert counts == [(3, 1, 3), (2, 0, 2), (1, 0, 1)]
    assert b"training score" in refined.files[f"{place}/REFINEMENT.md"]
