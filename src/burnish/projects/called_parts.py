"""What project files about agents that are called have in common: who plays the user, metrics."""

from functools import partial
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, PriceUnknown
from burnish.core.protocols import Metric
from burnish.evaluation.configs.layering import make_agent_metrics
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.configs.reading import MetricsRead, read_metric_file
from burnish.evaluation.judges.judged import check_judges
from burnish.evaluation.simulation import ROLE as USER_SIMULATOR
from burnish.evaluation.simulation import user_simulator
from burnish.models.factory import Models
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.projects.agent_blocks import CalledFile, User
from burnish.projects.black_box import trajectory_problems
from burnish.projects.gathering import Gathering
from burnish.targets.calling.target import no_player


class CalledParts:
    """The parts of one file, each made as far as it can be; what is wrong is kept."""

    def __init__(
        self, file: CalledFile, folder: Path, models: Models | None, wrong: Gathering
    ) -> None:
        self.folder = folder
        self.models = models or file.models.models()
        self.wrong = wrong
        self._file = file

    def user(self, cases: tuple[Case, ...]) -> User | None:
        """Who plays the user, where a case is a scenario."""
        scenarios = [case for case in cases if case.scenario is not None and case.recorded is None]
        block = self._file.user_simulator
        if block is None:
            self.wrong.problems += [no_player(case) for case in scenarios[:1]]
            return None
        if not scenarios:
            return None
        return self.wrong.of(("user_simulator",), lambda: self._player(block.reference()), None)

    def read_metrics(
        self, instead: Path | None, *, names: tuple[str, ...] = (), replies_only: bool
    ) -> MetricsRead:
        """The metrics of the file, of the file that it names, or of another one `instead`.

        `replies_only` refuses those that look at tools, where nobody can know of any.
        """
        given = MetricsRead(blocks=self._file.metrics)
        file = instead
        if file is None and self._file.metrics_file is not None:
            file = self.folder / self._file.metrics_file
            if self._file.metrics:
                self.wrong.add(("metrics_file",), "give metrics or metrics_file, not both")
        if file is not None:
            named = file
            given = self.wrong.of(("metrics_file",), lambda: read_metric_file(named), given)
        given = self.wrong.of(("metrics",), lambda: given.only(names), given)
        if replies_only:
            self.wrong.of(("metrics",), lambda: refuse_trajectories(given), None)
        return given

    def metrics(
        self, read: MetricsRead, cases: tuple[Case, ...], *, judge: str | None = None
    ) -> tuple[Metric, ...]:
        """What each metric is made of; with no metric at all there is nothing to measure."""
        before = len(self.wrong.problems)
        made = self.wrong.of(("metrics",), lambda: self._made(read, cases, judge), ())
        for metric in made:
            self.wrong.of(("metrics",), partial(check_judges, [metric]), None)
        if not made and not read.blocks and len(self.wrong.problems) == before:
            remedy = "add one: metrics: [{type: standard, metric: equality}]"
            self.wrong.add(("metrics",), "there are no metrics", remedy)
        return made

    def _made(
        self, read: MetricsRead, cases: tuple[Case, ...], judge: str | None
    ) -> tuple[Metric, ...]:
        ref = read.judge
        if judge is not None:
            ref = ModelRef.parse(judge)
        elif self._file.judge is not None:
            ref = self._file.judge.reference()
        making = MetricMaking(models=self.models, folder=self.folder, judge=ref)
        return make_agent_metrics(read.blocks, cases, making)

    def _player(self, ref: ModelRef) -> User:
        prompt = in_force(USER_SIMULATOR, self.folder)
        client = self.models.client(ref, prompt.settings)
        client.check()
        if self._file.budget.max_usd is not None and not client.priced:
            raise PriceUnknown(f"max_usd is set, but the price of {ref.label} is not known")
        return user_simulator(client, prompt)


def refuse_trajectories(read: MetricsRead) -> None:
    """Refuse metrics that would look for tools nobody can know of."""
    if found := trajectory_problems(read.blocks):
        raise ConfigError(found)
