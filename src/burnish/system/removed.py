"""What burnish no longer has: keys, flags and commands, each with what to do instead."""

from collections.abc import Mapping, Sequence

REMOVED: Mapping[str, str] = {
    "prune": "remove it: `--goal cheaper` shortens a winner, and tests that it gets no worse",
    "--prune": "leave it out: `--goal cheaper` shortens a winner, and tests that it gets no worse",
    "request priority": "leave it out: tokens take turns",
    "limit max_priority": "remove it: `max_runs` limits how many runs a token has at once",
    "limit max_storage": "remove it, and watch the disk: `max_upload` limits one request",
    "limit per": "remove it: limits are totals, and `burnish tokens limit` raises them",
    "burnish serve --max-priority": "limit how many runs a token has at once: `--max-runs`",
    "burnish serve --max-storage": "watch the disk; `--max-upload` limits one request",
    "burnish serve --per": "limits are totals; `burnish tokens limit` raises them",
    "burnish tokens --max-priority": "limit how many runs a token has at once: `--max-runs`",
    "burnish tokens --max-storage": "watch the disk; `--max-upload` limits one request",
    "burnish tokens --per": "limits are totals; `burnish tokens limit` raises them",
    "burnish view --label": "label cases in a tool of your own, in a column `labels`",
    "burnish view --scale": "label cases in a tool of your own, in a column `labels`",
    "burnish data --lossy": "cases are written as JSON lines, which lose nothing",
    "burnish data convert --to": "cases are written as JSON lines: name a .jsonl file",
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
"""Keys of files; fields of requests and limits of tokens; flags, of all commands, of a group or of
one; commands."""


def way_out(name: str, *, below: Sequence[str] = ()) -> str:
    """What to do instead of something that is gone; otherwise empty.

    `below` are the words of the command that a flag was given to.
    """
    places = (" ".join((*below[:end], name)) for end in range(len(below), -1, -1))
    return next((REMOVED[place] for place in places if place in REMOVED), "")
