"""The agent and its prompts as a project or flags name them."""

from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.projects.agent_blocks import PythonBlock
from burnish.projects.overrides import Overrides, flag_of
from burnish.targets.prompts.target_prompt import TargetPrompt

PROMPTS_REMEDY = "name one: prompts: {system: prompts/system.md}, or --prompt NAME=FILE"


def flagged_agent(flags: Overrides, folder: Path) -> tuple[PythonBlock, Path] | None:
    """The function that a flag names and the folder it is imported from.

    That is the folder of the project file, or the one in which the command was given.
    """
    if flags.agent is None:
        return None
    top = flags.agent.partition(":")[0].partition(".")[0]
    there = Path(flags.agent_folder or folder)
    found = [place for place in (folder, there) if PathFinder.find_spec(top, [str(place)])]
    return PythonBlock(call=flags.agent), (found or [folder])[0]


def target_prompt(paths: Mapping[str, Path]) -> TargetPrompt:
    """Prompts that are files; everything that is wrong with them is said at once."""
    prompts, problems = TargetPrompt(), list[Problem]()
    for name, path in paths.items():
        try:
            prompts.add_path(name, path)
        except ValueError as error:
            problems.append(Problem(where=name, message=str(error)))
            continue
        if not path.is_file():
            problems.append(Problem(where=name, message=f"there is no file {path}"))
    if not paths:
        problems.append(Problem(message="there are no prompts to rewrite", remedy=PROMPTS_REMEDY))
    if problems:
        raise ConfigError(problems)
    return prompts


def flagged_paths(flags: Overrides) -> dict[str, Path]:
    """The prompts that flags name."""
    return {name: Path(path) for name, path in (flags.prompt_files or {}).items()}


def lacking(flags: Overrides, *names: str) -> list[Problem]:
    """What flags have to say where no file does."""
    return [
        Problem(where=flag_of(name), message="this is needed, and no file says it")
        for name in names
        if getattr(flags, name) is None
    ]
