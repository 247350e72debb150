"""`burnish why` after a whole run of each strategy: every number that it prints is in the ledger.

What it says is worked out here a second time, from trials.jsonl, as a reader with a calculator
would do it.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from burnish.core.content import codec
from burnish.core.formatting import number
from burnish.core.surfaces import Candidate
from tests.cli.console import Burnish
from tests.goldens.harness import Watching
from tests.goldens.pairs import PAIRS
from tests.projects.prompts.prompt_world import KEY

pytestmark = pytest.mark.slow

RUNS = {
    "coordinate": "agent-coordinate",
    "reflective": "agent-reflective",
    "backprop": "graph-backprop",
    "edits": "task-edits",
    "frugal": "agent-frugal",
    "epochs": "suite-epochs",
    "refine": "delegation-refine",
}
"""A run of each strategy that searches."""
Row: TypeAlias = Any
"""A line of the ledger, or what `why` says, as JSON."""


@pytest.mark.parametrize("strategy", RUNS)
def test_every_number_is_in_the_ledger(
    strategy: str,
    tmp_path: Path,
    watching: Watching,
    burnish: Burnish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("P2B_TEST_API_KEY", KEY)
    watching(PAIRS[RUNS[strategy]](tmp_path).run)
    runs = [each for each in burnish("runs", "list", "--json").records if each["grid"] is None]
    (run,) = (each for each in runs if each["strategy"] == strategy)
    folder = Path(run["folder"])
    ledger = (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in ledger]
    said = burnish("why", str(folder), "--json").json
    text = burnish("why", str(folder))
    assert (text.code, text.err) == (0, "")
    assert max(map(len, text.lines)) <= 100
    _check_steps(said, rows, run)
    _check_refusals(said, rows)
    _check_cases(said, rows)
    _check_words(said, " ".join(text.out.split()))


def _own(row: Row) -> dict[str, float]:
    """What a trial was measured by, from its row alone."""
    primary = row["trial"]["details"].get("primary")
    if primary is not None:
        own = {f"{primary['name']} on {split}": primary.get(split) for split in SPLITS}
    else:
        own = {f"{split} loss": row[split] and row[split].get("loss") for split in SPLITS}
    return {name: value for name, value in own.items() if value is not None}


SPLITS = ("train", "holdout")


def _accepted(row: Row) -> bool:
    decision = row["trial"]["decision"]
    return decision is not None and decision["verdict"] == "accept"


def _check_steps(said: Row, rows: Sequence[Row], run: Row) -> None:
    """Each step has the numbers of its trial and of the trial that it was made from."""
    by_candidate: dict[str, Row] = {}
    for row in rows:
        by_candidate.setdefault(codec(Candidate).decode(row["trial"]["candidate"]).id, row)
    for step in said["steps"]:
        row = rows[step["trial"]]
        assert (row["number"], row["phase"]) == (step["trial"], step["phase"])
        parents = row["trial"]["candidate"]["parents"]
        before = next((by_candidate[each] for each in parents if each in by_candidate), rows[0])
        for name, (was, became) in step["figures"].items():
            assert (_own(before)[name], _own(row)[name]) == (was, became), (step, name)
        assert step["reason"] == row["trial"]["decision"]["reason"]
    if said["steps"]:
        assert by_candidate[run["best"]]["number"] == said["steps"][-1]["trial"]
    else:
        assert not any(_accepted(row) for row in rows[1:])


def _check_refusals(said: Row, rows: Sequence[Row]) -> None:
    """All trials of the search are accepted, kept, or refused for one reason."""
    searched = [row for row in rows if row["phase"] != "baseline"]
    assert said["trials"] == len(searched)
    refused = {n: each["code"] for each in said["refused"] for n in each["trials"]}
    assert sum(len(each["trials"]) for each in said["refused"]) == len(refused)
    assert {*refused} == {
        row["number"] for row in searched if not (_accepted(row) or row["trial"].get("kept"))
    }
    for row in searched:
        trial = row["trial"]
        if row["number"] in refused and not trial["problems"] and trial["decision"]:
            assert refused[row["number"]] in (trial["decision"]["code"], "nothing proposed")
    sizes = [len(each["trials"]) for each in said["refused"]]
    assert sizes == sorted(sizes, reverse=True), "the most frequent reason comes first"


def _check_cases(said: Row, rows: Sequence[Row]) -> None:
    """Fixed are the cases that the baseline failed and the winner passes; broken the reverse."""
    best = rows[said["steps"][-1]["trial"]] if said["steps"] else rows[0]
    for split in SPLITS:
        old, new = rows[0]["trial"][split], best["trial"][split]
        lines = {each["case"]: each for each in said["cases"] if each["split"] == split}
        if old is None or new is None:
            assert lines == {}
            continue
        both = {*old["scores"]} & {*new["scores"]}
        # A task that is scored as a whole has no scores of cases.
        assert {*lines} == {case for case in both if old["scores"][case] or new["scores"][case]}
        failed, fails = {*old["failed_cases"]}, {*new["failed_cases"]}
        for case, line in lines.items():
            assert (line["before"], line["after"]) == (_score(old, case), _score(new, case))
            if line["group"] in ("fixed", "broken"):
                assert (case in failed, case in fails) == {
                    "fixed": (True, False),
                    "broken": (False, True),
                }[line["group"]]


def _score(result: Row, case: str) -> Any:
    """The mean over metrics of the mean over repeats."""
    known = [[v for v in values if v is not None] for values in result["scores"][case].values()]
    means = [sum(values) / len(values) for values in known if values]
    return pytest.approx(sum(means) / len(means)) if means else None


def _check_words(said: Row, text: str) -> None:
    """The text has what the JSON has, and no other number before or after an arrow."""
    pairs = {
        f"{number(before)} → {number(after)}"
        for each in said["steps"]
        for before, after in each["figures"].values()
    }
    pairs |= {
        f"{number(line['before'])} → {number(line['after'])}"
        for line in said["cases"]
        if line["group"] in ("broken", "fixed", "worse", "better")
    }
    reasons = [each["reason"] for each in said["steps"]]
    reasons += [said["verdict"], *(each["example"] for each in said["refused"])]
    reasons += [each["because"] for each in said["next"]]
    rest = text
    for reason in sorted(reasons, key=len, reverse=True):
        rest = rest.replace(" ".join(reason[1:].split()), "")  # it may begin a sentence
    printed = {*re.findall(r"(?<![\w.])-?\d+\.\d{3} → -?\d+\.\d{3}", rest)}
    assert printed <= pairs
    refused = sum(len(each["trials"]) for each in said["refused"])
    assert re.search(rf"\b{refused} of {said['trials']} trials?\.", text)
    for each in said["next"]:
        assert f"{each['because'][1:]}." in text
