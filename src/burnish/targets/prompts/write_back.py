"""Writing the best texts back: all or none, and only where nobody changed a field meanwhile."""

from collections.abc import Mapping
from pathlib import Path

from burnish.core.errors import ConfigError, Problem, RollbackError
from burnish.system.files import state_folder
from burnish.targets.prompts.locking import lock_files
from burnish.targets.prompts.target_prompt import TargetPrompt


async def write_back(
    prompts: TargetPrompt,
    values: Mapping[str, str],
    *,
    expected: Mapping[str, str],
    home: Path | None = None,
) -> None:
    """Give the fields these texts, if every one of them still says what is expected."""
    with lock_files(prompts.files, home or state_folder()):
        changed = [name for name in prompts.names() if await prompts.read(name) != expected[name]]
        if changed:
            raise ConfigError([_changed(prompts, name) for name in changed])
        try:
            await prompts.write_all(values)
        except BaseException:
            await _callbacks_back(prompts, values, expected)
            raise


async def _callbacks_back(
    prompts: TargetPrompt, values: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    """Files are back already; callbacks are, where they took the new text."""
    failures: dict[str, Exception] = {}
    for field in prompts.callbacks:
        try:
            if await field.text() == values[field.name]:
                await field.put(expected[field.name])
        except Exception as error:  # noqa: BLE001 - the user's function: the others go on
            failures[field.name] = error
    if failures:
        raise RollbackError(failures, remedy="Look at these fields, and put them back by hand.")


def _changed(prompts: TargetPrompt, name: str) -> Problem:
    return Problem(
        where=f"prompt field '{name}' ({prompts.describe_source(name)})",
        message="somebody changed it meanwhile, so nothing was written to any field",
        remedy="the best texts are in the run's folder: look at both, and put them in yourself",
    )
