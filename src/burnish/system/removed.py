"""What burnish no longer has: keys, flags and commands, each with what to do instead."""

from collections.abc import Mapping

REMOVED: Mapping[str, str] = {
    "prune": "remove it: `--goal cheaper` shortens a winner, and tests that it gets no worse",
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
