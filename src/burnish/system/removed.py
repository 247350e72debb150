"""What burnish no longer has: keys, flags and commands, each with what to do instead."""

from collections.abc import Mapping

REMOVED: Mapping[str, str] = {
    "max_priority": "limit how many runs a token has at once: `--max-runs`",
    "max_storage": "watch the disk of the data folder; `--max-upload` limits one request",
    "per": "limits are totals; `burnish tokens limit` raises them",
    "priority": "leave it out: tokens take turns",
    "prune": "remove it: `--goal cheaper` shortens a winner, and tests that it gets no worse",
    "--label": "`burnish view` shows runs; label cases in a tool of your own, in a column `labels`",
    "--lossy": "cases are written as JSON lines, which lose nothing: name a .jsonl file",
    "burnish data accept": "add the rows to your file of cases, and run `burnish data check`",
    "burnish data agreement": "compare labels in a tool of your own",
    "burnish data audit": "run `burnish runs compare` on the measurements",
    "burnish data grow": "have a model write rows, add them, and run `burnish data check`",
    "burnish data judge-check": "compare the judge's scores with your labels in a tool of your own",
    "burnish data label": "label cases in a tool of your own, in a column `labels`",
    "burnish mcp": "run its commands, with `--json` where a program reads the answer",
    "burnish models chat": "run `burnish models check`, or `burnish models serve` for a client",
    "burnish runs pin": "name what may change in the file, and start a new run with --fork",
    "burnish runs tell": "write it into the text that is searched, and start a new run",
    "burnish runs try": "put the candidate into your files, and run `burnish eval --baseline`",
    "burnish runs unpin": "name what may change in the file, and start a new run with --fork",
    "burnish watch": "import a sample with `burnish data import`, and measure it: `burnish eval`",
}
"""By the key of a file, which is also the field of a request and, with dashes, the flag; commands
are written out."""


def way_out(name: str) -> str:
    """What to do instead of a key, a flag or a command that is gone; otherwise empty."""
    key = name.removeprefix("--").removeprefix("no-").replace("-", "_").rpartition(".")[2]
    return REMOVED.get(name) or REMOVED.get(key, "")
