"""`burnish adopt`: shows, asks, changes all files or none, and puts them back."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from burnish.runs.directory import RunRecord
from burnish.system import FileLock
from tests.cli.console import START, Burnish, Said, finish, refused, tree
from tests.cli.cut_commands import FULL, cut
from tests.fork_server import ForkedProcess
from tests.projects.adopting_runs import TEMPERATURE, agent_run
from tests.targets.agent_world import write_agent

pytestmark = pytest.mark.slow

BOTH = {"instructions": "Be brief.\n", TEMPERATURE: 0.7}
DIFF = """\
--- agent.yaml
+++ agent.yaml
@@ line 3 @@
 model:
   provider: openai
   name: gpt-4o-mini   # cheap
~  temperature: [-0.3-]{+0.7+}
   api_key: "${ANALYST_KEY}"
 instructions: {file: prompts/system.md}
 tools:
--- prompts/system.md
+++ prompts/system.md
@@ line 2 @@
 version: 3
 author: Kim
 ---
-You are an analyst.
+Be brief.
"""


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """The agent file of a run in which two values were found."""
    return write_agent(tmp_path)


@pytest.fixture
def run(agent: Path) -> RunRecord:
    """That run."""
    return agent_run(agent, BOTH)


def own_files(folder: Path) -> dict[str, bytes]:
    """The user's files."""
    return {name: content for name, content in tree(folder).items() if not name.startswith("run/")}


def test_it_shows_the_evidence_and_the_diff_and_changes_nothing_without_a_yes(
    burnish: Burnish, agent: Path
) -> None:
    agent_run(agent, BOTH, measured=True)
    before = tree(agent.parent)
    said = burnish("adopt", "run")
    assert said.code == 1
    assert said.out == (
        "adopts   trial 2 of run · words · instructions, model.temperature\n"
        "claim    sealed test, looked at once: score 0.000 → 1.000   gain 1.000 [-1.000, 1.000], "
        "not distinguishable from noise\n" + DIFF
    )
    assert said.err == (
        "error: 2 files would change, but this is not a terminal, so burnish cannot ask — "
        "confirm with `burnish adopt run --yes`\n"
    )
    shown = burnish("adopt", "run", "--diff")
    assert (shown.code, shown.out) == (0, said.out)
    after = tree(agent.parent)
    del after["run/adopt.lock"]
    assert after == before


def test_yes_changes_and_undo_puts_back(burnish: Burnish, run: RunRecord) -> None:
    home = run.folder.parent
    before = own_files(home)
    said = burnish("adopt", "run", "--yes")
    assert said.code == 0
    assert said.out.endswith(
        f"{DIFF}changed  agent.yaml\nchanged  prompts/system.md\n"
        "undo     burnish adopt run --undo\n"
    )
    assert b"temperature: 0.7" in own_files(home)["agent.yaml"]
    again = burnish("adopt", "run", "--yes")
    assert again.code == 0
    assert again.out.startswith("nothing to adopt: trial 2 has been adopted since 20")
    undoing = burnish("adopt", "run", "--undo", "--diff")
    assert "~  temperature: [-0.7-]{+0.3+}" in undoing.out
    assert b"temperature: 0.7" in own_files(home)["agent.yaml"]
    back = burnish("adopt", "run", "--undo")
    assert back.code == 0
    assert back.out.endswith("changed  agent.yaml\nchanged  prompts/system.md\n")
    assert own_files(home) == before
    nothing = burnish("adopt", "run", "--undo")
    assert (nothing.code, nothing.out[:16]) == (0, "nothing to undo:")


def test_no_gain_is_no_error(burnish: Burnish, agent: Path) -> None:
    agent_run(agent)
    said = burnish("adopt", "run")
    assert said.code == 0
    assert said.out == "nothing to adopt: no candidate was better than the baseline\n"


