"""Shortening a text never tears an example apart: a question keeps its answer."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.cases import Case, Dataset, Outcome, Usage
from burnish.core.surfaces import Candidate, TextSurface
from burnish.runs.driver import drive
from burnish.runs.setup import Setup, start
from burnish.strategies.frugal import Frugal, FrugalSettings
from burnish.strategies.parts import DivisibleText
from burnish.strategies.reflective.examples import TextWithExamples
from burnish.strategies.text_units import units_of
from burnish.testing import ExpectedText, ScriptedTarget
from tests.strategies.test_frugal import OBJECTIVE, PRICES

RULES = "You sort tickets. Answer with one word. Be brief.\n\n"
MORE = "\n\nDo not explain. Stay calm.\n"
ONE = ("Charged twice. Help me please!", "billing")
TWO = ("It crashes. Again and again.", "technical")
THREE = ("Where is my parcel? It is late.", "shipping")
QUESTIONS = (ONE, TWO, THREE)

FORMATS = {
    "input and output": "Input: {0}\nOutput: {1}\n\n",
    "without a line between": "Input: {0}\nOutput: {1}\n",
    "with a line inside": "Q: {0}\n\nA: {1}\n\n",
    "numbered": "Q{2}: {0}\nA{2}: {1}\n\n",
    "bold": "**User:** {0}\n\n**Assistant:** {1}\n\n",
    "in a list": "- Question: {0}\n  Answer: {1}\n",
    "a list of each": "- Question: {0}\n- Answer: {1}\n",
    "any labels": "Ticket: {0}\n\nCategory: {1}\n\n",
    "another language": "Frage: {0}\nAntwort: {1}\n\n",
    "several fields": "Input: {0}\nLanguage: English\nOutput: {1}\n\n",
    "several paragraphs": "Email: Hello.\n\n{0}\n\nReply: {1}\n\nGoodbye.\n\n",
    "blocks": "Example {2}:\nInput: {0}\nOutput: {1}\n\n",
    "blocks without labels": "### Example {2}\n{0}\n\n{1}\n\n",
    "arrows": "- {0} -> {1}\n",
    "arrows below": "{0}\n=> {1}\n\n",
    "a table": "| {0} | {1} |\n",
    "elements": "<example>\n<q>{0}</q>\n\n<label>{1}</label>\n</example>\n",
    "pairs of elements": "<ticket>{0}</ticket>\n<category>{1}</category>\n",
    "a conversation": (
        "<conversation>\nUser: Hi\nAssistant: Hello\nUser: {0}\nAssistant: {1}\n</conversation>\n"
    ),
    "fences": "Input:\n```\n{0}\n```\nOutput:\n```\n{1}\n```\n\n",
    "in a fence": "```\n{0}\n\n{1}\n```\n\n",
    "JSON lines": '{{"input": "{0}", "output": "{1}"}}\n',
    "JSON": '{{\n  "input": "{0}",\n\n  "output": "{1}"\n}}\n',
}


def written(form: str, count: int) -> str:
    return "".join(form.format(*QUESTIONS[n], n + 1) for n in range(count))


def leavings(text: str) -> list[str]:
    """What is left of a text without each of its parts."""
    divided = DivisibleText(text)
    parts = [each for part in divided.parts for each in (part, *part.smaller)]
    return [divided.without(part) for part in parts]


def is_torn(text: str) -> bool:
    """Whether a question has lost its answer, or a sentence of its own."""
    return any(
        len({piece in text for piece in (*question.split(". "), answer)}) > 1
        for question, answer in QUESTIONS
    )


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_no_part_is_half_an_example(form: str, count: int) -> None:
    text = f"{RULES}{written(form, count)}".rstrip() + MORE
    found = leavings(text)
    assert [each for each in found if is_torn(each)] == []
    assert any(each.startswith("You sort tickets. Be brief.") for each in found)


def test_a_single_example_with_any_labels_stays_whole() -> None:
    for form in (
        "Ticket: {0}\nCategory: {1}",
        "Example:\n\n{0}\n\n{1}",
        "Eingabe: {0}\nAusgabe: {1}",
    ):
        text = f"{RULES}{form.format(*ONE)}"
        assert not any(map(is_torn, leavings(text)))


def test_rules_around_examples_leave_on_their_own() -> None:
    text = (
        f"{RULES}Examples:\n\n{written(FORMATS['input and output'], 3)}Do not explain. Stay calm."
    )
    left = leavings(text)
    assert text.replace("Do not explain. ", "") in left
    assert text.replace("Answer with one word. ", "") in left
    assert text.replace(FORMATS["input and output"].format(*TWO), "") in left


@pytest.mark.parametrize("form", ["without a line between", "in a list", "arrows", "elements"])
def test_examples_without_a_line_between_them_leave_one_by_one(form: str) -> None:
    text = f"{RULES}{written(FORMATS[form], 3)}"
    assert text.replace(FORMATS[form].format(*TWO, 2), "") in leavings(text)


def test_lines_that_only_have_a_label_are_lines() -> None:
    text = "- **Tone**: kind. Warm.\n- **Length**: short\n\nNote: fair.\n\nNo jokes.\n\nNote: firm."
    left = leavings(text)
    assert text.replace(" Warm.", "") in left
    assert text.replace("No jokes.\n\n", "") in left


@given(st.text(alphabet='ab:.\n <>/{}[]"`#->QA1', max_size=60))
def test_every_character_belongs_to_one_unit(text: str) -> None:
    assert "".join(unit.text for unit in units_of(text)) == text


def test_examples_that_a_search_wrote_stay_whole() -> None:
    cases = [Case.single(*question) for question in QUESTIONS]
    text = TextWithExamples(text=RULES.rstrip(), cases=tuple(cases)).write()
    for left in leavings(text):
        assert not is_torn(left)


async def test_a_cheaper_prompt_has_whole_examples(tmp_path: Path) -> None:
    """Only the labels of the examples are missed, so every question would leave."""
    text = f"{RULES}{written(FORMATS['input and output'], 2)}".rstrip()

    def respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
        del draw
        prompt = str(candidate.values["prompt"])
        words = len(prompt.split())
        right = "Output: billing" in prompt and "Output: technical" in prompt
        return Outcome(
            replies=("yes" if right else "no",),
            nano_usd=words * PRICES["large"],
            usage=Usage(requests=1, input_tokens=words, output_tokens=1),
        )

    def cases(split: str, count: int) -> tuple[Case, ...]:
        return tuple(Case.single(f"question {split} {n}", "yes") for n in range(count))

    run = start(
        Setup(
            target=ScriptedTarget(
                respond=respond, surfaces=(TextSurface(id="prompt"),), values={"prompt": text}
            ),
            metrics=(ExpectedText(),),
            objective=OBJECTIVE,
            dataset=Dataset(train=cases("a", 4), holdout=cases("b", 24)),
            strategy=Frugal(settings=FrugalSettings()),
        ),
        folder=tmp_path / "run",
    )
    try:
        ending = await drive(run)
    finally:
        await run.close()
    best = str(ending.best.values["prompt"])
    assert not is_torn(best)
    assert best == written(FORMATS["input and output"], 2).rstrip()
