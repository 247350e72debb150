"""Runs the tests of frameworks that do not fit into one virtual environment, each in its own.

An environment has what a file of constraints/ pins, and for the rest it sees the main one. Files
end in `-oldest` for the oldest version that pyproject.toml allows; such an environment lies over
that of the newest. They are in .venv/frameworks, and are made again when their file has changed.

`python -m scripts.frameworks [NAME …]` runs all, or those whose names begin so; with `--python
NAME` it prints the Python of an environment, for other programs.
"""

import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
FILES = ROOT / "constraints"
HOME = ROOT / ".venv" / "frameworks"
OLDEST = "-oldest"
TESTS = ("tests/frameworks", "tests/examples/test_examples_frameworks.py")


def main() -> None:
    """Test each framework, two at a time."""
    if sys.argv[1:2] == ["--check"]:
        sys.exit("\n".join(conflicts(Path(sys.argv[2]))) or None)
    if sys.argv[1:2] == ["--python"]:
        print(environment(FILES / f"{sys.argv[2]}.txt"))
        return
    names = tuple(sys.argv[1:]) or ("",)
    files = [
        each
        for each in sorted(FILES.glob("*.txt"), key=lambda file: file.stem)
        if each.stem.startswith(names)
    ]
    frameworks = {each.stem.removesuffix(OLDEST): list[Path]() for each in files}
    for file in files:
        frameworks[file.stem.removesuffix(OLDEST)].append(file)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(_tested, frameworks.values()))
    sys.exit(not files or not all(results))


def _tested(files: list[Path]) -> bool:
    """Whether the tests pass with the versions of each file, the newest first."""
    passed = True
    for file in files:
        start = time.monotonic()
        python = environment(file)
        made = time.monotonic()
        extra = file.stem.removesuffix(OLDEST)
        # The libraries warn of much that only they can change.
        pytest = ["-m", "pytest", "-q", "-n", "0", "-W", "default", "-k", extra.replace("-", "_")]
        commands = (["-m", "scripts.frameworks", "--check", str(file)], [*pytest, *TESTS])
        done = [
            subprocess.run([python, *each], cwd=ROOT, capture_output=True, text=True, check=False)
            for each in commands
        ]
        passed = passed and not any(each.returncode for each in done)
        shown = "".join(each.stdout + each.stderr for each in done if each.returncode)
        lines = done[-1].stdout.splitlines()
        times = f"made in {made - start:.0f} s, tested in {time.monotonic() - made:.0f} s"
        print(f"{shown}{file.stem}: {lines[-1] if lines else 'no tests'} ({times})", flush=True)
    return passed


def environment(file: Path) -> str:
    """The Python of the environment of a file; made if it is not there or another file's."""
    if file.stem.endswith(OLDEST):
        environment(file.with_stem(file.stem.removesuffix(OLDEST)))
    home = HOME / file.stem
    python, pins = home / "bin" / "python", home / "pins.txt"
    content = file.read_text(encoding="utf-8")
    if not pins.exists() or pins.read_text(encoding="utf-8") != content:
        run = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)]
        subprocess.run(run, check=True)
        below = (file.stem.removesuffix(OLDEST),) if file.stem.endswith(OLDEST) else ()
        paths = [
            *(_packages(HOME / each) for each in below),
            ROOT / "src",
            sysconfig.get_path("purelib"),
        ]
        (_packages(home) / "below.pth").write_text("".join(f"{each}\n" for each in paths))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        subprocess.run([*pip, "install", "--quiet", "--no-deps", "-r", str(file)], check=True)
        pins.write_text(content, encoding="utf-8")
    return str(python)


def _packages(home: Path) -> Path:
    paths = {"base": str(home), "platbase": str(home)}
    return Path(sysconfig.get_path("purelib", "venv", paths))


def conflicts(file: Path) -> Iterator[str]:
    """Versions here that a package of the file, or burnish, does not accept.

    A requirement that is not installed is none: what no test imports is left out of the files.
    """
    pinned = [Requirement(line).name for line in file.read_text(encoding="utf-8").splitlines()]
    for name in ("burnish", *pinned):
        for line in distribution(name).requires or []:
            needed = Requirement(line)
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            try:
                version = distribution(needed.name).version
            except PackageNotFoundError:
                continue
            if not needed.specifier.contains(version, prereleases=True):
                yield f"{file.name}: {name} needs {line}, and not {version}"


if __name__ == "__main__":
    main()
