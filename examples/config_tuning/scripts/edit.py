"""The editor of this example: a program with a list of steps, good and bad, one at each call."""

# ruff: noqa: T201
import os
from pathlib import Path

FILE = Path("config.yaml")
STEPS = (
    ("as many workers as may be needed", "workers: 3", "workers: 12"),
    ("take what is done soon first", "[video, photo, icon]", "[icon, photo, video]"),
    ("two workers more", "workers: 3", "workers: 5"),
    ("keep more answers", "entries: 10", "entries: 60"),
    ("drop what is used least", "drop: oldest", "drop: least_used"),
    ("take everything at once", "batch: 1", "batch: 64"),
)
"""What it is, what is there now, and what should be there."""


def main() -> None:
    """Carry out the next step: after the last one that was kept, and not turned down."""
    text = FILE.read_text(encoding="utf-8")
    told = Path(os.environ["BURNISH_TASK_FILE"]).read_text(encoding="utf-8")
    kept = [number for number, (_, _, new) in enumerate(STEPS) if new in text]
    for idea, old, new in STEPS[max(kept, default=-1) + 1 :]:
        if idea not in told:
            FILE.write_text(text.replace(old, new), encoding="utf-8")
            print(idea)
            return
    print("no more ideas")


if __name__ == "__main__":
    main()
