"""One run, waited for: the engine alone."""

import asyncio
import tempfile
from pathlib import Path

from desk import engine, request

from burnish.compat.promptiter import Event


def show(event: Event) -> None:
    """Tell of each stage as it ends."""
    print(f"round {event.round}  {event.kind.value}")  # noqa: T201


async def main() -> None:
    """Run, and show what was accepted."""
    desk = engine()
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = await desk.run(request(), observer=show, run_dir=Path(folder) / "run")
    finally:
        await desk.close()
    assert result.baseline_validation is not None
    before, last = result.baseline_validation.overall_score, result.rounds[-1]
    after = before if last.validation is None else last.validation.overall_score
    print(f"{result.status.value}: {before:.2f} -> {after:.2f}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
