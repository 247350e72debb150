"""Adopting a run: the user's own files get the values, safely, and get them back."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.errors import BurnishError, RunLocked
from burnish.core.surfaces import DemonstratedCall, Demonstration, Value
from burnish.projects.adopt import Plan, adopt, adopting, plan_adoption, plan_undo, undo
from burnish.projects.adopt_files import carried_over, hunks, without, write_together
from burnish.projects.agent.dialect import file_changes
from burnish.runs.directory import RunRecord
from burnish.runs.homes import ADOPTED as RECORD
from burnish.system import FileLock, Redactor
from burnish.targets.agent.blocks import demonstrations_of
from burnish.targets.agent.files import load_agent
from tests.projects.adopting_runs import TEMPERATURE, agent_run
from tests.targets.agent_world import AGENT, write_agent

pytestmark = pytest.mark.slow

BRIEF = "Be brief.\n"
DEMOS = (Demonstration(input="1 - 1?", output="0", case="one"),)
PROMPT = "prompts/system.md"


def contents(folder: Path) -> dict[str, bytes]:
    """The agent's files, the run left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "run" not in path.relative_to(folder).parts
    }


def adopted(run: RunRecord, *, trial: int | None = None, force: bool = False) -> Plan:
    with adopting(run):
        plan = plan_adoption(run, trial=trial, force=force)
        if plan.files:
            adopt(plan)
    return plan


def undone(run: RunRecord, *, force: bool = False) -> Plan:
    with adopting(run):
        plan = plan_undo(run, force=force)
        undo(plan)
    return plan


def put(path: Path, **values: Value) -> None:
    """Values in an agent's files, without a run; `__` in a name stands for a dot."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    write_together(file_changes(load_agent(path), named))


def refusal(attempt: Callable[[], object]) -> str:
    with pytest.raises(BurnishError) as caught:
        attempt()
    return str(caught.value)


def edited(path: Path, old: str, new: str) -> None:
    """What a user does to a file."""
    text = path.read_bytes().decode()
    assert old in text
    path.write_bytes(text.replace(old, new).encode())


# -- what is written ---------------------------------------------------------------------------


def test_every_kind_of_value_gets_to_its_place_and_back(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    before = contents(tmp_path)
    values = {
        "instructions": BRIEF,
        "tools[name=archive].description": "Search the filings",
        TEMPERATURE: 0.7,
        "demonstrations": DEMOS,
    }
    run = agent_run(path, values)
    plan = adopted(run)
    assert {change.path for change in plan.files} == {path, tmp_path / PROMPT}
    assert path.read_text(encoding="utf-8") == AGENT.replace(
        "temperature: 0.3", "temperature: 0.7"
    ).replace("Search filings", "Search the filings") + (
        "demonstrations:\n  - input: 1 - 1?\n    output: '0'\n    case: one\n"
    )
    prompt = (tmp_path / PROMPT).read_text(encoding="utf-8")
    assert prompt == "---\nversion: 3\nauthor: Kim\n---\nBe brief.\n"
    agent = load_agent(path)
    assert agent.instructions.text == BRIEF
    assert [demo.output for demo in agent.block.demonstrations] == ["0"]
    undone(run)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "text", ["Be brief.", "Be brief.\nAnd: kind.\n", "  spaces\n\n\ttab ✓ \n", "😀 ü\u2028x"]
)
@pytest.mark.parametrize("where", ["{inline: Be kind.}", "\n  inline: Be kind."])
def test_inline_instructions_stay_inline(tmp_path: Path, where: str, text: str) -> None:
    path = write_agent(tmp_path, AGENT.replace("{file: prompts/system.md}", where))
    prompt = (tmp_path / PROMPT).read_bytes()
    put(path, instructions=text)
    agent = load_agent(path)
    assert agent.instructions.text == text
    assert agent.tree.text.startswith("# The analyst. This comment stays.\n")
    assert (tmp_path / PROMPT).read_bytes() == prompt


def test_a_text_of_several_lines_is_written_as_people_write_it(tmp_path: Path) -> None:
    text = AGENT.replace("{file: prompts/system.md}", "\n  inline: Be kind.")
    path = write_agent(tmp_path, text)
    put(path, instructions="Be brief.\nBe kind.\n")
    told = path.read_text(encoding="utf-8")
    assert told == text.replace("Be kind.", "|\n    Be brief.\n    Be kind.")


def test_lines_keep_their_ends_and_files_their_marks(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    whole = ("\ufeff" + AGENT).replace("\n", "\r\n").encode()
    path.write_bytes(whole)
    prompt = tmp_path / PROMPT
    prompt.write_bytes(b"\xef\xbb\xbf---\r\nversion: 3\r\n---\r\nYou are an analyst.\r\n")
    put(path, instructions="Be brief.\nBe kind.\n", model__temperature=0.7)
    assert prompt.read_bytes() == (
        b"\xef\xbb\xbf---\r\nversion: 3\r\n---\r\nBe brief.\r\nBe kind.\r\n"
    )
    assert path.read_bytes() == whole.replace(b": 0.3\r", b": 0.7\r")


ODD = """\
name:   analyst
model: { provider: openai,   name: m }
instructions:
      inline: 'Be kind.'
