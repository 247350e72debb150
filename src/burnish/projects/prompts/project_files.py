"""Files of kind `prompts`, and flags without any file, as projects of `burnish optimize`."""

from collections.abc import Mapping
from pathlib import Path

from burnish.core.cases import Case, Dataset, Split
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric
from burnish.models.factory import Models
from burnish.projects.called_parts import CalledParts
from burnish.projects.case_splits import splits_of
from burnish.projects.gathering import Gathering
from burnish.projects.loading import PROMPTS, Given, LoadedProject, loaded_from
from burnish.projects.overrides import Overrides
from burnish.projects.prompts.agents import flagged_agent, flagged_paths, target_prompt
from burnish.projects.prompts.bounds import prompt_limits
from burnish.projects.prompts.notes import agent_notes, judge_notes
from burnish.projects.prompts.originals import prompt_files
from burnish.projects.prompts.project_file import PromptsFile
from burnish.projects.prompts.strategies import Searching, search_of
from burnish.projects.settings import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.runs.header import Project
from burnish.runs.outputs import with_outputs
from burnish.runs.setup import Setup
from burnish.system import validate_config
from burnish.targets.calling import CallingTarget
from burnish.targets.prompts.target import PromptsTarget
from burnish.targets.prompts.target_prompt import TargetPrompt


def load(given: Given) -> Setup:
    """A file of kind `prompts` as a Setup: the loader of that project kind."""
    return searching_of(given, None)


def prepare_project(
    path: Path,
    flags: Overrides,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
) -> LoadedProject:
    """Such a file, or a folder for flags alone, ready to run; `models` stand in for real ones."""
    given = Given.read(path, flags, environ=environ)
    return loaded_from(given, PROMPTS, searching_of(given, models))


def searching_of(given: Given, models: Models | None) -> Setup:
    """Everything the search is made of; everything that is wrong is said at once."""
    source = given.tree.path.name
    file = validate_config(given.tree.data, PromptsFile, source=source, tree=given.tree)
    return with_outputs(_Preparing(given, file, models).setup(), given.flags)


class _Preparing:
    """One file on its way to a search."""

    def __init__(self, given: Given, file: PromptsFile, models: Models | None) -> None:
        self.given = given
        self.file = file
        self.wrong = Gathering(tree=given.tree)
        self.parts = CalledParts(file, given.folder, models, self.wrong)

    def setup(self) -> Setup:
        dataset = splits_of(self.given, self.file, self.wrong)
        cases = tuple(case for split in Split for case in dataset.cases(split)) if dataset else ()
        agent = self._agent(cases)
        prompts = self.wrong.of(("prompts",), self._prompts, None)
        metrics = self._metrics(cases)
        target = self._target(agent, prompts) if agent and prompts else None
        search = None
        if dataset is not None and target is not None:
            measured = (dataset, metrics)
            search = search_of(self.given, self.file, self.parts, target, measured)
        self.wrong.settle()
        assert dataset is not None
        assert target is not None
        assert search is not None
        return self._assembled(target, dataset, metrics, search)

    def _assembled(
        self,
        target: PromptsTarget,
        dataset: Dataset,
        metrics: tuple[Metric, ...],
        search: Searching,
    ) -> Setup:
        flags, weak, file = self.given.flags, self.given.environment, self.file
        judged = judge_notes(metrics, repeats=search.repeats, reflector=search.client)
        return Setup(
            target=target,
            metrics=metrics,
            objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
            dataset=dataset,
            strategy=search.strategy,
            seed=flags.choose("seed", file.seed, weak, DEFAULT_SEED),
            budget=search.budget,
            concurrency=flags.choose("concurrency", file.concurrency, weak, DEFAULT_CONCURRENCY),
            case_policy=file.case_policy(),
            test_repeats=search.repeats,
            project=Project(config=prompt_files(target.prompts)),
            notes=(
                *agent_notes(target, dataset, settable=file.target is not None),
                *search.notes,
                *judged,
            ),
            resources=(target, self.parts.models),
        )

    def _agent(self, cases: tuple[Case, ...]) -> CallingTarget | None:
        user = self.parts.user(cases)
        flagged = flagged_agent(self.given.flags, self.given.folder)
        if flagged is not None:
            block, folder = flagged
            return self.wrong.as_told(lambda: block.made(folder, user), None)
        if self.file.target is None:
            remedy = "name it: target: {python: module:function}, or --agent module:function"
            self.wrong.add(("target",), "there is no agent", remedy)
            return None
        found = self.file.target.block
        return self.wrong.made("target", found, lambda: found.made(self.given.folder, user))

    def _prompts(self) -> TargetPrompt:
        """The prompts of the file; a flag of the same name says where one lies instead."""
        own = {name: self.given.folder / field.path for name, field in self.file.prompts.items()}
        return target_prompt({**own, **flagged_paths(self.given.flags)})

    def _metrics(self, cases: tuple[Case, ...]) -> tuple[Metric, ...]:
        named = self.given.flags.metric_file
        read = self.parts.read_metrics(None if named is None else Path(named), replies_only=True)
        return self.parts.metrics(read, cases)

    def _target(self, agent: CallingTarget, prompts: TargetPrompt) -> PromptsTarget | None:
        fields = self.file.prompts

        def made() -> PromptsTarget:
            texts = prompts.read_files()
            most = prompt_limits(texts, max_chars=None, max_tokens=self.file.max_prompt_tokens)
            own = {n: f.max_chars for n, f in fields.items() if f.max_chars is not None}
            limits = {n: min(v for v in (most.get(n), own.get(n)) if v) for n in {**most, **own}}
            return PromptsTarget.load_files(
                agent,
                prompts,
                mode=self.file.isolation,
                max_chars=limits,
                frozen={name: field.frozen for name, field in fields.items()},
            )

        return self.wrong.of(("prompts",), made, None)
