"""The published schema of `--progress json` describes what is printed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from burnish.core.cases import Split
from burnish.core.money import Spend
from burnish.reports.progress import NdjsonView, progress_schema
from burnish.runs.events import Tick

VALIDATOR: Any = jsonschema.Draft202012Validator(progress_schema())


def problems(line: str) -> list[str]:
    return [each.message for each in VALIDATOR.iter_errors(json.loads(line))]


def test_the_events_of_a_run_keep_it(tuned: Path) -> None:
    lines = (tuned / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 10
    assert [problem for line in lines for problem in problems(line)] == []


def test_a_tick_keeps_it_and_another_type_does_not() -> None:
    lines: list[str] = []
    spent = Spend(calls=1)
    NdjsonView(lines.append).tick(
        Tick(
            candidate="c",
            split=Split.TRAIN,
            done=1,
            total=1,
            failed=0,
            missing=0,
            spent=spent,
            billed=spent,
            active_seconds=1.23456,
            purpose="measuring again",
        )
    )
    assert problems(lines[0]) == []
    data = json.loads(lines[0])["data"]
    assert (data["active_seconds"], data["purpose"]) == (1.235, "measuring again")
    assert problems(lines[0].replace('"done":1', '"done":"one"'))


@pytest.mark.slow
def test_it_does_not_depend_on_what_was_imported_first() -> None:
    schema = (
        "from burnish.projects.file_structure import schema_text; print(schema_text('progress'))"
    )
    first = "import burnish.strategies.edits.strategy, burnish.delegation.training.epochs"
    texts = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8"
        ).stdout
        for code in (schema, f"{first}; {schema}")
    ]
    assert texts[0] == texts[1]
