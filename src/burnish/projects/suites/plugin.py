"""Policy texts as a target: the registry they are kept in, and what became of them."""

from collections.abc import Iterable

from burnish.projects.suites.keeping import RegistryKeeper, SuiteRecord
from burnish.runs.events import read_all
from burnish.runs.plugins import ResultFiles, TargetPlugin
from burnish.runs.record import RunRecord
from burnish.runs.run import Run
from burnish.strategies.epochs.training import PolicyChanged
from burnish.targets.delegation.target import DELEGATIONS, DelegationTarget


class PolicyPlugin(TargetPlugin):
    """Trained texts go into the policy registry."""

    def result_files(self, run: Run) -> ResultFiles | None:
        """What keeps the registry, where texts of it are trained."""
        assert isinstance(run.target, DelegationTarget)
        # Delegations that were under way when a run was killed go on from here.
        run.target.move_in(run.directory.folder / DELEGATIONS)
        record = SuiteRecord.of(run.directory.header.project.config)
        return None if record is None else RegistryKeeper(run, record)

    def last_words(self, run: RunRecord) -> Iterable[str]:
        """Which texts a run has made active, and where."""
        record = SuiteRecord.of(run.header.project.config)
        changed: dict[str, int] = {}
        for change in read_all(run.events, PolicyChanged):
            changed.update(change.versions)
        if record is None or not changed:
            return
        for name, version in changed.items():
            yield f"policy   {name} v{version} is active"
        yield f"         burnish policy list --db {record.registry}"
