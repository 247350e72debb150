"""`burnish data grow` and `accept` as a user runs them, with a model that answers from a script."""

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from burnish.datasets.formats import read_cases
from burnish.datasets.proposals import source_of
from burnish.testing.servers import HttpRequest, ScriptedServer
from tests.cli.console import Burnish, Said, refused
from tests.cli.served_echo import hosted

pytestmark = pytest.mark.slow

TRAIN = [
    {"name": "hours", "input": "When does the shop in Bern open on Sundays?", "expected": "never"},
    {"name": "shoes", "input": "How long do I have to return a pair of shoes?", "expected": "30"},
]
HOLDOUT = [
    {"name": "lamp", "input": "My new lamp arrived broken, what can I do now?", "expected": "swap"},
]
ABOUT = {
    "Bern": "a branch that closes early because of the carnival",
    "shoes": "boots that were worn outside for one whole winter",
    "lamp": "bulbs whose glass cracked while I changed them",
    "wardrobe": "furniture heavier than two grown people can carry",
    "parcel": "letters which the postman left with some neighbour",
}
"""By a word of each source, what the model writes about: failures, the document, the log."""
LEADS = {
    "paraphrase": "Somebody at work asked me yesterday to find out",
    "edge": "Suppose it happens twice on the same day, meaning",
    "adversarial": "Your colleague already promised me the money, so confirm",
    "multi-turn": "Good morning, I hope you have a minute for",
}
KINDS = tuple(LEADS)
FILES = ("train.jsonl", "holdout.jsonl")
Grow = Callable[..., Said]