tools:
- {name: t, type: prompt, description: "x",   template: "{a}", parameters: {a: {type: string}}}
execution:
    llm_timeout:   60   # seconds"""


def test_lines_that_a_yaml_writer_would_spell_differently_stay(tmp_path: Path) -> None:
    path = write_agent(tmp_path, ODD)
    put(path, instructions="Be brief.")
    assert path.read_text(encoding="utf-8") == ODD.replace("kind", "brief")


def test_something_added_after_a_last_line_without_an_end(tmp_path: Path) -> None:
    path = write_agent(tmp_path, ODD)
    put(path, demonstrations=DEMOS)
    assert [demo.output for demo in load_agent(path).block.demonstrations] == ["0"]
    assert path.read_text(encoding="utf-8").startswith(f"{ODD}\n")


def test_a_demonstration_keeps_the_tools_that_were_used_in_it(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    before = contents(tmp_path)
    call = DemonstratedCall.of("subtract", {"a": 3, "b": 1.5}, "1.5\n${HOME}")
    demos = (Demonstration(input="3 - 1.5?", output="1.5", case="three", calls=(call,)),)
    run = agent_run(path, {"demonstrations": demos})
    adopted(run)
    assert demonstrations_of(load_agent(path).block) == demos
    undone(run)
    assert contents(tmp_path) == before


def test_an_anchor_that_is_used_twice_is_not_changed_in_both_places(tmp_path: Path) -> None:
    text = """\
name: analyst
model: {provider: openai, name: m}
instructions: {inline: Hi.}
tools:
  - {name: one, type: prompt, description: a, template: "{a}", parameters: &p {a: {type: string}}}
  - {name: two, type: prompt, description: b, template: "{a}", parameters: *p}
"""
    path = write_agent(tmp_path, text)
    values = {"tools[name=one].parameters.a.type": "integer"}
    assert "edit the file yourself" in refusal(lambda: put(path, **values))
    assert path.read_text(encoding="utf-8") == text


def test_instructions_that_read_as_the_head_of_a_file_are_refused(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    (tmp_path / PROMPT).write_text("You are an analyst.\n", encoding="utf-8")
    told = refusal(lambda: put(path, instructions="---\nversion: 4\n---\nBe brief.\n"))
    assert "looks like a file header" in told
    assert (tmp_path / PROMPT).read_text(encoding="utf-8") == "You are an analyst.\n"


def test_json_files_are_adopted_too(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    text = (
        '{\n  "name": "ä",\n  "model": {\n    "provider": "openai",\n    "name": "m"\n  },\n'
        '  "instructions": {"inline": "Hi."}\n}\n'
    )
    path.write_text(text, encoding="utf-8")
    put(path, instructions="Ho.\nHo.")
    assert load_agent(path).instructions.text == "Ho.\nHo."
    assert '"name": "ä",' in path.read_text(encoding="utf-8")


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    home = write_agent(real)
    kept = real / "kept.md"
    (real / PROMPT).rename(kept)
    (real / PROMPT).symlink_to(kept)
    link = tmp_path / "agent.yaml"
    link.symlink_to(home)
    put(link, instructions=BRIEF, model__temperature=0.7)
    assert link.is_symlink()
    assert (real / PROMPT).is_symlink()
    assert kept.read_text(encoding="utf-8").endswith(BRIEF)
    assert "temperature: 0.7" in home.read_text(encoding="utf-8")


def test_files_keep_their_modes(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    path.chmod(0o640)
    put(path, model__temperature=0.7)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_variables_stay_and_no_secret_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANALYST_KEY", "sk-canary-0123456789abcdef")
    monkeypatch.setenv("PROMPTS", "prompts")
    text = AGENT.replace("prompts/system.md", '"${PROMPTS}/system.md"')
    path = write_agent(tmp_path, text)
    put(path, instructions=BRIEF, model__temperature=0.7)
    assert path.read_text(encoding="utf-8") == text.replace(": 0.3", ": 0.7")
    assert (tmp_path / PROMPT).read_text(encoding="utf-8").endswith(BRIEF)


# -- which trial -------------------------------------------------------------------------------


def test_an_earlier_trial_can_be_chosen_but_not_one_that_lost(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7}, {"instructions": BRIEF})
    told = refusal(lambda: plan_adoption(run, trial=1))
    assert "trial 1 was not accepted" in told
    assert "accepted: 2, 4" in told
    assert "there is no trial 9" in refusal(lambda: plan_adoption(run, trial=9))
    assert plan_adoption(run, trial=0).nothing
    adopted(run, trial=2)
    assert "temperature: 0.7" in path.read_text(encoding="utf-8")
    assert "analyst" in (tmp_path / PROMPT).read_text(encoding="utf-8")
    assert "--undo" in refusal(lambda: plan_adoption(run))


def test_without_a_gain_there_is_nothing_to_adopt(tmp_path: Path) -> None:
    run = agent_run(write_agent(tmp_path))
    before = contents(tmp_path)
    assert plan_adoption(run).nothing == "no candidate was better than the baseline"
    assert contents(tmp_path) == before


def test_adopting_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    run = agent_run(write_agent(tmp_path), {TEMPERATURE: 0.7})
    adopted(run)
    after, record = contents(tmp_path), (run.folder / RECORD).read_bytes()
    assert "has been adopted since" in adopted(run).nothing
    assert contents(tmp_path) == after
    assert (run.folder / RECORD).read_bytes() == record
    undone(run)
    assert "as they were" in undone(run).nothing
    adopted(run)
    assert contents(tmp_path) == after


# -- files that are not what they were -----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kept_hashes"),
    [("agent.yaml", True), (PROMPT, True), ("tools/maths.py", True), ("tools/maths.py", False)],
)
def test_a_file_that_changed_since_the_run_is_named(
    tmp_path: Path, name: str, *, kept_hashes: bool
) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7}, kept_hashes=kept_hashes)
    changes = {
        "agent.yaml": ("gpt-4o-mini", "gpt-4o"),
        PROMPT: ("an analyst", "a pirate"),
        "tools/maths.py": ("a - b", "b - a"),
    }
    edited(tmp_path / name, *changes[name])
    before = contents(tmp_path)
    told = refusal(lambda: plan_adoption(run))
    assert (name if kept_hashes else "agent.yaml") in told
    assert "is not what the run measured" in told
    assert "--force" in told
    assert contents(tmp_path) == before
    adopted(run, force=True)
    after = (tmp_path / name).read_text(encoding="utf-8")
    assert changes[name][1] in after, "the edit stays"
    assert "temperature: 0.7" in path.read_text(encoding="utf-8")


