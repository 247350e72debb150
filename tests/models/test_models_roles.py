"""Roles: a prompt, a typed request, a validated answer, one repair."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from burnish.core.errors import ConfigError, RoleFailed
from burnish.journal.limits import RetryPolicy
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.errors import ModelUnavailable
from burnish.models.factory import Models
from burnish.models.prices import Prices
from burnish.models.providers import Price
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole, RolePrompt, in_force, read_prompt, shipped
from burnish.runs.run import Run
from burnish.testing.doubles import ScriptedBackend
from tests.runs.small import driven, small


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


def checker(
    respond: Callable[[ChatRequest, int], str | ChatReply], prompt: RolePrompt = PROMPT
) -> tuple[ModelRole[Question, Verdict], ScriptedBackend]:
    backend = ScriptedBackend(respond=respond)
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
        client=models.client(ModelRef.parse("openai:m")),
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
    system = " ".join(read_prompt(shipped()[role]).system.split())
    assert "labels, formats and closed sets of answers" in system.lower()
    assert "exactly as they are" in system
    assert "question and answer" in system
    assert read_prompt(shipped()[role]).version >= 2
