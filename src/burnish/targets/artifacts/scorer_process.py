"""Calls a Python scorer in a separate process and writes its result.

Run by path: `scorer_process.py module:function`. stdin has a key and the file for the answer, which
is signed by the key: neither the command line nor the environment shows it, so programs that the
scorer starts can neither print nor write an answer. The function gets the workspace and the facts
of the run: `def score(workspace, run): return {"score": 0.8, "metrics": {...}}`.
"""

import hashlib
import hmac
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def _main(reference: str) -> None:
    key, answer = sys.stdin.read().splitlines()
    sys.path.insert(0, str(Path.cwd()))
    module, _, name = reference.partition(":")
    function = getattr(importlib.import_module(module), name)
    result: Any = function(Path.cwd(), _run())
    # Numbers of other libraries are numbers too.
    text = json.dumps(result, default=float)
    signature = hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
    Path(answer).write_text(f"{signature}\n{text}", encoding="utf-8")


def _run() -> dict[str, Any]:
    """The facts of the run; empty if the task has no runner."""
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
