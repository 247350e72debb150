"""optimizer.json as a project of `burnish optimize`, with an agent and prompts that flags name."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from burnish.core.cases import Dataset
from burnish.models.factory import Models
from burnish.projects.gathering import Gathering
from burnish.projects.loading import OPTIMIZER, Given, LoadedProject, loaded_from
from burnish.projects.overrides import Overrides
from burnish.projects.prompts.agents import flagged_agent, flagged_paths, lacking, target_prompt
from burnish.projects.prompts.config import OptimizerFile, parse_optimizer
from burnish.projects.prompts.datasets import read_dataset
from burnish.projects.prompts.plan import PromptsPlan, setup_of
from burnish.runs.outputs import with_outputs
from burnish.runs.setup import Setup
from burnish.targets.calling import CallingTarget
from burnish.targets.prompts.target import PromptsTarget
from burnish.targets.prompts.target_prompt import TargetPrompt

_NEEDED = ("agent", "prompt_files", "train_cases", "holdout_cases")


def load(given: Given) -> Setup:
    """An optimizer.json as a Setup: the loader of the project kind `optimizer`."""
    return searching_of(given, Models())


def prepare_search(
    path: Path,
    flags: Overrides,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
) -> LoadedProject:
    """An optimizer.json ready to be searched with; `models` stand in for the real ones."""
    given = Given.read(path, flags, environ=environ)
    return loaded_from(given, OPTIMIZER, searching_of(given, models or Models()))


def searching_of(given: Given, models: Models) -> Setup:
    """Everything the search is made of; what is wrong with file and flags is said at once."""
    wrong = Gathering(tree=given.tree)
    wrong.problems += lacking(given.flags, *_NEEDED)
    config = wrong.as_told(lambda: cast("OptimizerFile", parse_optimizer(given.tree)), None)
    agent = wrong.as_told(lambda: _agent(given), None)
    prompts = wrong.as_told(lambda: _prompts(given), None)
    dataset = wrong.as_told(lambda: _dataset(given, config), None)
    wrong.settle()
    assert config is not None
    assert agent is not None
    assert prompts is not None
    assert dataset is not None
    target = PromptsTarget.load_files(agent, prompts, mode=config.optimize.isolation)
    plan = PromptsPlan(
        config=config,
        target=target,
        dataset=dataset,
        folder=given.folder,
        models=models,
        flags=given.flags,
        environment=given.environment,
        tree=given.tree,
    )
    return with_outputs(setup_of(plan), given.flags)


def _agent(given: Given) -> CallingTarget | None:
    found = flagged_agent(given.flags, given.folder)
    return None if found is None else found[0].made(found[1], None)


def _prompts(given: Given) -> TargetPrompt | None:
    paths = flagged_paths(given.flags)
    return target_prompt(paths) if paths else None


def _dataset(given: Given, config: OptimizerFile | None) -> Dataset | None:
    """The cases that flags name; the file may name the sealed ones."""
    flags = given.flags
    named = None if config is None else config.optimize.sealed_dataset_path
    in_file = None if named is None else str(given.folder / named)
    test = flags.choose("sealed_cases", in_file, given.environment, None)
    if flags.train_cases is None or flags.holdout_cases is None:
        return None
    sealed = None if test is None else Path(test)
    return read_dataset(Path(flags.train_cases), Path(flags.holdout_cases), sealed)
