"""Examples in the only text of an agent: how they are written, chosen, and kept by rewrites."""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset, Split
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.run import Run
from burnish.runs.setup import (
    Proposed,
    ProposerEvidence,
    ProposerOffer,
    Setup,
    Tried,
    start,
)
from burnish.strategies.auto.search import Auto
from burnish.strategies.reflective.examples import EXAMPLES, ExamplesProposer, TextWithExamples
from burnish.strategies.reflective.reflection import (
    ROLE,
    Reflection,
    ReflectionProposer,
    ReflectRequest,
)
from burnish.testing import ExpectedText, ScriptedRole, ScriptedTarget
from tests.strategies.coordinate_runs import driven

TEXT = "instructions"
VAGUE = "Name the office."
LABELS = ("north", "south", "east", "west")
TRAIN = tuple(Case.single(f"Question {n}?", LABELS[n % 4], name=f"t{n}") for n in range(20))
HOLDOUT = tuple(Case.single(f"Holdout {n}?", LABELS[n % 4], name=f"h{n}") for n in range(8))


# -- How they are written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "placeholders", "written"),
    [
        ("Rules.", (), "Rules.\n\nExamples:{}"),
        ("Rules.\n", (), "Rules.\n\nExamples:{}\n"),
        ("Rules.\n\nAsked: {q}\n", ("{q}",), "Rules.\n\nExamples:{}\n\nAsked: {q}\n"),
        ("Answer {q} well.", ("{q}",), "Answer {q} well.\n\nExamples:{}"),
        ("For {x}.\n\nMore.\n\n{q}", ("{x}", "{q}"), "For {x}.\n\nMore.\n\nExamples:{}\n\n{q}"),
    ],
    ids=["at the end", "before a last line break", "in a template", "no paragraph", "last one"],
)
def test_examples_are_read_back_as_they_were_written(
    text: str, placeholders: tuple[str, ...], written: str
) -> None:
    shown = (TRAIN[2], TRAIN[0])
    block = "".join(f"\n\nInput: {case.input}\nOutput: {case.expected}" for case in shown)
    made = TextWithExamples(text=text, cases=shown)
    assert made.write(placeholders) == written.replace("{}", block)
    assert TextWithExamples.read(made.write(placeholders), TRAIN) == made


def test_an_example_that_begins_like_another_one_is_told_apart() -> None:
    cases = (Case.single("How many?", "1", name="a"), Case.single("How many?", "12", name="b"))
    for case in cases:
        made = TextWithExamples(text="Count.", cases=(case,))
        assert TextWithExamples.read(made.write(), cases) == made
    assert TextWithExamples.read("Count.\n\nExamples:\n\nInput: How many?\nOutput: 13", cases) == (
        TextWithExamples(text="Count.\n\nExamples:\n\nInput: How many?\nOutput: 13")
    )


def test_examples_of_somebody_else_stay_where_they_are() -> None:
    text = "Rules.\n\nExamples:\n\nInput: mine\nOutput: yours"
    assert TextWithExamples.read(text, TRAIN) == TextWithExamples(text=text)


# -- How they are chosen ---------------------------------------------------------------------------


def setup(
    *,
    train: tuple[Case, ...] = TRAIN,
    surface: TextSurface | None = None,
    text: str = VAGUE,
    learns: int = 4,
    rewrite: Callable[[ReflectRequest, int], Reflection] | None = None,
) -> Setup:
    """An agent that is right once its text has so many examples and says to be short."""

    def respond(candidate: Candidate, case: Case, draw: int) -> str:
        del draw
        text = str(candidate.values[TEXT])
        return (case.expected or "") if text.count("\nOutput: ") >= learns else "Well, I think"

    role = ScriptedRole(
        name=ROLE,
        respond=rewrite or _chatter,
        request_type=ReflectRequest,
        answer_type=Reflection,
    )
    offers = (
        ProposerOffer(
            name="reflection",
            surfaces=(TEXT,),
            begin=partial(ReflectionProposer, reflector=role, fields=(TEXT,)),
            roles=(role,),
        ),
        ProposerOffer(name=EXAMPLES, surfaces=(TEXT,), begin=partial(ExamplesProposer, field=TEXT)),
    )
    return Setup(
        target=ScriptedTarget(
            respond=respond, surfaces=(surface or TextSurface(id=TEXT),), values={TEXT: text}
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=train, holdout=HOLDOUT),
        strategy=Auto(offers=offers),
        budget=Budget(max_metric_calls=120),
    )


def _chatter(request: ReflectRequest, draw: int) -> Reflection:
    return Reflection(diagnosis="style", new_text=f"{request.current_text} Be kind ({draw}).")


async def evidence_of(run: Run, *, number: int = 1, first: int = 0) -> ProposerEvidence:
    parent, cases = run.target.baseline, run.dataset.train[first : first + 3]
    before = await run.evaluate(parent, split=Split.TRAIN, cases=cases)
    return ProposerEvidence(round=number, parent=parent, cases=cases, before=before, train=before)


def proposals(made: Setup, folder: Path, count: int) -> list[Proposed]:
    """What is proposed in so many rounds, if nothing of it helps."""

    async def go() -> list[Proposed]:
        run = start(made, folder=folder)
        proposer = ExamplesProposer(run, field=TEXT)
        proposed: list[Proposed] = []
        for number in range(count):
            evidence = await evidence_of(run, number=number)
            proposed.append(await proposer.propose(evidence))
            proposer.learn(Tried(accepted=False))
        await run.close()
        return proposed

    return asyncio.run(go())


