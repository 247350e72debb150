"""Calls a scorer that is a Python function, in a process of its own, and writes what it says.

Run by path: `plugin.py module:function ANSWER`. The answer goes into a file, so that nothing that
the files under test print can be taken for it. The function is given the workspace and what is
known of the run: `def score(workspace, run): return {"score": 0.8, "metrics": {...}}`.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def _main(reference: str, answer: str) -> None:
    """Import, call, write."""
    sys.path.insert(0, str(Path.cwd()))
    module, _, name = reference.partition(":")
    function = getattr(importlib.import_module(module), name)
    result: Any = function(Path.cwd(), _run())
    # Numbers of other libraries are numbers too.
    Path(answer).write_text(json.dumps(result, default=float), encoding="utf-8")


def _run() -> dict[str, Any]:
    """What is known of the run; empty where the task has no runner."""
    if "BURNISH_RUNNER_STDOUT" not in os.environ:
        return {}
    texts = {
        stream: Path(os.environ[f"BURNISH_RUNNER_{stream.upper()}"]).read_text(encoding="utf-8")
        for stream in ("stdout", "stderr")
    }
    return {
        **texts,
        "exit_code": int(os.environ["BURNISH_RUNNER_EXIT_CODE"]),
        "seconds": float(os.environ["BURNISH_RUNTIME_SECONDS"]),
    }


if __name__ == "__main__":
    _main(*sys.argv[1:])
