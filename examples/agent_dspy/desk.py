"""The price desk of a shop, as a program of DSPy.

Its model is a class that follows the instructions: put a real one in its place, such as
`dspy.LM("openai/gpt-4o-mini")`.
"""

import re
from types import SimpleNamespace
from typing import Any

import dspy


class FollowingModel(dspy.BaseLM):
    """Computes the total, in euros if the instructions say so."""

    def __init__(self) -> None:
        super().__init__(model="following")

    def forward(self, prompt: str | None = None, messages: Any = None, **settings: Any) -> Any:
        question = messages[-1]["content"].partition("Respond")[0]
        count, price = re.findall(r"\d+", question)[-2:]
        unit = " euros" if "in euros" in messages[0]["content"] else ""
        text = f"[[ ## amount ## ]]\n{int(count) * int(price)}{unit}\n\n[[ ## completed ## ]]"
        message = SimpleNamespace(content=text, tool_calls=None)
        choice = SimpleNamespace(message=message, finish_reason="stop")
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        return SimpleNamespace(choices=[choice], usage=usage, model="following")


class Payment(dspy.Signature):
    """Compute what the customer has to pay. Answer with the amount only."""

    order: str = dspy.InputField()
    amount: str = dspy.OutputField()


dspy.configure(lm=FollowingModel())
program = dspy.Predict(Payment)
