"""Whole runs whose editor adds a file: logged, shown, resumed, adopted and undone."""

import json
from pathlib import Path

import pytest

from burnish.cli.optimization import RunOpening
from burnish.core.errors import ConfigError
from burnish.models.chat import ChatRequest
from burnish.runs.directory import RunRecord
from burnish.testing.doubles import ScriptedBackend
from tests.cli.console import Burnish, refused, tree
from tests.cli.cut_commands import cut
from tests.projects.artifacts.task_world import TEXT, optimize, prepared, put, results
from tests.projects.artifacts.task_world import write_task as write_words

pytestmark = pytest.mark.slow
SCORER = """
import json
from pathlib import Path

words = {word for path in Path().rglob("*.md") for word in path.read_text().split()}
print(json.dumps({"score": len(words) / 10, "metrics": {"doubled": False, "length": len(words)}}))
"""
NOTE = "extra/deep/note.md"
ADDS = put("artifacts", include=["notes.md"], new_files=["extra/**"])


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_task(folder: Path, *, edits: int = 1) -> Path:
    file = write_words(folder, ADDS, put("budget", max_iterations=edits))
    (folder / "score.py").write_text(SCORER, encoding="utf-8")
    return file


def writing(*edits: dict[str, str]) -> ScriptedBackend:
    """An editor that writes these files, one edit after the other."""
    left = list(edits)

    def respond(request: ChatRequest, draw: int) -> str:
        del request, draw
        edit = left.pop(0) if len(left) > 1 else left[0]
        files = [{"path": path, "content": content} for path, content in edit.items()]
        return json.dumps({"rationale": "more words", "files": files})

    return ScriptedBackend(respond=respond)


def test_a_file_is_added_logged_adopted_and_undone(tmp_path: Path, burnish: Burnish) -> None:
    file = write_task(tmp_path)
    before = {path: text for path, text in tree(tmp_path).items() if path.endswith(".md")}
    optimize(writing({NOTE: "two\nthree\n", "notes.md": "one\nfour\n"}), file)
    [_, row] = results(tmp_path)
    assert (row["decision"], row["score"]) == ("keep", 0.4)
    assert {"path": NOTE, "added": 2, "removed": 0} in row["changes"]
    folder = tmp_path / row["folder"]
    assert (folder / "files" / NOTE).read_text() == "two\nthree\n"
    patch = (folder / "diff.patch").read_text()
    assert f"--- /dev/null\n+++ b/{NOTE}\n" in patch
    assert not (tmp_path / "extra").exists()
    assert (tmp_path / "run/candidates/best" / NOTE).read_text() == "two\nthree\n"
    assert NOTE in (tmp_path / "run/report.md").read_text()
    diff = burnish("adopt", "run", "--diff").out
    assert "+two" in diff
    adopted = burnish("adopt", "run", "--yes").out
    assert f"added    {NOTE}" in adopted
    assert "changed  notes.md" in adopted
    assert (tmp_path / NOTE).read_text() == "two\nthree\n"
    assert "has been adopted since" in burnish("adopt", "run", "--yes").out
    undone = burnish("adopt", "run", "--undo")
    assert f"removed  {NOTE}" in undone.out
    assert not (tmp_path / "extra").exists()
    assert burnish("adopt", "run", "--yes").code == 0
    assert burnish("adopt", "run", "--undo").code == 0
    after = tree(tmp_path)
    assert {path: after[path] for path in before} == before


