"""A scripted editor: the next edit of a fixed list, with some that must not be kept among them.

Name a model (`--editor`), and it is not used.
"""

# ruff: noqa: T201

import os
from collections.abc import Callable
from pathlib import Path

TEMPLATE = Path("prompts/sort_ticket.txt")
FORM = "Answer with one label and nothing else."
BILLING = "- invoice, charged, refund: billing"
ACCESS = "- locked, password, log in: access"
BUG = "- crashes, error, blank screen: bug"
LEARNED = "- lists the same item, had cancelled: billing\n- since monday, reset mail: access"


def rule(line: str) -> Callable[[str], str]:
    return lambda text: text.replace("\nTicket:", f"{line}\n\nTicket:")


def without_ticket(text: str) -> str:
    return rule(BILLING)(text).replace("{ticket}", "(see above)")


def with_tone(text: str) -> str:
    return f"Answer in a {{tone}} voice.\n{text}"


def second_file(text: str) -> str:
    Path("prompts/more.txt").write_text(f"{BILLING}\n{ACCESS}\n{BUG}\n", encoding="utf-8")
    return text


Idea = tuple[str, Callable[[str], str]]

STEPS: list[tuple[str, list[Idea]]] = [
    (FORM, [("ask for a tone", with_tone), ("say the form", rule(FORM))]),
    (
        BILLING,
        [
            ("learn by heart", rule(LEARNED)),
            ("fewer words: no ticket", without_ticket),
            ("words of billing", rule(BILLING)),
        ],
    ),
    (ACCESS, [("a second file", second_file), ("words of access", rule(ACCESS))]),
    (BUG, [("words of bugs", rule(BUG))]),
]
"""What stands in the template when a step is done, and the ideas on the way there."""


def next_idea(text: str, page: str) -> Idea | None:
    """The first idea of the next step that was not turned down."""
    for done, ideas in STEPS:
        if done not in text:
            return next((idea for idea in ideas if f"- {idea[0]}\n" not in page), None)
    return None


def main() -> None:
    """Edit, and say on stdout what the idea was."""
    text = TEMPLATE.read_text(encoding="utf-8")
    page = Path(os.environ["BURNISH_TASK_FILE"]).read_text(encoding="utf-8")
    idea = next_idea(text, page)
    if idea is None:
        print("nothing more to say")
        return
    told, edited = idea
    TEMPLATE.write_text(edited(text), encoding="utf-8")
    print(told)


if __name__ == "__main__":
    main()