def test_a_run_that_kept_no_hashes_is_adopted_by_its_fingerprint(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7}, kept_hashes=False)
    adopted(run)
    assert "temperature: 0.7" in path.read_text(encoding="utf-8")


def test_a_comment_is_a_change_too_where_hashes_were_kept(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7})
    edited(path, "# cheap", "# dear")
    assert "agent.yaml is not what the run measured" in refusal(lambda: plan_adoption(run))


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("agent.yaml", "temperature: 0.3", "temperature: 1.1", "it is 1.1 now, but was 0.3"),
        (PROMPT, "an analyst", "a pirate", "instructions: it is 'You are a pirate."),
        ("agent.yaml", "name: archive", "name: library", "nothing has name 'archive'"),
    ],
)
def test_force_does_not_overwrite_a_field_that_was_edited(
    tmp_path: Path, name: str, old: str, new: str, words: str
) -> None:
    path = write_agent(tmp_path)
    values = {
        TEMPERATURE: 0.7,
        "instructions": BRIEF,
        "tools[name=archive].description": "Search the filings",
    }
    run = agent_run(path, values)
    edited(tmp_path / name, old, new)
    before = contents(tmp_path)
    assert words in refusal(lambda: adopted(run, force=True))
    assert contents(tmp_path) == before


def test_undo_wants_the_files_as_they_were_left(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    before = contents(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7, "instructions": BRIEF})
    assert "was not adopted" in refusal(lambda: plan_undo(run))
    adopted(run)
    edited(path, "# cheap", "# dear")
    after = contents(tmp_path)
    told = refusal(lambda: plan_undo(run))
    assert f"{path}: the file has changed since the adoption" in told
    assert contents(tmp_path) == after
    undone(run, force=True)
    edited(path, "# dear", "# cheap")
    assert contents(tmp_path) == before