def shown(proposed: Proposed) -> list[Case]:
    assert proposed.candidate is not None
    return list(TextWithExamples.read(str(proposed.candidate.values[TEXT]), TRAIN).cases)


def test_four_cases_of_different_labels_are_shown_and_none_of_the_minibatch(
    tmp_path: Path,
) -> None:
    (proposed,) = proposals(setup(), tmp_path / "run", 1)
    cases = shown(proposed)
    assert {case.expected for case in cases} == set(LABELS)
    assert not {case.id for case in cases} & {case.id for case in TRAIN[:3]}
    assert proposed.source == {"examples": [case.id for case in cases]}
    assert proposed.candidate is not None
    assert proposed.candidate.origin.note == "4 examples"


def test_other_cases_are_tried_once_more_and_then_no_more(tmp_path: Path) -> None:
    first, second, third = proposals(setup(), tmp_path / "run", 3)
    assert shown(first) != shown(second)
    assert third.nothing_left == "examples_tried"


def test_a_text_with_examples_gets_others_in_their_place_and_more_of_them(tmp_path: Path) -> None:
    text = TextWithExamples(text=VAGUE, cases=TRAIN[4:8]).write()
    (proposed,) = proposals(setup(text=text), tmp_path / "run", 1)
    assert proposed.candidate is not None
    now = TextWithExamples.read(str(proposed.candidate.values[TEXT]), TRAIN)
    assert (now.text, len(now.cases)) == (VAGUE, 8)


@pytest.mark.parametrize(
    ("max_chars", "count"), [(len(VAGUE) + 100, 2), (len(VAGUE) + 20, 0)], ids=["two", "none"]
)
def test_no_more_are_shown_than_there_is_room_for(
    tmp_path: Path, max_chars: int, count: int
) -> None:
    surface = TextSurface(id=TEXT, max_chars=max_chars)
    (proposed,) = proposals(setup(surface=surface), tmp_path / "run", 1)
    if count:
        assert len(shown(proposed)) == count
    else:
        assert proposed.nothing_left == "no_examples"


def test_cases_that_are_no_question_with_an_answer_are_not_shown(tmp_path: Path) -> None:
    odd = (
        Case.single("no answer", name="unlabelled"),
        Case.single("a {brace}", "north", name="template"),
        Case.single("price in $", "north", name="dollar"),
    )
    surface = TextSurface(id=TEXT, placeholders=("{q}",))
    made = setup(train=(*TRAIN[:3], *odd), surface=surface, text=f"{VAGUE}\n\n{{q}}")
    (proposed,) = proposals(made, tmp_path / "run", 1)
    assert proposed.nothing_left == "no_examples"


# -- In a search -----------------------------------------------------------------------------------


def test_a_search_finds_examples_where_no_rewrite_helps(tmp_path: Path) -> None:
    run = driven(setup(), tmp_path / "run")
    best = TextWithExamples.read(str(run.ending.best.values[TEXT]), TRAIN)
    assert len(best.cases) >= 4
    assert not any(case.input in str(run.ending.best.values[TEXT]) for case in HOLDOUT)
    assert {row.trial.phase for row in run.rows if row.trial.accepted} >= {EXAMPLES}


def test_answers_that_no_rewrite_may_copy_are_shown_as_examples(tmp_path: Path) -> None:
    train = tuple(
        Case.single(
            f"Which office has desk {n}?", f"the office of number {n} street {n}", name=f"t{n}"
        )
        for n in range(20)
    )
    run = driven(setup(train=train), tmp_path / "run")
    assert not any(row.trial.problems for row in run.of_phase(EXAMPLES))
    best = TextWithExamples.read(str(run.ending.best.values[TEXT]), train)
    assert len(best.cases) >= 4


def test_a_search_in_which_examples_do_not_help_pays_for_few_of_them(tmp_path: Path) -> None:
    run = driven(setup(learns=100), tmp_path / "run")
    assert len(run.of_phase(EXAMPLES)) == 2
    told = [e for e in run.events("proposer_stopped") if e["proposer"] == EXAMPLES]
    assert [event["reason"] for event in told] == ["examples_tried"]


def test_a_rewrite_sees_the_rules_alone_and_leaves_the_examples(tmp_path: Path) -> None:
    requests: list[ReflectRequest] = []

    def rewrite(request: ReflectRequest, draw: int) -> Reflection:
        requests.append(request)
        return Reflection(diagnosis="vague", new_text=f"Be short ({draw}).")

    text = TextWithExamples(text=VAGUE, cases=TRAIN[8:10]).write()
    surface = TextSurface(id=TEXT, max_chars=500)
    made = setup(text=text, surface=surface, rewrite=rewrite)

    async def go() -> Proposed:
        run = start(made, folder=tmp_path / "run")
        assert isinstance(made.strategy, Auto)
        begin = made.strategy.offers[0].begin
        assert begin is not None
        proposed = await begin(run).propose(await evidence_of(run))
        await run.close()
        return proposed

    proposed = asyncio.run(go())
    assert [request.current_text for request in requests] == [VAGUE]
    assert requests[0].max_chars == 500 - (len(text) - len(VAGUE))
    assert proposed.candidate is not None
    now = TextWithExamples.read(str(proposed.candidate.values[TEXT]), TRAIN)
    assert re.fullmatch(r"Be short \(\d+\)\.", now.text)
    assert now.cases == TRAIN[8:10]
