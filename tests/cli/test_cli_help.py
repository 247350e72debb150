"""Help: groups, width, and starting without delay."""

import subprocess
import sys
from pathlib import Path

import pytest

from burnish.cli import program
from burnish.version import VERSION
from tests.cli.console import Burnish

COMMANDS = (
    (),
    ("optimize",),
    ("eval",),
    ("test",),
    ("test", "run"),
    ("test", "optimize"),
    ("adopt",),
    ("init",),
    ("init", "task"),
    ("data",),
    *(("data", name) for name in ("convert", "split", "check")),
    ("runs",),
    *(("runs", name) for name in ("list", "show", "resume", "report", "compare", "rm")),
    ("models",),
    *(("models", name) for name in ("list", "pull", "serve")),
    ("roles",),
    *(("roles", name) for name in ("list", "show", "install")),
    ("doctor",),
)


@pytest.mark.parametrize("listed", program.COMMANDS, ids=lambda listed: listed.name)
def test_a_command_is_listed_with_the_first_line_of_its_help(listed: program.Listed) -> None:
    first, _, _ = listed.load().help.partition("\n\n")
    assert listed.help == " ".join(first.split())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_eighty_columns(
    burnish: Burnish, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = burnish(*command, "--help")
    assert said.code == 0
    assert "Usage: burnish" in said.out
    assert max(map(len, said.lines)) <= 80
    assert burnish(*command, "-h").out == said.out


def test_the_commands_stand_in_groups(burnish: Burnish) -> None:
    top, runs = burnish("--help").out, burnish("runs", "--help").out
    for group in ("Make it better", "Look back"):
        assert f"─ {group} ─" in top
    for group in ("Look", "Go on", "Clean up"):
        assert f"─ {group} ─" in runs


def test_the_limits_and_the_output_have_groups_of_their_own(burnish: Burnish) -> None:
    told = burnish("optimize", "--help").out
    assert told.index("─ Limits ─") < told.index("--max-usd") < told.index("─ Output ─")
    assert "BURNISH_MAX_TRIALS" in told


def test_a_resume_shows_the_flags_of_every_run_or_of_the_named_one(
    burnish: Burnish, toy: Path
) -> None:
    flags = burnish("runs", "resume", "--help").out
    assert "--max-usd" in flags
    assert "--max-rounds" not in flags, "only one strategy has rounds"
    assert "known-keys|own-secrets" in flags
    assert burnish("optimize", str(toy), "-q", "-o", "one", "--max-trials", "1").code == 0
    assert "--max-trials" in burnish("runs", "resume", "one", "--help").out


def test_no_command_shows_the_help(burnish: Burnish) -> None:
    assert "Make it better" in burnish().out


def test_the_version(burnish: Burnish) -> None:
    said = burnish("--version")
    assert (said.code, said.out) == (0, f"burnish {VERSION}\n")


def test_help_loads_nothing_heavy() -> None:
    heavy = ["ruamel.yaml", "rich.live", "sqlite3", "asyncio", "burnish.runs.run"]
    script = (
        "import sys\nfrom burnish.cli import main\n"
        "try: main(['runs', 'show', '--help'])\nexcept SystemExit: pass\n"
        f"sys.exit(' '.join(name for name in {heavy} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert not done.stderr.strip()