@pytest.mark.crash
def test_an_undo_that_removes_files_is_whole_after_a_kill_at_any_of_its_steps(
    tmp_path: Path, burnish: Burnish
) -> None:
    other = "extra/other.md"
    optimize(writing({NOTE: "two\nfive\n", other: "three\nfour\n"}), write_task(tmp_path))
    before = _texts(tmp_path)
    assert burnish("adopt", "run", "--yes").code == 0
    (tmp_path / other).chmod(0o750)
    after = _texts(tmp_path)
    assert {NOTE, other} == after.keys() - before.keys()
    kills = 0
    while (end := cut("--undo", home=tmp_path, at=kills + 1, every=True)).code == -9:
        kills += 1
        assert burnish("runs", "list").code == 0
        texts = _texts(tmp_path)
        assert texts in (before, after)
        if texts == before:  # It was killed after the last file: what is left is tidied up.
            assert burnish("adopt", "run", "--undo").out.startswith("nothing to undo")
            assert not (tmp_path / "extra").exists()
            assert burnish("adopt", "run", "--yes").code == 0
            (tmp_path / other).chmod(0o750)
        assert (tmp_path / other).stat().st_mode & 0o777 == 0o750
    assert end.code == 0, end
    assert kills >= 8
    assert _texts(tmp_path) == before
    assert not (tmp_path / "extra").exists()


def _texts(folder: Path) -> dict[str, bytes]:
    """The user's own texts."""
    return {path: text for path, text in tree(folder).items() if _is_text(path)}


def _is_text(path: str) -> bool:
    return path.endswith(".md") and not path.startswith("run/")


def test_what_somebody_has_made_of_it_meanwhile_stays(tmp_path: Path, burnish: Burnish) -> None:
    optimize(writing({NOTE: "two\nthree\n"}), write_task(tmp_path))
    note = tmp_path / NOTE
    note.parent.mkdir(parents=True)
    note.write_text("mine\n")
    refused(burnish("adopt", "run", "--yes"), "there is something of that name now")
    note.unlink()
    assert burnish("adopt", "run", "--yes").code == 0
    (note.parent / "other.txt").write_text("mine\n")
    note.write_text("mine\n")
    refused(burnish("adopt", "run", "--undo"), "has changed since the adoption")
    refused(burnish("adopt", "run", "--undo", "--force"), "it was changed since")
    note.write_text("two\nthree\n")
    assert burnish("adopt", "run", "--undo").code == 0
    assert not note.exists()
    assert (note.parent / "other.txt").read_text() == "mine\n"


def test_nothing_is_added_through_a_link(tmp_path: Path, burnish: Burnish) -> None:
    project, away = tmp_path / "project", tmp_path / "away"
    optimize(writing({NOTE: "two\nthree\n"}), write_task(project))
    away.mkdir()
    (project / "extra").symlink_to(away)
    refused(burnish("adopt", "run", "--yes"), "a link is on the way to it")
    assert not list(away.iterdir())


def test_a_run_with_a_new_file_resumes_and_edits_it(tmp_path: Path) -> None:
    file = write_task(tmp_path, edits=5)
    optimize(writing({NOTE: "two\n"}), file, max_trials=1)
    more = writing({NOTE: "two\nthree\n"}, {NOTE: "", "extra/b.md": "a\nb\nc\n"}, {".env": "x"})
    optimize(more, None, way=RunOpening(resume="run"), max_trials=4)
    rows = results(tmp_path)
    assert [row["decision"] for row in rows] == ["baseline", "keep", "keep", "keep", "discard"]
    assert "neither a file that may be edited" in rows[4]["reason"]
    folder = tmp_path / "run/candidates/best"
    assert (folder / "extra/b.md").exists()
    assert not (folder / NOTE).exists()
    assert RunRecord.read(tmp_path / "run").best is not None


def test_the_plan_names_what_may_be_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optimize(writing({}), write_task(tmp_path), dry_run=True)
    assert "new files extra/**" in capsys.readouterr().out
    assert (tmp_path / "notes.md").read_text() == TEXT


@pytest.mark.parametrize("pattern", ["../out/*", "/etc/*", ".git/hooks/*"])
def test_patterns_stay_inside(tmp_path: Path, pattern: str) -> None:
    file = write_words(tmp_path, put("artifacts", new_files=[pattern]))
    with pytest.raises(ConfigError, match="new_files"):
        prepared(file)
