"""The benchmark on a real model, with a scripted endpoint in its place."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.real.__main__ import main
from benchmarks.real.reflections import best_of, fault_of
from benchmarks.real.tasks import SEARCHED, TASKS, Sizes

from burnish.testing.servers import HttpRequest, ScriptedServer

ANSWERS = {text: answer for task in TASKS.values() for text, answer in task.sentences()}
RULES = "Follow the house rules, and write only the label."


def model(request: HttpRequest) -> str:
    """An agent that is right under the rules only, and a reflector that finds them."""
    first, last = request.json["messages"][0]["content"], request.json["messages"][-1]["content"]
    if "response_format" in request.json:
        return json.dumps({"diagnosis": "no rules", "new_text": RULES})
    if "Provide the new instructions" in last:
        return f"```\n{RULES}\n```"
    return ANSWERS[last] if first.startswith(RULES) else "It depends."


async def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    """The rows of the table that the benchmark prints."""
    async with ScriptedServer(answers=model) as server, asyncio.timeout(240):
        where = ("--base-url", server.base_url, "--model", "scripted")
        system = () if "--system" in arguments else ("--system", "burnish")
        await asyncio.to_thread(main, (*arguments, *where, *system))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip(" *") for cell in line[1:-1].split("|")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.mark.parametrize("name", TASKS)
def test_no_two_cases_share_a_sentence_and_each_split_has_every_label(name: str) -> None:
    data = TASKS[name].dataset(Sizes())
    splits = (data.train, data.holdout, data.test)
    assert [len(split) for split in splits] == [40, 40, 200]
    texts = [case.turns[0].input for split in splits for case in split]
    assert len(set(texts)) == 280
    labels = [{case.expected for case in split} for split in splits]
    if name in ("routing", "sentiment"):
        assert labels[0] == labels[1] == labels[2]
    assert TASKS[name].dataset(Sizes()) == data


@pytest.mark.parametrize("name", TASKS)
def test_what_is_reported_uses_no_sentence_that_is_kept_for_tuning(name: str) -> None:
    tuning = TASKS[name].dataset(Sizes(train=20, holdout=20, test=20), tuning=True)
    kept = {case.turns[0].input for case in (*tuning.train, *tuning.holdout, *tuning.test)}
    for seed in range(5):
        data = TASKS[name].dataset(Sizes(), seed=seed)
        assert kept.isdisjoint(case.turns[0].input for case in (*data.train, *data.test))


def test_the_best_of_four_is_the_mean_over_all_choices_of_four() -> None:
    assert best_of([0.0, 1.0], 1) == 0.5
    assert best_of([0.0, 0.0, 1.0], 2) == pytest.approx(2 / 3)
    assert best_of([0.2, 0.4], 4) == 0.4


def test_a_rewrite_is_of_no_use_if_it_is_there_already() -> None:
    shown = "The text now: Say what it is. Input: The lamp flickers every evening."
    faults = [
        fault_of(text, shown, "Say what it is.")
        for text in ("", "Say what  it is.", "The lamp flickers every evening.", RULES)
    ]
    assert faults == ["none", "unchanged", "copied", ""]


@pytest.mark.slow
async def test_rewrites_are_scored_on_new_cases_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    arguments = ("reflections", "--draws", "2", "--cases", "3", "--log", str(log))
    rows = await told(capsys, *arguments, "--task", "routing", "--task", "dates")
    assert [row["task"] for row in rows] == ["routing", "dates", "all"]
    assert [(row["before"], row["mean"], row["rewrites"]) for row in rows] == [
        ("0.00", "1.00", "2"),
        ("0.00", "1.00", "2"),
        ("0.00", "1.00", "4"),
    ]
    made: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted((each["task"], each["draw"]) for each in made) == [
        ("dates", 0),
        ("dates", 1),
        ("routing", 0),
        ("routing", 1),
    ]
    assert [each["draw"] for each in made] == [0, 0, 1, 1], "draw by draw"
    assert {each["task"]: each["text"] for each in made} == {
        "routing": f"{RULES}\n\nAnswer with exactly one of these, and nothing else: "
        "billing, finance, legal, repairs, sales",
        "dates": f"{RULES}\n\nWrite the answer in exactly this form, and nothing else: 2026/01/23",
    }
    assert all(each["tokens"] > 0 < each["seconds"] for each in made)
    again = await told(capsys, *arguments, "--task", "routing", "--task", "dates")
    assert again == rows
    assert len(log.read_text().splitlines()) == 4


@pytest.mark.slow
async def test_a_search_is_told_by_its_true_score_and_what_it_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ("--train", "6", "--holdout", "6", "--test", "6", "--calls", "40")
    log = ("--log", str(tmp_path / "log.jsonl"))
    (row,) = await told(capsys, "searches", *sizes, *log, "--task", SEARCHED[0])
    assert (row["before"], row["true score"], row["claimed − true"]) == ("0.000", "1.000", "+0.000")
    assert 0 < int(row["calls"]) <= 40
    assert int(row["reflections"]) >= 1
    assert int(row["tokens"].replace(",", "")) > 0
    assert await told(capsys, "searches", *sizes, *log, "--task", SEARCHED[0]) == [row]
    (kept,) = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert (kept["part"], kept["budget"], kept["sizes"]) == ("searches", 40, [6, 6, 6])


@pytest.mark.slow
async def test_auto_searches_the_same_agent_with_rewrites_and_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ("--train", "6", "--holdout", "6", "--test", "6", "--calls", "40")
    arguments = ("searches", *sizes, "--task", SEARCHED[0], "--system", "burnish auto")
    (row,) = await told(capsys, *arguments)
    assert (row["system"], row["true score"]) == ("burnish auto", "1.000")
