"""gepa's own adapters, loaders and stoppers under burnish's loop."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from burnish.compat.gepa import GepaResult, optimize
from burnish.runs.directory import RunRecord

gepa: Any = import_module("gepa")
loaders: Any = import_module("gepa.core.data_loader")
rag: Any = import_module("gepa.adapters.generic_rag_adapter.generic_rag_adapter")
stores: Any = import_module("gepa.adapters.generic_rag_adapter.vector_store_interface")
stops: Any = import_module("gepa.utils.stop_condition")

RULE = "Always name the colour."


def answer(messages: Sequence[Mapping[str, str]]) -> str:
    """A model that knows the answer once the rule is in its prompt."""
    told = " ".join(message["content"] for message in messages)
    names = [name for name in ("red", "blue", "green") if name in messages[-1]["content"]]
    return f"colour {names[0]}" if RULE in told else "no idea"


def insts(name: str) -> list[dict[str, Any]]:
    return [
        {"input": f"{name} {n}?", "answer": f"colour {name}", "additional_context": {}}
        for n in range(8)
    ]


def add_rule(candidate: dict[str, str], dataset: Any, names: list[str]) -> dict[str, str]:
    (name,) = names
    assert "Feedback" in dataset[name][0]
    return {name: f"{candidate[name]} {RULE}"}


def add_word(candidate: dict[str, str], dataset: Any, names: list[str]) -> dict[str, str]:
    """A proposer that never helps."""
    del dataset
    return {name: f"{candidate[name]} Please." for name in names}


def searched(folder: Path, **options: Any) -> GepaResult:
    merged: dict[str, Any] = {
        "seed_candidate": {"system": "Answer."},
        "trainset": insts("red"),
        "valset": insts("blue"),
        "task_lm": answer,
        "custom_candidate_proposer": add_rule,
        "max_metric_calls": 90,
        "run_dir": str(folder / "run"),
        **options,
    }
    return optimize(**merged)


def test_its_default_adapter_gains_on_the_sealed_test(tmp_path: Path) -> None:
    result = searched(tmp_path, testset=insts("green"))
    assert result.best_candidate == {"system": f"Answer. {RULE}"}
    assert result.ending.claim is not None
    assert (result.ending.claim.basis, result.ending.claim.verdict) == ("sealed test", "improved")


class Shelf(cast("type[Any]", stores.VectorStoreInterface)):
    """One document for each colour."""

    def similarity_search(
        self, query: str, k: int = 5, filters: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        del k, filters
        return [{"content": query, "metadata": {"doc_id": query.split()[0]}, "score": 1.0}]

    def vector_search(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        return []

    def get_collection_info(self) -> dict[str, Any]:
        return {}


def test_its_adapter_for_retrieval(tmp_path: Path) -> None:
    def queries(name: str, count: int = 8) -> list[dict[str, Any]]:
        return [
            {
                "query": f"{name} {n}?",
                "ground_truth_answer": f"colour {name}",
                "relevant_doc_ids": [name],
                "metadata": {},
            }
            for n in range(count)
        ]

    def embed(text: str) -> list[float]:
        return [float(len(text))]

    adapter = rag.GenericRAGAdapter(Shelf(), answer, embedding_function=embed)

    def propose(candidate: dict[str, str], dataset: Any, names: list[str]) -> dict[str, str]:
        assert dataset[names[0]]
        return {name: f"{candidate[name]} {RULE}" for name in names}

    result = searched(
        tmp_path,
        seed_candidate={"answer_generation": "Answer {query} from {context}."},
        trainset=queries("red"),
        valset=queries("blue"),
        testset=queries("green", 20),
        adapter=adapter,
        task_lm=None,
        custom_candidate_proposer=propose,
        max_metric_calls=120,
    )
    assert RULE in result.best_candidate["answer_generation"]
    assert result.ending.claim is not None
    assert result.ending.claim.verdict == "improved"


def test_its_loaders_are_examples(tmp_path: Path) -> None:
    load = loaders.ListDataLoader
    result = searched(tmp_path, trainset=load(insts("red")), valset=load(insts("blue")))
    assert result.best_candidate == {"system": f"Answer. {RULE}"}


class TestStoppers:
    """Each stops where it would stop gepa."""

    def test_they_see_what_gepa_shows_them(self, tmp_path: Path) -> None:
        def noted(seen: list[Any]) -> Any:
            def stop(state: Any) -> bool:
                seen.append((state.i, list(state.program_full_scores_val_set)))
                return len(seen) > 4

            return stop

        here, there = list[Any](), list[Any]()
        self.rounds(tmp_path, noted(here), custom_candidate_proposer=add_word)
        gepa.optimize(
            seed_candidate={"system": "Answer."},
            trainset=insts("red"),
            valset=insts("blue"),
            task_lm=answer,
            custom_candidate_proposer=add_word,
            stop_callbacks=[noted(there)],
        )
        assert here == there

    def rounds(self, folder: Path, stopper: Any, **options: Any) -> int:
        result = searched(folder, stop_callbacks=stopper, max_metric_calls=None, **options)
        return len(RunRecord.read(Path(result.run_dir)).rows) - 1

    def test_after_a_number_of_proposals(self, tmp_path: Path) -> None:
        stopper = stops.MaxCandidateProposalsStopper(3)
        assert self.rounds(tmp_path, stopper, custom_candidate_proposer=add_word) == 3

    def test_at_a_score(self, tmp_path: Path) -> None:
        assert self.rounds(tmp_path, stops.ScoreThresholdStopper(1.0)) == 1

    def test_without_improvement(self, tmp_path: Path) -> None:
        stopper = stops.NoImprovementStopper(3)
        assert self.rounds(tmp_path, stopper, custom_candidate_proposer=add_word) == 3

    def test_several_at_once(self, tmp_path: Path) -> None:
        both = stops.CompositeStopper(
            stops.MaxTrackedCandidatesStopper(2), stops.MaxMetricCallsStopper(1000)
        )
        assert self.rounds(tmp_path, both) == 1
