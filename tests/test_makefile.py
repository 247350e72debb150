"""Setting up prints nothing about what is wrong in other people's packages."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOUBTFUL = 'name = "\\("\nfound = name is "("\n'
"""What Python 3.12 and 3.13 warn of twice, and 3.11 once."""


def _compiled(folder: Path, flags: list[str]) -> str:
    """What the compilation of all packages prints."""
    done = subprocess.run(
        [sys.executable, *flags, "lib"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_packages_are_compiled_without_a_warning(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    said = re.search(r"^COMPILE = \$\(BIN\)/python (.+) \$\(VENV\)/lib src", makefile, re.MULTILINE)
    assert said is not None
    flags = said[1].split()
    for name in ("one", "other"):
        package = tmp_path / "lib" / name
        package.mkdir(parents=True)
        (package / "module.py").write_text(DOUBTFUL, encoding="utf-8")
    assert _compiled(tmp_path, flags) == ""
    made = list(tmp_path.rglob("*.pyc"))
    assert len(made) == 2
    for each in made:
        each.unlink()
    # Without the option there would be something to read.
    assert "SyntaxWarning" in _compiled(tmp_path, flags[flags.index("-m") :])


def test_pip_compiles_nothing_itself() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if "$(PIP) install" in line]
    whole = [line for line in installs if "--target" not in line]
    assert whole
    assert all("--no-compile" in line for line in whole)