class Writer:
    """The model: it answers by kind and source, or whatever a test wants."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.says: Callable[[str, str], str] = written

    def __call__(self, request: HttpRequest) -> str:
        text: str = request.json["messages"][-1]["content"]
        self.requests.append(text)
        kind = next(kind for kind in KINDS if f"Kind: {kind}." in text)
        source = text.partition("What the new cases come from")[2]
        return self.says(kind, next(word for word in ABOUT if word in source))


def written(kind: str, source: str) -> str:
    turns = [{"input": f"{LEADS[kind]} {ABOUT[source]}?", "expected": "ask us"}]
    if kind == "multi-turn":
        turns.append({"input": f"And what would you do about the {source} in my place?"})
    return answer({"turns": turns, "why": f"{kind} of {source}"})


def answer(*cases: dict[str, Any]) -> str:
    return json.dumps({"cases": [*cases]})


def lines_of(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@pytest.fixture(autouse=True)
def _files(burnish: Burnish, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """Cases of two splits, a document, a log, and a measurement in which every case fails."""
    monkeypatch.setenv("BURNISH_HOME", str(Path("state").resolve()))
    monkeypatch.setenv("BURNISH_HTML", "never")
    lines_of("train.jsonl", TRAIN)
    lines_of("holdout.jsonl", HOLDOUT)
    Path("rules.md").write_text("# Rules\n\nA carrier brings a wardrobe.\n", encoding="utf-8")
    lines_of("log.jsonl", [{"id": "t1", "input": "Where is my parcel?", "output": "No idea."}])
    wrong = [{**row, "recorded": {"replies": ["no idea"]}} for row in (*TRAIN, *HOLDOUT)]
    lines_of("recorded.jsonl", wrong)
    metrics = Path(__file__).parents[2] / "examples" / "grow_and_label" / "metrics.yaml"
    measured = burnish("eval", "recorded.jsonl", "--metrics", str(metrics), "-o", "measured", "-q")
    assert "3 of 3 cases fail" in measured.out


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def grow(
    burnish: Burnish, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> Generator[Grow, None, None]:
    monkeypatch.setenv("OPENAI_API_KEY", "none-is-needed-here")
    with hosted(ScriptedServer(answers=writer)) as url:

        def run(*args: str, files: tuple[str, ...] = FILES) -> Said:
            model = ("--model", "openai:writer", "--base-url", url)
            return burnish("data", "grow", *files, *model, *args)

        yield run


def contents() -> list[bytes]:
    return [Path(file).read_bytes() for file in FILES]


def test_all_kinds_grow_from_failures_documents_and_traces(
    grow: Grow, burnish: Burnish, writer: Writer
) -> None:
    before = contents()
    flags = ("--run", "measured", "--documents", "rules.md", "--traces", "log.jsonl")
    every = (*flags, "--kinds", ",".join(KINDS))
    planned = grow(*every, "--dry-run")
    assert planned.lines == [
        "sources  3 failures, 1 document, 1 trace",
        "would ask openai:writer 20 times at most; nothing was paid",
    ]
    assert writer.requests == []
    assert not Path("proposals.jsonl").exists()
    said = grow(*every)
    assert said.code == 0, said.err
    assert said.lines[:2] == ["asked    20 of 20 requests", "written  20 cases"]
    assert said.lines[-2:] == [
        "proposed 20 new cases in proposals.jsonl",
        "next     burnish data accept proposals.jsonl",
    ]
    cases = read_cases(Path("proposals.jsonl")).cases
    sources = [source_of(case) for case in cases]
    assert {(each["from"], each["grown"]) for each in sources} == {
        (origin, kind) for origin in ("failure", "document", "trace") for kind in KINDS
    }
    assert {str(each["of"]): each["for"] for each in sources} == {
        "hours": "train.jsonl",
        "shoes": "train.jsonl",
        "lamp": "holdout.jsonl",
        "rules-1": "train.jsonl",
        "t1": "train.jsonl",
    }
    assert {len(case.turns) for case in cases if case.id.endswith("multi-turn-1")} == {2}
    for_train = [text for text in writer.requests if "lamp" not in text]
    assert len(for_train) == 16, "no text of the holdout is shown for a case of train"
    shown = burnish("data", "accept", "proposals.jsonl")
    assert shown.lines[-2] == "20 proposals; nothing was added"
    assert "  expected  ask us (proposed by a model)" in shown.lines
    assert contents() == before, "nothing is added without approval"


def test_what_was_answered_is_not_paid_again(grow: Grow, writer: Writer) -> None:
    few = grow("--run", "measured", "--kinds", "edge", "--max-calls", "2")
    assert few.lines[0] == "asked    2 of 3 requests"
    assert "stopped  2 of 2 calls spent; the same command with a higher limit goes on" in few.lines
    rest = grow("--run", "measured", "--kinds", "edge")
    assert "proposed 1 new case in proposals.jsonl" in rest.lines
    again = grow("--run", "measured", "--kinds", "edge", "--json").json
    assert (again["asked"], again["new"], len(writer.requests)) == (3, 0, 3)
    assert again["proposals"] == "proposals.jsonl"


def test_duplicates_leaks_and_nonsense_are_left_out(grow: Grow, writer: Writer) -> None:
    def says(kind: str, source: str) -> str:
        del kind
        if source == "Bern":
            return "I would rather not."
        asked = {
            "shoes": "How long do I have to return a pair of shoes, please?",
            "wardrobe": "My new lamp arrived broken, so what can I do now?",
            "lamp": "Must I send the broken one back before the swap?",
        }
        return answer({"input": asked[source]})

    writer.says = says
    said = grow("--run", "measured", "--documents", "rules.md", "--kinds", "edge")
    assert said.lines[1:5] == [
        "written  3 cases",
        "unusable 1: no usable answer",
        "repeated 1 left out, another case asks nearly the same: shoes-edge-1",
        "leaking  1 left out, nearly a case of another file, or with text of one: rules-1-edge-1",
    ]
    (left,) = read_cases(Path("proposals.jsonl")).cases
    assert left.id == "lamp-edge-1"


def test_accepted_cases_go_to_the_file_of_their_source(grow: Grow, burnish: Burnish) -> None:
    grow("--run", "measured", "--kinds", "edge")
    before = contents()
    chosen = ("data", "accept", "proposals.jsonl", "--case", "lamp-edge-1", "--as", "ada")
    assert burnish(*chosen, "--dry-run").lines == ["would add 1 case to holdout.jsonl"]
    assert contents() == before
    refused(burnish(*chosen, "--to", "train.jsonl"), "it is for holdout.jsonl", "would leak")
    said = burnish(*chosen)
    assert said.lines == [
        "added    1 case to holdout.jsonl",
        "next     burnish data check train.jsonl holdout.jsonl",
    ]
    assert contents()[0] == before[0]
    assert contents()[1].startswith(before[1])
    new = read_cases(Path("holdout.jsonl")).cases[-1]
    assert (source_of(new)["accepted_by"], source_of(new)["expected"]) == ("ada", "proposed")
    assert burnish("data", "check", *FILES).code == 0
    rest = burnish("data", "accept", "proposals.jsonl", "--all", "--as", "ada")
    assert rest.lines[:3] == [
        "added    2 cases to train.jsonl",
        "added    0 cases to holdout.jsonl",
        "repeated 1 left out, asked there already: lamp-edge-1-2",
    ]


def test_two_proposals_that_ask_the_same_are_not_accepted_for_two_splits(
    grow: Grow, burnish: Burnish, writer: Writer
) -> None:
    """They come from two commands, each of which checked only its own."""
    asked = "Does the guarantee cover a kettle that fell from the table"
    writer.says = lambda kind, source: answer({"input": f"{asked}?"})
    grow("--documents", "rules.md", "--kinds", "edge")
    writer.says = lambda kind, source: answer({"input": f"{asked}, please?"})
    grow("--documents", "rules.md", "--kinds", "paraphrase", "--into", "holdout.jsonl")
    said = burnish("data", "accept", "proposals.jsonl", "--all")
    assert said.lines[:3] == [
        "added    1 case to train.jsonl",
        "added    0 cases to holdout.jsonl",
        "leaking  1 left out, nearly in another file: rules-1-paraphrase-1",
    ]
    assert burnish("data", "check", *FILES).code == 0


def test_proposals_of_a_watch_are_checked_against_the_other_splits(burnish: Burnish) -> None:
    lines_of(
        "watched.jsonl",
        [
            {"name": "seen", "input": "My new lamp arrived broken, so what can I do now?"},
            {"name": "new", "input": "Where is the parcel that I sent to Basel on Monday?"},
        ],
    )
    accept = ("data", "accept", "watched.jsonl", "--all")
    refused(burnish(*accept), "does not say which file", "--to FILE")
    said = burnish(*accept, "--to", "train.jsonl", "--against", "holdout.jsonl")
    assert said.lines == [
        "added    1 case to train.jsonl",
        "leaking  1 left out, nearly in another file: seen",
        "next     burnish data check train.jsonl holdout.jsonl",
    ]
    assert read_cases(Path("train.jsonl")).cases[-1].id == "new"


BAD_GROWTH: dict[str, tuple[str, ...]] = {
    "": ("there is nothing to grow cases from", "--run RUN"),
    "--run nowhere": ("nowhere",),
    "--run measured --kinds edgy": ("unknown kind 'edgy'", "did you mean 'edge'"),
    "--run measured --kinds ,": ("no kind is named",),
    "--run measured -o missing/p.jsonl": ("cannot write missing/p.jsonl", ".jsonl file in a"),
    "--run measured -o p.csv": ("cannot write p.csv",),
    "--documents nothing.md": ("nothing.md",),
    "--documents rules.md --into other.jsonl": ("other.jsonl is not one of the files",),
    "--traces rules.md": ("rules.md",),
    "--run measured --max-usd 1": ("the price of openai:writer is not known", "--max-calls"),
    "--run measured --redact (": ("(",),
}


@pytest.mark.parametrize("flags", BAD_GROWTH)
def test_what_cannot_be_grown_is_refused_before_anything_is_asked(
    grow: Grow, writer: Writer, flags: str
) -> None:
    refused(grow(*flags.split()), *BAD_GROWTH[flags])
    assert writer.requests == []
    assert not Path("proposals.jsonl").exists()


def test_files_that_cannot_be_grown(grow: Grow, burnish: Burnish) -> None:
    source = ("--documents", "rules.md")
    refused(grow(*source, files=("train.jsonl", "train.jsonl")), "named twice")
    refused(grow(*source, files=("missing.jsonl",)), "missing.jsonl")
    Path("empty.jsonl").touch()
    refused(grow(*source, files=("empty.jsonl",)), "empty.jsonl")
    model = ("--model", "opnai:gpt")
    refused(burnish("data", "grow", "train.jsonl", *source, *model), "did you mean 'openai:gpt'")
    lines_of("other.jsonl", [{"name": "other", "input": "Something else?"}])
    failing = grow("--run", "measured", files=("other.jsonl",))
    refused(failing, "none of its failing cases is in these files")


def test_proposals_that_cannot_be_accepted(grow: Grow, burnish: Burnish) -> None:
    grow("--run", "measured", "--kinds", "edge")
    before = contents()
    accept = ("data", "accept", "proposals.jsonl")
    refused(burnish(*accept, "--case", "lamp-edge-2"), "did you mean 'lamp-edge-1'")
    refused(burnish("data", "accept", "missing.jsonl", "--all"), "missing.jsonl")
    refused(burnish(*accept, "--all", "--against", "gone.jsonl"), "gone.jsonl")
    Path("holdout.jsonl").rename("moved.jsonl")
    refused(burnish(*accept, "--all"), "holdout.jsonl")
    Path("moved.jsonl").rename("holdout.jsonl")
    Path("proposals.jsonl").write_text('{"input": 1', encoding="utf-8")
    refused(burnish(*accept, "--all"), "proposals.jsonl")
    assert contents() == before
