"""An algorithm of one's own: every rule that train reveals, kept where it does no harm there.

It asks no model. burnish reads its config, puts the prompts back after it and writes its result.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rules import layout_rules, word_rules

from burnish.compat import BaseOptimizer, OptimizeResult

NAME = "greedy_rules"


class GreedyRules(BaseOptimizer):
    """One rule after the other, in the order in which the cases reveal them."""

    calls = 0

    async def run(self, *, reporter: Any = None) -> OptimizeResult:
        """Learn on train, then measure on validation what was learned."""
        del reporter  # it has nothing to say on the way
        train, held = _pairs(self.train_dataset_path), _pairs(self.validation_dataset_path)
        before = await self._rate(self.baseline, held)
        best, score = dict(self.baseline), await self._rate(self.baseline, train)
        for field, rule in self._revealed(train):
            tried = best | {field: f"{best[field]}{rule}\n"}
            rate = await self._rate(tried, train)
            if rate >= score:
                best, score = tried, rate
        after = await self._rate(best, held)
        return OptimizeResult(
            algorithm=NAME,
            status="SUCCEEDED",
            baseline_pass_rate=before,
            best_pass_rate=after,
            pass_rate_improvement=after - before,
            baseline_prompts=dict(self.baseline),
            best_prompts=best,
            total_metric_calls=self.calls,
        )

    def _revealed(self, train: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        most: int = getattr(self.config.optimize.algorithm, "max_rules", 8)
        layout = [("layout", rule) for rule in layout_rules(train)]
        return [*layout, *(("words", rule) for rule in word_rules(train))][:most]

    async def _rate(self, prompts: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> float:
        """The share of the cases that come out as they should."""
        await self.target_prompt.write_all(prompts)
        self.calls += len(pairs)
        return sum([await self.call_agent(said) == wanted for said, wanted in pairs]) / len(pairs)


def _pairs(path: str) -> list[tuple[str, str]]:
    """What is asked and what is expected, of an EvalSet of single turns."""
    cases = json.loads(Path(path).read_text(encoding="utf-8"))["eval_cases"]
    turns = [case["conversation"][0] for case in cases]
    return [(_text(turn["user_content"]), _text(turn["final_response"])) for turn in turns]


def _text(content: Mapping[str, Any]) -> str:
    return content["parts"][0]["text"]
