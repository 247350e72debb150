"""Roles: a prompt, a typed request, a validated answer, one repair."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from burnish.core.errors import ConfigError, RoleFailed
from burnish.core.trials import Trial
from burnish.journal.once import DirectEffects
from burnish.journal.outages import RetryPolicy
from burnish.models.answers import text_mark
from burnish.models.chat import ChatReply, ChatRequest, Prices
from burnish.models.errors import ModelUnavailable
from burnish.models.factory import Models
from burnish.models.providers import Price
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.roles import (
    ModelRole,
    RewrittenText,
    RolePrompt,
    in_force,
    read_prompt,
    shipped,
)
from burnish.runs.directory import RunRecord
from burnish.runs.report_sections import cost_rows
from burnish.runs.run import Run
from burnish.testing.doubles import ScriptedBackend
from tests.runs.small import driven, longer, small


class Question(BaseModel):
    """What the role is asked."""

    text: str
    reasons: list[str] = Field(default_factory=list[str])


class Verdict(BaseModel):
    """What the role answers."""

    ok: bool
    confidence: float = Field(ge=0, le=1)


PROMPT = RolePrompt(
    name="checker",
    system="You check texts.",
    user="Text: {{ text }}\nReasons: {{reasons}}\nKeep {{ braces }} out.".replace(
        "{{ braces }}", "{x}"
    ),
)
GOOD = '{"ok": true, "confidence": 0.5}'


@dataclass(frozen=True, kw_only=True)
class _Settings(ScriptedBackend):
    """A scripted model that remembers the settings it was called with."""

    settings: list[ModelSettings] = field(default_factory=list[ModelSettings])

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        self.settings.append(ref.settings)
        return await super().complete(ref, request, draw=draw)


def checker(
    respond: Callable[[ChatRequest, int], str | ChatReply], prompt: RolePrompt = PROMPT
) -> tuple[ModelRole[Question, Verdict], _Settings]:
    backend = _Settings(respond=respond)
    models = Models(
        prices=Prices(overrides={"openai:m": Price(input_per_million=1.0, output_per_million=1.0)}),
        retries=RetryPolicy(attempts=1),
        backends={"openai": backend},
    )
    role = ModelRole(
        name="checker",
        request_type=Question,
        answer_type=Verdict,
        prompt=prompt,
        client=models.client(ModelRef.parse("openai:m"), prompt.settings),
    )
    return role, backend


async def test_the_prompt_is_filled_and_the_answer_is_typed() -> None:
    role, backend = checker(lambda _, __: GOOD)
    effects = DirectEffects()
    asked = Question(text="{{ reasons }} $&", reasons=["a", "b"])
    receipt = await role.answer(asked, draw=0, effects=effects)
    assert receipt.value == Verdict(ok=True, confidence=0.5)
    assert effects.spent.calls == 1
    system, user = backend.asked[0].messages
    assert system.content == "You check texts."
    assert user.content == 'Text: {{ reasons }} $&\nReasons: [\n  "a",\n  "b"\n]\nKeep {x} out.'
    assert backend.asked[0].schema is not None
    assert backend.asked[0].schema["required"] == ["ok", "confidence"]


@pytest.mark.parametrize("wrapped", [f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```", f"  {GOOD}\n"])
async def test_a_fence_around_the_answer_is_no_fault(wrapped: str) -> None:
    role, backend = checker(lambda _, __: wrapped)
    await role.answer(Question(text="x"), draw=0, effects=DirectEffects())
    assert len(backend.asked) == 1


@pytest.mark.parametrize(
    "bad", ["yes", '{"ok": true', '{"ok": true}', '{"ok": true, "confidence": 7}', "[]", ""]
)
async def test_an_invalid_answer_is_repaired_once(bad: str) -> None:
    role, backend = checker(lambda request, _: GOOD if len(request.messages) > 2 else bad)
    effects = DirectEffects()
    receipt = await role.answer(Question(text="x"), draw=0, effects=effects)
    assert receipt.value.ok
    assert effects.spent.calls == 2, "the repair is a call of its own"
    assert backend.asked[1].messages[2].content == bad
    assert "not a valid answer" in backend.asked[1].messages[3].content


async def test_two_invalid_answers_are_a_failure() -> None:
    role, backend = checker(lambda _, __: "never JSON")
    with pytest.raises(RoleFailed, match="twice without a valid answer"):
        await role.answer(Question(text="x"), draw=0, effects=DirectEffects())
    assert len(backend.asked) == 2


async def test_a_cut_off_answer_is_never_adopted() -> None:
    role, backend = checker(lambda _, __: ChatReply(text=GOOD, finish="length"))
    with pytest.raises(RoleFailed, match="cut off"):
        await role.answer(Question(text="x"), draw=0, effects=DirectEffects())
    assert len(backend.asked) == 1


async def test_a_cut_off_answer_gets_a_larger_limit_once() -> None:
    limited = replace(PROMPT, settings=ModelSettings(max_tokens=100))
    limits: list[int | None] = []

    def short(text: str, _: int) -> ChatReply:
        limit = backend.settings[-1].max_tokens
        limits.append(limit)
        return ChatReply(text=text, finish="length" if limit == 100 else "stop")

    role, backend = checker(lambda _, draw: short(GOOD, draw), limited)
    receipt = await role.answer(Question(text="x"), draw=0, effects=DirectEffects())
    assert limits == [100, 200]
    assert receipt.value.ok
    assert receipt.mended == ("asked again: the answer was cut off at 100 tokens",)
    role, backend = checker(lambda _, __: ChatReply(text=GOOD, finish="length"), limited)
    with pytest.raises(RoleFailed, match="cut off at its token limit, also at 200 tokens"):
        await role.answer(Question(text="x"), draw=0, effects=DirectEffects())
    assert len(backend.asked) == 2


# -- Rewrites: an answer that only repeats the request --------------------------------------------


class Wish(BaseModel):
    """A text, and what went wrong with it."""

    text: str
    cases: str = "Input: The lamp flickers every evening."


class NewText(BaseModel):
    """The text that takes its place."""

    new_text: str


def rewriter(*answers: str) -> tuple[ModelRole[Wish, NewText], "_Settings"]:
    script = iter(answers)
    backend = _Settings(respond=lambda _, __: json.dumps({"new_text": next(script)}))
    role = ModelRole(
        name="rewriter",
        request_type=Wish,
        answer_type=NewText,
        prompt=RolePrompt(
            name="rewriter",
            system="You rewrite.",
            user="The text now:\n\n{{ text }}\n\n"
            "{{#cases}}\nIt failed:\n\n{{ cases }}\n{{/cases}}\nGo.",
            settings=ModelSettings(temperature=0.5),
        ),
        client=Models(backends={"openai": backend}).client(
            ModelRef.parse("openai:m"), ModelSettings(temperature=0.5)
        ),
        rewrite=RewrittenText(part="new_text", current=lambda wish: wish.text),
    )
    return role, backend


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("Be  brief.", "new_text was the current text, unchanged"),
        ("<text>", "new_text only repeated a part of the request"),
        ("The text now:\n\nBe brief.", "new_text was the current text, unchanged"),
        ("The lamp flickers every evening.", "new_text only repeated a part of the request"),
        ("I'm sorry, I cannot see it.", "new_text was a reply in a chat, and no text to use"),
        (
            "The new text should be kind.",
            "new_text spoke about the text, and must be the text itself",
        ),
    ],
)
async def test_an_answer_of_no_use_is_asked_for_again_warmer(first: str, why: str) -> None:
    role, backend = rewriter(first, "Be kind.")
    effects = DirectEffects()
    receipt = await role.answer(Wish(text="Be brief."), draw=3, effects=effects)
    assert receipt.value.new_text == "Be kind."
    assert receipt.mended[0] == f"asked again: {why}"
    assert effects.spent.calls == 2, "the second answer is a call of its own"
    assert [each.temperature for each in backend.settings] == [0.5, 0.9]
    question, again = (each.messages[-1].content for each in backend.asked)
    assert again.startswith(question.rstrip())
    assert why in again


async def test_a_text_that_was_tried_before_is_asked_for_again() -> None:
    def tried(wish: Wish) -> tuple[str, ...]:
        del wish
        return (text_mark("Be kind."),)

    role, backend = rewriter("Be  kind.", "Be bold.")
    assert role.rewrite is not None
    role = replace(role, rewrite=replace(role.rewrite, tried=tried))
    receipt = await role.answer(Wish(text="Be brief."), draw=0, effects=DirectEffects())
    assert receipt.value.new_text == "Be bold."
    assert receipt.mended == ("asked again: new_text was a text that was tried before",)
    assert [each.temperature for each in backend.settings] == [0.5, 0.9]


async def test_the_second_request_may_show_other_cases() -> None:
    def otherwise(wish: Wish) -> Wish:
        return wish.model_copy(update={"cases": "Input: The door sticks."})

    role, backend = rewriter("Be brief.", "The door sticks.", "Be bold.")
    assert role.rewrite is not None
    role = replace(role, rewrite=replace(role.rewrite, otherwise=otherwise))
    receipt = await role.answer(Wish(text="Be brief."), draw=0, effects=DirectEffects())
    first, again, *_ = (each.messages[-1].content for each in backend.asked)
    assert "lamp" in first
    assert "door" not in first
    assert "door" in again
    assert "lamp" not in again
    assert "An earlier answer was of no use" in again
    assert receipt.value.new_text == "The door sticks.", "a second answer is taken as it is"


async def test_a_text_that_is_the_current_one_when_completed_is_asked_for_again() -> None:
    def completed(wish: Wish, text: str) -> str:
        del wish
        return f"{text} In one word."

    role, _ = rewriter("Be brief.", "Be bold.")
    assert role.rewrite is not None
    ending = replace(role.rewrite, completed=completed)
    receipt = await replace(role, rewrite=ending).answer(
        Wish(text="Be brief. In one word."), draw=0, effects=DirectEffects()
    )
    assert receipt.value.new_text == "Be bold. In one word."
    assert receipt.mended[0] == "asked again: new_text was the current text, unchanged"


async def test_a_text_that_stays_as_it_is_twice_is_an_answer() -> None:
    role, backend = rewriter("Be brief.", "Be brief.")
    receipt = await role.answer(Wish(text="Be brief."), draw=0, effects=DirectEffects())
    assert receipt.value.new_text == "Be brief."
    assert len(backend.asked) == 2


async def test_what_was_copied_around_a_new_text_is_taken_off_without_asking_again() -> None:
    role, backend = rewriter("The text now:\n\nBe kind.")
    receipt = await role.answer(Wish(text="Be brief."), draw=0, effects=DirectEffects())
    assert receipt.value.new_text == "Be kind."
    assert receipt.mended == ("parts of the request around the text",)
    assert len(backend.asked) == 1


def test_a_section_is_left_out_where_its_field_is_empty() -> None:
    prompt = rewriter("x")[0].prompt
    assert prompt.fields == ("text", "cases")
    shown = [prompt.messages({"text": "T", "cases": cases})[1].content for cases in ("", "C")]
    assert shown == ["The text now:\n\nT\n\nGo.", "The text now:\n\nT\n\nIt failed:\n\nC\nGo."]


async def test_a_model_that_cannot_be_reached_is_a_missing_answer() -> None:
    def outage(request: ChatRequest, draw: int) -> str:
        raise ModelUnavailable("429")

    role, _ = checker(outage)
    with pytest.raises(RoleFailed, match="could not be asked: 429") as raised:
        await role.answer(Question(text="x"), draw=0, effects=DirectEffects())
    assert raised.value.missing


async def test_asking_through_a_run_is_journaled_with_the_prompt_in_the_key(
    tmp_path: Path,
) -> None:
    answers: list[Verdict] = []

    async def asked(prompt: RolePrompt) -> int:
        role, backend = checker(lambda _, __: GOOD, prompt)

        async def steps(run: Run) -> None:
            answers.append(await run.ask(role, Question(text="train question")))

        ending = await driven(small(steps=steps, roles=[role]), tmp_path / prompt.system)
        assert ending.spent.calls == 1
        again = await driven(small(steps=steps, roles=[role]), tmp_path / prompt.system)
        assert again.spent == ending.spent
        return len(backend.asked)

    changed = RolePrompt(name="checker", system="Changed", user=PROMPT.user)
    assert await asked(PROMPT) == 1
    assert await asked(changed) == 1
    assert answers == [Verdict(ok=True, confidence=0.5)] * 4
    first, _ = checker(lambda _, __: GOOD)
    second, _ = checker(lambda _, __: GOOD, changed)
    assert first.fingerprint != second.fingerprint


async def test_a_second_request_is_journaled_counted_and_shown(tmp_path: Path) -> None:
    role, backend = rewriter("Be brief.", "Be kind.")

    async def steps(run: Run) -> None:
        baseline = run.target.baseline
        run.record(Trial(candidate=baseline, phase="baseline"))
        run.advance(baseline)
        await run.ask(role, Wish(text="Be brief.", cases=""))
        run.record(Trial(candidate=longer(baseline), phase="letters"))

    first, second = [
        await driven(small(steps=steps, roles=[role]), tmp_path / "run") for _ in range(2)
    ]
    assert first.spent.calls == second.spent.calls == 2
    assert len(backend.asked) == 2, "a replay asks nobody"
    record = RunRecord.read(tmp_path / "run")
    (proposal,) = record.rows[1].trial.proposals
    reason = "asked again: new_text was the current text, unchanged"
    assert proposal.mended == (reason,)
    rows = dict(cost_rows(record))
    assert rows["asked again"] == "1 of 1 answer, because the first was of no use"


def test_a_placeholder_that_the_request_lacks_is_refused() -> None:
    prompt = RolePrompt(name="checker", system="s", user="{{ txet }}", source=Path("checker.yaml"))
    with pytest.raises(ConfigError, match=r"checker.yaml: unknown placeholder \{\{ txet \}\}"):
        checker(lambda _, __: GOOD, prompt)


def test_an_installed_prompt_is_in_force(tmp_path: Path) -> None:
    name = next(iter(shipped()))
    before = in_force(name, tmp_path)
    installed = tmp_path / ".burnish" / "roles" / f"{name}.yaml"
    installed.parent.mkdir(parents=True)
    installed.write_text(f"name: {name}\nsystem: mine\nuser: ours\n", encoding="utf-8")
    after = in_force(name, tmp_path)
    assert after.system == "mine"
    assert after.fingerprint != before.fingerprint
    assert after.source == installed


def test_shipped_prompts_are_whole() -> None:
    for name, path in shipped().items():
        prompt = read_prompt(path)
        assert prompt.name == name
        assert prompt.description
        assert prompt.fields


def test_an_unknown_role_and_a_bad_file_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such role"):
        in_force("nobody", tmp_path)
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nsystm: x\nuser: y\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"(?s)systm.*did you mean 'system'"):
        read_prompt(bad)


PROPOSERS = (
    "aggregator",
    "applier",
    "backwarder",
    "critic",
    "editor",
    "patcher",
    "reflector",
    "textgrad",
)


@pytest.mark.parametrize("role", PROPOSERS)
def test_whoever_proposes_may_state_labels_and_may_not_copy_a_case(role: str) -> None:
    prompt = read_prompt(shipped()[role])
    request = " ".join(f"{prompt.system} {prompt.user}".split())
    assert "labels, formats and closed sets of answers" in request.lower()
    assert "exactly as they are" in request
    assert "question and answer" in request
    assert prompt.version >= 3


@pytest.mark.parametrize("role", [*PROPOSERS, "manager", "worker"])
def test_a_request_has_no_tags_to_copy_and_ends_with_the_form_of_the_answer(role: str) -> None:
    user = read_prompt(shipped()[role]).user
    assert not re.search(r"</[a-z_]+>", user)
    assert "JSON object" in user.strip().split("\n\n")[-1]
