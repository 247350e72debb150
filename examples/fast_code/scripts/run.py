"""The runner: has all calendars of a file answered, and takes the time.

The candidate runs in a process of its own and its processor time is taken from outside: what it
prints is an answer, and never a time.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

from cases import read_cases


def main(path: str) -> None:
    """Write work/run.json."""
    cases = read_cases(path)
    asked = json.dumps([case["bookings"] for case in cases])
    answering = [sys.executable, "-I", "-S", "scripts/answer.py"]
    done = subprocess.run(  # noqa: S603
        answering, input=asked, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    names = [case["name"] for case in cases]
    answers = dict(zip(names, json.loads(done.stdout), strict=True))
    ran = {"answers": answers, "cpu_seconds": used.ru_utime + used.ru_stime}
    Path("work").mkdir(exist_ok=True)
    Path("work/run.json").write_text(json.dumps(ran), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
