"""Tries an installed burnish as a user would: commands, a whole run, the public names.

Run it with the Python of the environment that burnish was installed into; nothing of the checkout
is imported but the plug-in of examples/toy.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "import burnish, burnish.plugins, burnish.testing; print(burnish.__file__)"


def main() -> None:
    """Raise where something does not work."""
    burnish = str(Path(sysconfig.get_path("scripts")) / "burnish")
    with tempfile.TemporaryDirectory() as folder:
        toy = str(ROOT / "examples" / "toy" / "toy.yaml")
        place = _output(folder, sys.executable, "-c", PROGRAM)
        assert not place.startswith(str(ROOT / "src")), f"this is the checkout: {place}"
        assert _output(folder, burnish, "--version").startswith("burnish ")
        assert "optimize" in _output(folder, burnish, "--help")
        _output(folder, burnish, "doctor")
        _output(folder, burnish, "optimize", toy, "-o", "run", "--max-trials", "2", "-q")
        assert "2 of 2 trials" in _output(folder, burnish, "runs", "show", "run")
        assert "climb" in _output(folder, burnish, "runs", "report", "run")
        assert (Path(folder) / "run" / "report.html").is_file()
        # A plan needs neither a library of a provider nor the model.
        _output(folder, burnish, "init", "--yes", "--folder", "desk", "--model", "ollama:llama3.2")
        plan = _output(folder, burnish, "optimize", "desk/agent.yaml", "--dry-run")
        assert "nothing was paid" in plan
    print(f"burnish in {place} works")


def _output(folder: str, *command: str) -> str:
    toy, home = str(ROOT / "examples" / "toy"), str(Path(folder) / "home")
    environ = os.environ | {"PYTHONPATH": toy, "BURNISH_HOME": home, "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=folder, env=environ, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()
