"""Growing cases: from failures, documents and traces, checked, paid once, added when accepted."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, PriceUnknown
from burnish.datasets.formats import read_cases
from burnish.datasets.proposals import acceptances, screened, source_of
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.projects.growth import CaseKind, Grower, Growth, GrowthOptions
from burnish.projects.launch import launch_in
from burnish.projects.measurements import load_measurement
from burnish.system.redaction import DataRedactor, Redactor
from burnish.testing.doubles import ScriptedBackend

TRAIN = [
    {"name": "hours", "input": "When does the shop in Bern open on Sundays?", "expected": "never"},
    {"name": "refund", "input": "How long do I have to return a pair of shoes?", "expected": "30"},
]
HOLDOUT = [
    {"name": "lamp", "input": "My new lamp arrived broken, what can I do now?", "expected": "swap"},
]
Written = Callable[[ChatRequest, int], str]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "train.jsonl", TRAIN), write(tmp_path / "holdout.jsonl", HOLDOUT)


@pytest.fixture
def failures(files: tuple[Path, Path], tmp_path: Path) -> Path:
    """A measurement of recorded replies, all of them wrong."""
    rows = [{**row, "reply": "no idea"} for row in (*TRAIN, *HOLDOUT)]
    recorded = tmp_path / "recorded.jsonl"
    cases = [
        {
            "name": row["name"],
            "input": row["input"],
            "expected": row["expected"],
            "recorded": {"replies": [row["reply"]]},
        }
        for row in rows
    ]
    recorded.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    metrics = Path(__file__).parents[2] / "examples" / "judge_check" / "metrics.yaml"
    measurement = load_measurement(recorded, {"metrics": str(metrics)})
    return launch_in(measurement.setup, tmp_path / "measured").folder


def options(files: tuple[Path, ...], **more: object) -> GrowthOptions:
    usual = GrowthOptions(
        files=files,
        out=files[0].parent / "proposals.jsonl",
        model="openai:writer",
        redactor=DataRedactor(secrets=Redactor(secrets=())),
        kinds=(CaseKind.EDGE,),
    )
    return replace(usual, **more)  # pyright: ignore[reportArgumentType]


def grown(chosen: GrowthOptions, respond: Written) -> tuple[Growth, ScriptedBackend]:
    backend = ScriptedBackend(respond=respond)
    return Grower(options=chosen, models=Models(backends={"openai": backend})).grow(), backend


def answer(*cases: object) -> str:
    return json.dumps({"cases": list(cases)})


def about(request: ChatRequest, draw: int) -> str:
    """One case that is about what was shown, and about nothing else."""
    del draw
    text = request.messages[-1].content.partition("What the new cases come from")[2]
    for word in ("lamp", "shoes", "shop"):
        if word in text:
            asked = f"Is there a special rule for {word} number seventeen from abroad?"
            return answer({"input": asked, "expected": "ask us", "why": f"rare {word}"})
    return answer({"input": "What about gift cards that were bought in another country?"})


def test_failures_become_proposals_for_the_file_of_their_source(
    files: tuple[Path, Path], failures: Path
) -> None:
    train, holdout = files
    before = [path.read_bytes() for path in files]
    growth, backend = grown(options(files, runs=(str(failures),)), about)
    proposals = train.parent / "proposals.jsonl"
    cases = {case.id: source_of(case) for case in read_cases(proposals).cases}
    assert (growth.asked, growth.written, growth.new) == (3, 3, 3)
    assert {name: source["for"] for name, source in cases.items()} == {
        "hours-edge-1": "train.jsonl",
        "refund-edge-1": "train.jsonl",
        "lamp-edge-1": "holdout.jsonl",
    }
    assert cases["lamp-edge-1"]["expected"] == "proposed"
    assert "the agent replied: no idea" in backend.asked[0].messages[-1].content
    shown = [r.messages[-1].content for r in backend.asked]
    assert [("lamp" in each, "shoes" in each) for each in shown].count((True, True)) == 0
    assert [path.read_bytes() for path in files] == before, "nothing is added without approval"
    for each in acceptances(proposals, ["lamp-edge-1", "hours-edge-1"]):
        each.write(person="ada")
    assert [case.id for case in read_cases(train).cases] == ["hours", "refund", "hours-edge-1"]
    new = read_cases(holdout).cases[-1]
    assert (new.id, source_of(new)["accepted_by"]) == ("lamp-edge-1", "ada")
    assert source_of(new)["model"] == "openai:writer"
    assert holdout.read_bytes().startswith(before[1])
    again = acceptances(proposals, ["lamp-edge-1"])
    assert [each.screened.repeated for each in again] == [("lamp-edge-1-2",)]
    with pytest.raises(ConfigError, match="elsewhere it would leak"):
        acceptances(proposals, ["lamp-edge-1"], to=train)


def test_the_same_command_again_pays_nothing(files: tuple[Path, Path], failures: Path) -> None:
    chosen = options(files, runs=(str(failures),))
    first, _ = grown(chosen, about)
    again, silent = grown(chosen, about)
    assert silent.asked == []
    assert (again.asked, again.new, first.new) == (3, 0, 3)
    other, backend = grown(replace(chosen, seed=7), about)
    assert (len(backend.asked), other.new) == (3, 0)


def test_a_limit_ends_it_and_a_higher_one_goes_on(files: tuple[Path, Path], failures: Path) -> None:
    chosen = options(files, runs=(str(failures),))
    few, _ = grown(replace(chosen, max_calls=2), about)
    assert (few.asked, few.planned, few.stopped) == (2, 3, "2 of 2 calls spent")
    more, backend = grown(replace(chosen, max_calls=3), about)
    assert (more.asked, more.stopped, len(backend.asked)) == (3, "", 1)
    unknown = replace(chosen, max_usd=1.0, model="openai:nobody-knows-its-price")
    with pytest.raises(PriceUnknown, match="is not known"):
        grown(unknown, about)


def test_repeats_leaks_and_nonsense_are_left_out_and_counted(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    document = tmp_path / "rules.md"
    document.write_text("# Rules\n\nGift cards cannot be returned.\n", encoding="utf-8")
    written = answer(
        {"input": "How long do I have to return a pair of shoes, please?"},
        {"input": "My new lamp arrived broken, so what can I do now?", "expected": "swap"},
        {"input": "Hello. My new lamp arrived broken, what can I do now? Tell me that and more."},
        {"input": "Can I return a gift card that nobody has used yet?", "expected": "no"},
        {"turns": [{"input": "Hello there, shop."}, {"input": "And a gift card?"}]},
    )
    chosen = options(files, documents=(document,), count=5)
    growth, _ = grown(chosen, lambda _, __: written)
    assert [case.input for case in growth.screened.fit] == [
        "Can I return a gift card that nobody has used yet?"
    ]
    assert len(growth.screened.repeated) == 1
    assert len(growth.screened.leaking) == 2
    assert growth.unusable == {"several turns where one was asked for": 1}
    nothing, backend = grown(replace(chosen, seed=2), lambda _, __: "I would rather not.")
    assert (nothing.new, nothing.unusable) == (0, {"no usable answer": 1})
    assert len(backend.asked) == 2, "it is asked to correct itself once"
    empty, _ = grown(replace(chosen, seed=3), lambda _, __: answer())
    assert empty.unusable == {"no case in the answer": 1}


def test_a_trace_that_asks_what_a_held_out_case_asks_is_grown_for_that_file(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    asked = ["My new lamp arrived broken, what can I do now?!", "Do you sell shoes for a@b.ch?"]
    rows = [{"id": f"t{n}", "input": each, "output": "?"} for n, each in enumerate(asked)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    growth, backend = grown(options(files, traces=(log,)), about)
    sources = [source_of(case) for case in read_cases(tmp_path / "proposals.jsonl").cases]
    assert growth.new == 2
    assert {source["of"]: source["for"] for source in sources} == {
        "t0": "holdout.jsonl",
        "t1": "train.jsonl",
    }
    assert not [r for r in backend.asked if "a@b.ch" in r.messages[-1].content]


def test_conversations_and_formats_without_room_for_sources(tmp_path: Path) -> None:
    table = tmp_path / "cases.csv"
    table.write_text("input,expected\nWhat is the capital of France?,Paris\n", encoding="utf-8")
    document = tmp_path / "facts.txt"
    document.write_text("Bern is the capital of Switzerland.", encoding="utf-8")
    chosen = options((table,), documents=(document,), kinds=(CaseKind.EDGE, CaseKind.MULTI_TURN))

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        if "Kind: multi-turn" in request.messages[-1].content:
            turns = [{"input": "I am going to Bern."}, {"input": "Is that a capital, too?"}]
            return answer({"turns": turns})
        return answer({"input": "Which city governs the Swiss, if any?", "expected": "Bern"})

    grown(chosen, respond)
    names = [case.id for case in read_cases(chosen.out).cases]
    (single,) = acceptances(chosen.out, names[:1])
    single.write(person="ada")
    assert table.read_text(encoding="utf-8") == (
        "input,expected\nWhat is the capital of France?,Paris\n"
        '"Which city governs the Swiss, if any?",Bern\n'
    )
    (row,) = (tmp_path / "cases.csv.sources.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(row)["expected"] == "proposed"
    assert json.loads(row)["case"] == read_cases(table).cases[1].id
    (several,) = acceptances(chosen.out, names[1:])
    with pytest.raises(ConfigError, match="turns after the first"):
        several.write(person="ada")


def test_what_cannot_work_is_said_before_anything_is_asked(
    files: tuple[Path, Path], failures: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="there is nothing to grow cases from"):
        grown(options(files), about)
    log = write(tmp_path / "log.jsonl", [{"input": "a question", "output": "b"}])
    with pytest.raises(ConfigError, match="is not one of the files"):
        grown(options(files, traces=(log,), into=tmp_path / "other.jsonl"), about)
    with pytest.raises(ConfigError, match="did you mean"):
        Grower(options=options(files, model="opnai:gpt")).check()
    other = write(tmp_path / "other.jsonl", [{"name": "other", "input": "Something else?"}])
    with pytest.raises(ConfigError, match="none of its failing cases"):
        grown(options((other,), runs=(str(failures),)), about)
    empty = tmp_path / "none.jsonl"
    empty.write_text("")
    with pytest.raises(ConfigError, match="the file is empty"):
        acceptances(empty, [])


def test_proposals_of_a_watch_need_a_file_to_go_to(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    row = {"name": "seen", "input": "Where is the parcel that I sent to Basel on Monday?"}
    proposals = write(tmp_path / "watched.jsonl", [row])
    with pytest.raises(ConfigError, match="--to FILE"):
        acceptances(proposals, [])
    with pytest.raises(ConfigError, match="did you mean 'seen'"):
        acceptances(proposals, ["sen"], to=files[0])
    (one,) = acceptances(proposals, [], to=files[0])
    one.write(person="ada")
    assert read_cases(files[0]).cases[-1].id == "seen"


def test_comments_and_order_of_a_file_stay(tmp_path: Path) -> None:
    home = tmp_path / "cases.yaml"
    text = (
        "# the most important ones\n- name: first\n  input: What is this?\n  ground_truth: a test\n"
    )
    home.write_text(text, encoding="utf-8")
    proposals = write(
        tmp_path / "p.jsonl", [{"name": "second", "input": "And who wrote all of it?"}]
    )
    (one,) = acceptances(proposals, [], to=home)
    one.write(person="ada")
    after = home.read_text(encoding="utf-8")
    assert after.startswith(text)
    assert [case.id for case in read_cases(home).cases] == ["first", "second"]


def test_two_proposals_for_two_files_that_ask_nearly_the_same() -> None:
    asked = "Does the guarantee cover a kettle that fell from the table"
    one, other = Case.single(f"{asked}?", name="a"), Case.single(f"{asked}, please?", name="b")
    result = screened([(one, 0), (other, 1)], [(), ()])
    assert [case.id for case in result.fit] == ["a"]
    assert result.leaking == ("b",)
