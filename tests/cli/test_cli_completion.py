"""Shell completion: commands, the flags of a file, the ids of runs, the kinds of files."""

from pathlib import Path

import pytest

from burnish.cli.program import run
from tests.cli.console import Burnish


def completed(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """What bash would offer for the last word of this line."""
    capsys.readouterr()
    monkeypatch.setenv("_BURNISH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit):
        run([])
    monkeypatch.delenv("_BURNISH_COMPLETE")
    return capsys.readouterr().out.split()


def test_words_of_the_program(
    burnish: Burnish, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed("burnish opt", monkeypatch, capsys) == ["optimize"]
    assert completed("burnish schema wor", monkeypatch, capsys) == ["workflow"]
    assert "--max-usd" in completed("burnish optimize --max-", monkeypatch, capsys)
    assert "--install-completion" in burnish("--help").out


@pytest.mark.slow
def test_ids_of_runs(
    burnish: Burnish,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in ("runs show", "runs compare done", "adopt", "optimize --fork", "eval --resume"):
        assert completed(f"burnish {words} do", monkeypatch, capsys) == ["done"], words
    assert completed("burnish runs show other", monkeypatch, capsys) == []
