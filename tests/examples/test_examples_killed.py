"""The example of a search that is killed: the file is back, and one call is made again."""

from pathlib import Path

import pytest
from tests.docs.docs_console import run_in_shell
from tests.docs.docs_examples import copy_of, run_readme
from tests.example_copies import EXAMPLES

pytestmark = pytest.mark.slow

RULES = Path("examples", "killed", "rules.md")
SEARCH = "python examples/killed/desk.py"


def test_the_readme(tmp_path: Path) -> None:
    _, cut, shown, *_ = run_readme("killed", tmp_path)
    assert "kill -9 in call 40, while rules.md says: Answer with one word" in cut.out
    # The guard or the next command: by now the file is as it was.
    assert shown.files[str(RULES)] == (EXAMPLES / "killed" / "rules.md").read_bytes()


@pytest.mark.parametrize("deadly", [None, 5])
def test_a_kill_costs_the_call_that_was_cut_off(deadly: int | None, tmp_path: Path) -> None:
    copy_of("killed", tmp_path)
    home = {"BURNISH_HOME": str(tmp_path / ".home")}
    if deadly is not None:
        code, told = run_in_shell(f"KILL_AT={deadly} {SEARCH}", tmp_path, home)
        assert code == 137, told
    code, told = run_in_shell(SEARCH, tmp_path, home)
    assert code == 0, told
    assert told.endswith(f"calls of the agent: {62 if deadly is None else 63}\n"), told
    assert (tmp_path / RULES).read_text(encoding="utf-8") == "Sort the ticket.\n"