def test_another_trial_than_the_best_says_what_speaks_for_it(burnish: Burnish, agent: Path) -> None:
    agent_run(agent, {TEMPERATURE: 0.7}, {"instructions": "Be brief.\n"}, measured=True)
    said = burnish("adopt", "run", "--trial", "2", "--diff")
    assert "claim    it is about trial 4, not this one" in said.lines
    assert "holdout  loss 1.000 → 1.000; it chose the result, so it is optimistic" in said.lines
    refused(burnish("adopt", "run", "--trial", "3"), "trial 3 was not accepted", "accepted: 2, 4")


def test_an_edited_original_is_refused_in_one_message(burnish: Burnish, run: RunRecord) -> None:
    path = run.folder.parent / "agent.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "author: Kim\n", encoding="utf-8")
    refused(burnish("adopt", "run", "--yes"), "agent.yaml is not what the run measured", "--force")
    assert burnish("adopt", "run", "--yes", "--force").code == 0
    assert path.read_text(encoding="utf-8").endswith("author: Kim\n")


def test_a_moved_agent_is_named_with_file(burnish: Burnish, run: RunRecord) -> None:
    home = run.folder.parent
    elsewhere = home / "moved"
    elsewhere.mkdir()
    for name in ("agent.yaml", "prompts", "tools", "data", "cases.yaml"):
        (home / name).rename(elsewhere / name)
    refused(burnish("adopt", "run", "--yes"), "which no longer exists", "--file FILE")
    assert burnish("adopt", "run", "--yes", "--file", "moved/agent.yaml").code == 0
    assert "temperature: 0.7" in (elsewhere / "agent.yaml").read_text(encoding="utf-8")
    assert burnish("adopt", "run", "--undo").code == 0
    assert "temperature: 0.3" in (elsewhere / "agent.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--diff", "--yes"), "--yes has no effect"),
        (("--undo", "--trial", "1"), "--trial has no effect"),
        (("--to", "there"), "leave out --to"),
        (("--undo",), "was not adopted"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    burnish: Burnish, run: RunRecord, flags: tuple[str, ...], words: str
) -> None:
    before = tree(run.folder.parent)
    refused(burnish("adopt", "run", *flags), words)
    assert own_files(run.folder.parent) == {
        name: content for name, content in before.items() if not name.startswith("run/")
    }


def test_a_second_adoption_waits_for_the_first(burnish: Burnish, run: RunRecord) -> None:
    with FileLock.acquire(run.folder / "adopt.lock", holding="it"):
        refused(burnish("adopt", "run", "--yes"), "the adoption of run run is in use by process")