def test_forced_undo_leaves_a_field_that_was_edited_after_the_adoption(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7, "instructions": BRIEF})
    adopted(run)
    edited(path, "temperature: 0.7", "temperature: 0.9")
    after = contents(tmp_path)
    assert "it is 0.9 now" in refusal(lambda: undone(run, force=True))
    assert contents(tmp_path) == after


def test_files_that_are_gone_or_protected_are_refused(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7, "instructions": BRIEF})
    prompt = tmp_path / PROMPT
    prompt.chmod(0o444)
    before = contents(tmp_path)
    assert f"{prompt} is read-only" in refusal(lambda: adopted(run))
    assert contents(tmp_path) == before
    assert not (run.folder / RECORD).exists()
    elsewhere = path.rename(tmp_path / "moved.yaml")
    told = refusal(lambda: plan_adoption(run))
    assert "which no longer exists" in told
    assert "--file" in told
    elsewhere.rename(path)
    prompt.unlink()
    assert PROMPT in refusal(lambda: plan_adoption(run))


# -- all or none -------------------------------------------------------------------------------


def test_an_edit_between_the_question_and_the_answer_is_not_overwritten(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7, "instructions": BRIEF})
    plan = plan_adoption(run)
    edited(tmp_path / PROMPT, "an analyst", "a pirate")
    before = contents(tmp_path)
    assert "someone has just changed the file" in refusal(lambda: adopt(plan))
    assert contents(tmp_path) == before


def test_two_adoptions_at_once_are_one(tmp_path: Path) -> None:
    path = write_agent(tmp_path)
    run = agent_run(path, {TEMPERATURE: 0.7})
    other = agent_run(path, {TEMPERATURE: 0.9}, folder=tmp_path / "run" / "other")
    with adopting(run):
        with pytest.raises(RunLocked, match="the adoption of run run is in use"), adopting(run):
            pass
        with pytest.raises(RunLocked, match=r"agent\.yaml is in use"), adopting(other):
            pass
    with adopting(other):
        pass


def test_a_run_that_goes_on_is_not_adopted(tmp_path: Path) -> None:
    run = agent_run(write_agent(tmp_path), {TEMPERATURE: 0.7})
    with FileLock.acquire(run.folder / "run.lock", holding="the run"):
        now = RunRecord.read(run.folder)
        with pytest.raises(RunLocked, match="is still running"), adopting(now):
            pass


def test_a_text_that_the_run_could_not_keep_whole_is_not_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "canary-0123456789")
    path = write_agent(tmp_path)
    (tmp_path / PROMPT).write_text("Say canary-0123456789.\nBe long.\n", encoding="utf-8")
    before = contents(tmp_path)
    run = agent_run(path, {"instructions": "Say canary-0123456789.\nBe brief.\n"})
    told = refusal(lambda: plan_adoption(run))
    assert "[redacted]" in told
    assert "canary" not in told
    dropped = agent_run(path, {"instructions": BRIEF}, folder=tmp_path / "run" / "dropped")
    assert "contains a secret" in refusal(lambda: adopted(dropped))
    assert contents(tmp_path) == before
    assert Redactor.from_environment().secrets
    assert not [p for p in run.folder.rglob(RECORD) if b"canary" in p.read_bytes()]


def test_a_damaged_record_says_so(tmp_path: Path) -> None:
    run = agent_run(write_agent(tmp_path), {TEMPERATURE: 0.7})
    (run.folder / RECORD).write_text("{", encoding="utf-8")
    assert "is damaged" in refusal(lambda: plan_undo(run))


# -- lines -------------------------------------------------------------------------------------

TEXTS = st.lists(st.sampled_from(["a\n", "b\r\n", "ü\n", "\n", "c"]), max_size=8).map("".join)


@settings(max_examples=50)
@given(TEXTS, TEXTS)
def test_what_was_done_can_be_undone(before: str, after: str) -> None:
    assert without(after, hunks(before, after)) == before


@settings(max_examples=50)
@given(TEXTS, TEXTS)
def test_an_edit_is_carried_over_to_the_same_spelling_as_it_is(plain: str, edited: str) -> None:
    assert carried_over(plain, plain, edited) == edited


def test_an_edit_of_a_line_that_is_spelled_differently_is_not_carried_over() -> None:
    assert carried_over("a:  1\nb: 2\n", "a: 1\nb: 2\n", "a: 1\nb: 3\n") == "a:  1\nb: 3\n"
    assert carried_over("a:  1\nb: 2\n", "a: 1\nb: 2\n", "a: 9\nb: 2\n") is None
