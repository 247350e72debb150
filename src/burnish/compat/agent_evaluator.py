"""AgentEvaluator: an EvalSet and a `test_config.json` against `call_agent`, in a test."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.compat.callbacks import Callbacks
from burnish.compat.eval_sets import Asked, PreparedSet, prepared_sets
from burnish.compat.verdicts import Standing, explanation, standings, summary
from burnish.core.errors import ConfigError, Problem
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.evaluated import Evaluated
from burnish.projects.given_agents import How
from burnish.projects.measurements import threshold_of


class CasesFailed(AssertionError):
    """Cases that do not pass; the message explains each, `result` has everything."""

    def __init__(self, message: str, result: "EvaluateResult") -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True, kw_only=True)
class EvaluateResult:
    """What was found, by eval set."""

    results_by_eval_set_id: Mapping[str, Evaluated]
    standings: Mapping[str, Mapping[str, Mapping[str, Standing]]]
    """How each case does by each metric: the mean over turns and runs."""


class AgentEvaluator:
    """Runs the cases of EvalSets through an agent and asserts that they pass."""

    @classmethod
    async def evaluate(
        cls,
        eval_set_path: str | Path | None = None,
        *,
        call_agent: Callable[..., Any] | None = None,
        test_config_path: str | Path | None = None,
        num_runs: int | None = None,
        agent_name: str = "",
        print_detailed_results: bool = True,
        eval_result_output_dir: str | Path | None = None,
        case_parallelism: int | None = None,
        callbacks: Callbacks | None = None,
        judge: ModelRef | str | None = None,
        user_simulator: ModelRef | str | None = None,
        models: Models | None = None,
        eval_dataset_file_path_or_dir: str | Path | None = None,
        eval_metrics_file_path_or_dir: str | Path | None = None,
    ) -> EvaluateResult:
        """Evaluate an EvalSet, or every EvalSet of a folder.

        The metrics are in `test_config_path`, or in the `test_config.json` beside each set;
        `num_runs` is what it says there unless it is given. Without `call_agent` the cases must
        be recorded. Raises CasesFailed, an AssertionError, when a case does not pass. The last
        two parameters are other names of the two paths.
        """
        place = eval_set_path or eval_dataset_file_path_or_dir
        if place is None:
            raise ConfigError([Problem(message="no eval set is named", where="eval_set_path")])
        config = test_config_path or eval_metrics_file_path_or_dir
        asked = Asked(
            call_agent=call_agent,
            config=None if config is None else Path(config),
            name=agent_name,
            output=None if eval_result_output_dir is None else Path(eval_result_output_dir),
            callbacks=callbacks or Callbacks(),
            how=How(
                repeats=num_runs,
                concurrency=case_parallelism,
                judge=judge,
                user_simulator=user_simulator,
                models=models,
            ),
        )
        result, troubles = await _evaluated(prepared_sets(Path(place), asked))
        if print_detailed_results:
            _show(result)
        if troubles:
            raise CasesFailed("\n".join(troubles), result)
        return result


async def _evaluated(sets: Sequence[PreparedSet]) -> tuple[EvaluateResult, list[str]]:
    found: dict[str, Evaluated] = {}
    tables: dict[str, dict[str, dict[str, Standing]]] = {}
    troubles: list[str] = []
    for each in sets:
        found[each.id] = await each.evaluated()
        bars = {metric.name: threshold_of(metric) for metric in each.metrics}
        tables[each.id] = standings(found[each.id], bars)
        if told := explanation(each.id, found[each.id], tables[each.id]):
            troubles.append(told)
    return EvaluateResult(results_by_eval_set_id=found, standings=tables), troubles


def _show(result: EvaluateResult) -> None:
    for eval_set, table in result.standings.items():
        sys.stdout.writelines(f"{line}\n" for line in summary(eval_set, table))