def test_secrets_in_the_lines_around_a_change_are_not_shown(
    burnish: Burnish, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_TOKEN", "canary-0123456789")
    text = agent.read_text(encoding="utf-8").replace("# cheap", "# canary-0123456789")
    agent.write_text(text, encoding="utf-8")
    agent_run(agent, BOTH)
    said = burnish("adopt", "run", "--yes")
    assert "# [redacted]" in said.out
    assert "canary" not in said.out
    assert agent.read_text(encoding="utf-8") == text.replace(": 0.3", ": 0.7")


# -- targets that are no agent file --------------------------------------------------------------


def test_other_targets_say_where_the_candidate_lies_or_copy_it(
    burnish: Burnish, finished: Path
) -> None:
    said = burnish("adopt", "done")
    assert said.code == 0
    best = (finished / "candidates" / "best").resolve()
    assert said.lines == [
        f"trial {int(best.name[5:])} is in {best}",
        "copy it  burnish adopt done --to FOLDER",
    ]
    copied = burnish("adopt", "done", "--to", "deep/mine")
    assert copied.code == 0
    assert copied.out.startswith("copied   ")
    assert tree(finished.parent / "deep" / "mine") == tree(best)
    refused(burnish("adopt", "done", "--to", "deep/mine"), "already exists")
    refused(burnish("adopt", "done", "--undo"), "nothing to undo")


# -- processes of their own ----------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize("at", [1, 2])
def test_killed_between_two_files_and_undone_by_the_next_command(
    burnish: Burnish, run: RunRecord, at: int
) -> None:
    home = run.folder.parent
    before = own_files(home)
    assert cut("--yes", home=home, at=at).code == -9
    assert burnish("runs", "list").code == 0
    assert own_files(home) == before
    assert burnish("adopt", "run", "--yes").code == 0
    assert b"temperature: 0.7" in own_files(home)["agent.yaml"]
    assert b"Be brief." in own_files(home)["prompts/system.md"]
    assert burnish("adopt", "run", "--undo").code == 0
    assert own_files(home) == before, "nothing is left over, and every byte is back"


@pytest.mark.crash
@pytest.mark.parametrize("then", ["--yes", "--undo"])
def test_an_undo_that_was_killed_is_undone_itself(
    burnish: Burnish, run: RunRecord, then: str
) -> None:
    home = run.folder.parent
    before = own_files(home)
    assert burnish("adopt", "run", "--yes").code == 0
    after = own_files(home)
    assert cut("--undo", home=home, at=2).code == -9
    assert burnish("runs", "list").code == 0
    assert own_files(home) == after
    assert burnish("adopt", "run", then).code == 0
    assert own_files(home) == (after if then == "--yes" else before)


@pytest.mark.crash
def test_killed_at_any_file_operation_no_file_is_torn_and_all_come_back(
    burnish: Burnish, run: RunRecord
) -> None:
    home = run.folder.parent
    before = own_files(home)
    assert burnish("adopt", "run", "--yes").code == 0
    after = own_files(home)
    assert burnish("adopt", "run", "--undo").code == 0
    kills = 0
    while (said := cut("--yes", home=home, at=kills + 1, every=True)).code == -9:
        kills += 1
        for name in before:
            assert own_files(home)[name] in (before[name], after[name])
        assert burnish("adopt", "run", "--undo").code == 0
        assert own_files(home) == before
        assert not list(home.rglob("*.burnish-tmp"))
    assert said.code == 0, said
    assert kills >= 8
    assert own_files(home) == after


@pytest.mark.slow
def test_a_file_that_cannot_be_replaced_puts_the_others_back(run: RunRecord) -> None:
    home = run.folder.parent
    before = own_files(home)
    said = cut("--yes", home=home, at=2, act=FULL)
    assert said.code == 1
    assert "the disk is full" in said.err
    assert own_files(home) == before


@pytest.mark.slow
def test_a_file_saved_between_two_renames_stays_and_the_first_is_put_back(run: RunRecord) -> None:
    home = run.folder.parent
    prompt = home / "prompts" / "system.md"
    before = own_files(home)
    save = f"open({str(prompt)!r}, 'w').write('mine')"
    said = cut("--yes", home=home, at=1, act=save)
    assert said.code == 1
    assert f"{prompt}: someone has just changed the file" in said.err
    assert own_files(home) == {**before, "prompts/system.md": b"mine"}


def answered(answer: str, *, cwd: Path) -> Said:
    """`burnish adopt` on a terminal, with somebody who answers."""
    ours, theirs = pty.openpty()
    process = ForkedProcess(
        START,
        *("adopt", "run"),
        cwd=cwd,
        env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"},
        streams=(theirs, subprocess.PIPE, subprocess.PIPE),
    )
    os.close(theirs)
    os.write(ours, answer.encode())
    try:
        return finish(process)
    finally:
        os.close(ours)


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "changes"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_it_asks(run: RunRecord, answer: str, *, changes: bool) -> None:
    before = own_files(run.folder.parent)
    said = answered(answer, cwd=run.folder.parent)
    assert said.code == 0, said
    assert re.search(r"change 2 files\? \[y/N\]", said.out)
    assert (own_files(run.folder.parent) != before) is changes
    assert ("nothing was changed" in said.out) is not changes
