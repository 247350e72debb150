"""Choosing the policy registry: the one that is named, an experiment's, or the default."""

from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.delegation.experiments import Experiment
from burnish.delegation.home import POLICY, kept_policy
from burnish.delegation.policy import NAME, PolicyRegistry, PolicyTexts, registry_path
from burnish.delegation.result import RUBRIC


def find_registry(db: str | Path | None = None, experiment: str | None = None) -> PolicyRegistry:
    """The registry to train: `--db`, the experiment's own, a variable, or the user's."""
    if db is not None and experiment is not None:
        message = "an experiment has its own registry"
        raise ConfigError(
            [Problem(where="--db, --target", message=message, remedy="use only one of them")]
        )
    if experiment is not None:
        return PolicyRegistry(Experiment.find(experiment).folder.absolute() / NAME)
    return PolicyRegistry(registry_path(db))


def texts_to_read(db: str | Path | None = None, experiment: str | None = None) -> PolicyTexts:
    """The texts that a delegation reads: the experiment's, or those of the default registry."""
    if db is None and experiment is not None:
        own = find_registry(None, experiment)
        if own.path.exists():
            return own.texts()
    return PolicyRegistry(registry_path(db)).texts()


def texts_for_refining(seed: Path, experiment: str | None = None) -> PolicyTexts:
    """The texts that an iteration reads: those in force, with the rubric that graded its seed.

    Losses are only comparable under one rubric; a run of another system has none.
    """
    texts = texts_to_read(None, experiment)
    if not (seed / POLICY).is_file():
        return texts
    graded = kept_policy(seed)
    rubric = graded.versions.get(RUBRIC, 0)
    return texts.replaced({RUBRIC: graded[RUBRIC]}, {RUBRIC: rubric})
