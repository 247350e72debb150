"""Improve the instructions of a function: `python sums.py`. Scripts stand in for both models."""

# ruff: noqa: T201

import burnish

INSTRUCTIONS = "Answer."


def answer(question: str, instructions: str) -> str:
    """The agent: yours asks its model here."""
    one, other = map(int, question.split(" + "))
    return str(one + other) if "number" in instructions else f"It is {one + other}."


def exact(output: str, expected: str) -> tuple[bool, str]:
    """The metric, with a reason that the reflector is shown."""
    return output == expected, f"expected {expected!r} and nothing else"


def rewrite(messages: list[dict[str, str]]) -> str:
    """The reflector: yours is a model's name, or a function that asks one."""
    assert "nothing else" in messages[-1]["content"]
    return "Answer with the number alone."


rows = [{"question": f"{a} + {b}", "answer": str(a + b)} for a in range(2, 9) for b in range(2, 9)]

if __name__ == "__main__":
    texts = {"instructions": INSTRUCTIONS}
    result = burnish.optimize(answer, texts, cases=rows, metric=exact, reflector=rewrite)
    print(result)
