"""Adapters, proposers, callbacks and stoppers written for gepa, under burnish's loop."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.gepa import GepaResult, optimize
from burnish.core.errors import BurnishError, ConfigError, MissingExtra
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.runs.directory import RunRecord
from burnish.system.extras import install_command
from burnish.testing.doubles import ScriptedBackend

SEED = {"system": "Answer.", "style": "Be brief."}
RULE = "Always name the colour."


@dataclass
class Batch:
    """As gepa's EvaluationBatch."""

    outputs: list[Any]
    scores: list[float]
    trajectories: list[Any] | None = None


@dataclass
class Adapter:
    """Right once the system text has the rule; counts what it is asked."""

    asked: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    best: float = 1.0

    def evaluate(
        self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False
    ) -> Batch:
        right = RULE in candidate["system"]
        self.asked += [(each["input"], capture_traces) for each in batch]
        answers = [each["answer"] if right else "no idea" for each in batch]
        traces = [
            {"asked": each["input"], "said": a} for each, a in zip(batch, answers, strict=True)
        ]
        return Batch(answers, [self.best * right] * len(batch), traces if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Batch, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        assert eval_batch.trajectories is not None
        records = [{"Inputs": t["asked"], "Feedback": "name it"} for t in eval_batch.trajectories]
        return dict.fromkeys(components_to_update, records)


def examples(name: str, count: int = 8) -> list[dict[str, Any]]:
    return [{"input": f"{name} flag {n}?", "answer": f"colour {name}{n}"} for n in range(count)]


def rewrite(
    candidate: dict[str, str],
    reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
    components_to_update: list[str],
) -> dict[str, str]:
    """A custom proposer that reads the feedback."""
    (name,) = components_to_update
    asked = [record["Feedback"] for record in reflective_dataset[name]]
    assert set(asked) == {"name it"}
    return {name: f"{candidate[name]} {RULE}"}


def searched(folder: Path, adapter: Adapter | None = None, **options: Any) -> GepaResult:
    merged: dict[str, Any] = {
        "testset": examples("test"),
        "custom_candidate_proposer": rewrite,
        "max_metric_calls": 90,
        "run_dir": str(folder / "run"),
        **options,
    }
    return optimize(SEED, examples("train"), examples("val"), adapter or Adapter(), **merged)


class TestProposers:
    def test_a_custom_proposer_finds_the_rule(self, tmp_path: Path) -> None:
        adapter = Adapter()
        result = searched(tmp_path, adapter)
        assert RULE in result.best_candidate["system"]
        assert result.candidates[0] == SEED
        assert result.parents[0] == []
        assert result.parents[result.best_idx]
        assert result.val_aggregate_scores[result.best_idx] == 1.0
        assert result.ending.claim is not None
        assert (result.ending.claim.basis, result.ending.claim.verdict) == (
            "sealed test",
            "improved",
        )
        assert result.summary
        assert result.total_metric_calls <= 90
        assert len(adapter.asked) == result.total_metric_calls
        assert {text.split()[0] for text, traced in adapter.asked if traced} == {"train"}

    def test_a_second_call_pays_nothing(self, tmp_path: Path) -> None:
        first, again = searched(tmp_path), Adapter()
        assert searched(tmp_path, again).best_candidate == first.best_candidate
        assert not again.asked

    def test_the_method_of_an_adapter(self, tmp_path: Path) -> None:
        adapter = Adapter()
        adapter.propose_new_texts = rewrite  # pyright: ignore[reportAttributeAccessIssue]
        result = searched(tmp_path, adapter, custom_candidate_proposer=None)
        assert RULE in result.best_candidate["system"]

    def test_one_that_fails_ends_the_search_with_its_words(self, tmp_path: Path) -> None:
        def broken(*_: Any) -> dict[str, str]:
            raise LookupError("no template")

        with pytest.raises(BurnishError, match="no template"):
            searched(tmp_path, custom_candidate_proposer=broken)

    def test_a_function_that_asks_a_model(self, tmp_path: Path) -> None:
        prompts: list[str] = []

        def lm(prompt: str) -> str:
            prompts.append(prompt)
            return f"The rule is missing.\n```text\nAnswer. {RULE}\n```\n"

        template = "Improve <curr_param> by <side_info>"
        result = searched(
            tmp_path,
            custom_candidate_proposer=None,
            reflection_lm=lm,
            reflection_prompt_template=template,
        )
        assert result.best_candidate["system"] == f"Answer. {RULE}"
        assert prompts[0].startswith("Improve Answer. by # Example 1\n## Inputs\n")

    @pytest.mark.parametrize("template", [None, "Improve <curr_param>: <side_info>"])
    def test_a_model_by_its_name(self, tmp_path: Path, template: str | None) -> None:
        def respond(request: ChatRequest, draw: int) -> str:
            del draw
            assert "name it" in "".join(message.content for message in request.messages)
            if request.schema is None:
                return f"```\nAnswer. {RULE}\n```"
            return f'{{"diagnosis": "the rule is missing", "new_text": "Answer. {RULE}"}}'

        result = searched(
            tmp_path,
            custom_candidate_proposer=None,
            reflection_lm="openai/gpt-4o",
            reflection_lm_kwargs={"temperature": 0.5},
            reflection_prompt_template=template,
            models=Models(backends={"openai": ScriptedBackend(respond=respond)}),
        )
        assert result.best_candidate["system"] == f"Answer. {RULE}"


class TestOptions:
    def test_callbacks_and_stoppers(self, tmp_path: Path) -> None:
        seen: list[str] = []

        class Callback:
            def __getattr__(self, name: str) -> Any:
                def note(event: Any) -> None:
                    seen.append(name)

                return note

        def after_baseline(state: Any) -> bool:
            return bool(state.program_candidates)

        result = searched(tmp_path, callbacks=[Callback()], stop_callbacks=after_baseline)
        assert seen[0] == "on_optimization_start"
        assert seen[-1] == "on_optimization_end"
        assert "on_valset_evaluated" in seen
        assert len(RunRecord.read(Path(result.run_dir)).rows) == 1

    def test_what_has_no_meaning_is_refused_with_the_reason(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as refused:
            searched(tmp_path, batch_sampler=object(), max_reflection_cost=2.0, frontier_type="x")
        text = str(refused.value)
        assert all(name in text for name in ("batch_sampler", "US dollars", "frontier_type"))
        assert not (tmp_path / "run").exists()

    def test_without_a_valset_a_part_of_train_decides(self, tmp_path: Path) -> None:
        adapter = Adapter()
        result = optimize(
            SEED,
            examples("train", 24),
            adapter=adapter,
            custom_candidate_proposer=rewrite,
            max_metric_calls=120,
            run_dir=str(tmp_path / "run"),
        )
        traced = {text for text, with_traces in adapter.asked if with_traces}
        others = {text for text, with_traces in adapter.asked if not with_traces}
        assert traced
        assert not traced & others
        assert RULE in result.best_candidate["system"]

    def test_scores_of_another_range(self, tmp_path: Path) -> None:
        with pytest.raises(BurnishError, match="score_range"):
            searched(tmp_path / "refused", Adapter(best=10.0), custom_candidate_proposer=rewrite)
        result = searched(tmp_path, Adapter(best=10.0), score_range=(0.0, 10.0))
        assert result.val_aggregate_scores[result.best_idx] == 1.0

    def test_nobody_writes_and_nobody_evaluates(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nobody writes new texts"):
            searched(tmp_path, custom_candidate_proposer=None)
        with pytest.raises(ConfigError, match="pass an adapter"):
            optimize(SEED, examples("train"), custom_candidate_proposer=rewrite)


def test_the_absence_of_its_default_adapter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(MissingExtra) as missing:
        optimize(SEED, examples("train"), task_lm="openai/gpt-4o")
    assert missing.value.remedy == f"{install_command('gepa')}, or pass an adapter"
