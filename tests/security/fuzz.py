"""`make check PART=fuzz`: mutated files for every reader, each reader in a process with limits.

    python -m tests.security.fuzz --count 10000 --seed 1 --reader agent --save /tmp/broken

A mutant breaks a reader if anything but a BurnishError with a message comes out, if reading takes
too long, or if it takes too much memory. Each such mutant is saved.
"""

import argparse
import contextlib
import hashlib
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from burnish.core.errors import BurnishError
from tests.security.fuzz_mutants import mutants
from tests.security.fuzz_readers import READERS, prepare

_SECONDS = 10
_MEMORY = 4 * 1024**3
"""Address space of a reader's process: far more than it needs, far less than the machine has."""


@dataclass(frozen=True, kw_only=True)
class Breakage:
    """What went wrong with one mutant."""

    reader: str
    what: str
    trace: str
    digest: str


class TooSlow(BaseException):
    """Not an Exception, so that no reader can catch it."""


def fuzz(
    name: str, folder: Path, *, seed: str, count: int, save: Path | None = None, seconds: int = 0
) -> list[Breakage]:
    """Read mutants with one reader; `seconds` interrupts each that takes longer."""
    reader = READERS[name]
    path = prepare(reader, folder)
    broken: list[Breakage] = []
    for content in reader.seeds():
        path.write_bytes(content)
        with _quietly():
            reader.read(path)  # a seed that is not valid would test nothing
    for content in mutants(reader.seeds(), seed=f"{seed}:{name}", count=count):
        path.write_bytes(content)
        try:
            with _quietly(), _limited(seconds):
                reader.read(path)
        except BurnishError as error:
            if str(error).strip():
                continue
            trouble: BaseException = error
        except (Exception, TooSlow) as error:  # noqa: BLE001 - that is what is looked for
            trouble = error
        else:
            continue
        broken.append(_breakage(name, content, trouble, save, Path(reader.file).suffix))
    return broken


def _breakage(
    name: str, content: bytes, trouble: BaseException, save: Path | None, suffix: str
) -> Breakage:
    digest = hashlib.sha256(content).hexdigest()[:12]
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / f"{name}-{digest}{suffix}").write_bytes(content)
    first = (str(trouble).splitlines() or [""])[0][:200]
    lines = traceback.format_exception(trouble)
    return Breakage(
        reader=name,
        what=f"{type(trouble).__name__}: {first}",
        trace="".join(lines[-4:])[-1500:],
        digest=digest,
    )


@contextlib.contextmanager
def _quietly() -> Generator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


@contextlib.contextmanager
def _limited(seconds: int) -> Generator[None]:
    if not seconds:
        yield
        return

    def late(*_: object) -> NoReturn:
        raise TooSlow(f"more than {seconds} s")

    # Time of the processor: a busy machine makes no reader slow.
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _one_reader(name: str, seed: str, count: int, save: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BURNISH_HOME"] = f"{folder}/home"
        os.chdir(folder)
        broken = fuzz(name, Path(folder), seed=seed, count=count, save=save, seconds=_SECONDS)
        os.chdir("/")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"peak_mb": peak, "broken": [asdict(each) for each in broken]}))  # noqa: T201


def _report(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _summary(name: str, count: int, began: float, ended: "subprocess.CompletedProcess[str]") -> int:
    took = time.monotonic() - began
    try:
        answer = json.loads(ended.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        _report(f"{name:13} ended with {ended.returncode}: {ended.stderr[-800:]}")
        return 1
    kinds: dict[str, list[dict[str, str]]] = {}
    for each in answer["broken"]:
        kinds.setdefault(each["what"][:80], []).append(each)
    broken = len(answer["broken"])
    _report(f"{name:13} {count:6} mutants, {broken} broken, {took:.0f} s, {answer['peak_mb']} MB")
    for what, cases in kinds.items():
        _report(f"  {len(cases)} × {what}\n    mutants {', '.join(c['digest'] for c in cases[:5])}")
        _report("    " + cases[0]["trace"].replace("\n", "\n    "))
    return broken


def main(arguments: Sequence[str], only: Callable[..., None] = _one_reader) -> int:
    """Fuzz every reader, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="mutants, over all readers")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--reader", choices=list(READERS), action="append")
    parser.add_argument("--save", type=Path, default=Path(tempfile.gettempdir()) / "burnish-fuzz")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.only:
        only(options.only, options.seed, options.count, options.save)
        return 0
    names = options.reader or list(READERS)
    each = -(-options.count // len(names))
    total = 0
    for name in names:
        began = time.monotonic()
        command = [sys.executable, "-m", "tests.security.fuzz", "--only", name]
        command += ["--seed", options.seed, "--count", str(each), "--save", str(options.save)]
        limit = 300 + 2 * each  # far more than any takes
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            _report(f"{name:13} did not end within {limit} s")
            total += 1
            continue
        total += _summary(name, each, began, ended)
    _report(
        f"{each * len(names)} mutants, {total} broken"
        + (f", saved in {options.save}" if total else "")
    )
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
