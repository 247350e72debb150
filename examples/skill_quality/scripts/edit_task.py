"""A scripted editor: makes the next edit of a fixed list, the bad ones among them on purpose.

It runs in a copy of the folder. Where it stands it knows from the skill itself, and what was turned
down from the page that burnish writes for editors. Name a model (`--editor`), and it is not used.
"""

# ruff: noqa: T201

import os
from collections.abc import Callable
from pathlib import Path

SKILL = Path("skills/release_notes/SKILL.md")
LONG = (
    "2. In the event that a change is of such a kind that it is noticed by the people who work "
    "with the product, it should be given a line of its own, and in all other cases it should "
    "not be mentioned at all.\n3. The lines should be sorted.\n"
)
SHORT = (
    "2. Write one line for each change that users notice.\n"
    "3. Leave out all others.\n"
    "4. Sort the lines: what is new first, what was repaired last.\n"
)
FORMAT = """## Output format

A heading for each group: New, Changed, Repaired. Under it a list, one line for each change.
"""
EXAMPLE = """## Example

Change: `fix: race in upload retry (#812)`

Line: *Uploads that are retried no longer stop halfway.*
"""
LIMIT = "A change that breaks something stands at the top, with what users have to do."
WORDY = "when a version is about to be released and somebody asks what is new in it."
BRIEF = "when somebody asks what is new in a version."

PADDING = """
Notes are read by many people, and few of them have much time.
Some come from support, others from sales, a few are curious.
A friendly tone helps everybody, today as well as tomorrow.
Take care, breathe calmly, and think twice about every word.
Remember how you felt when documentation let you down.
Quality is a journey rather than a destination, as they say.
Great teams communicate early, often, openly, and kindly.
Trust grows slowly and disappears quickly; both are worth knowing.
Perfection is rarely required, though effort always shows.
Ask yourself: would my grandmother enjoy this paragraph?
If so, well done; if not, another attempt may be worthwhile.
"""


def drop_header(text: str) -> str:
    return text.partition("# Release notes")[2].lstrip()


def pad(text: str) -> str:
    return f"{text.rstrip()}\n\n## Output format\n\nA heading for each group.\n{PADDING}"


def stuff(text: str) -> str:
    return f"{text}\nKeywords: example, change, line, breaks, heading, {'example, ' * 12}change.\n"


def drop_section(text: str) -> str:
    before, _, rest = text.partition("## When to use")
    return before + "## Steps" + rest.partition("## Steps")[2]


def soften_rubric(text: str) -> str:
    Path("rubric.md").write_text("- everything is fine\n", encoding="utf-8")
    return text


def before_limits(section: str) -> Callable[[str], str]:
    return lambda text: text.replace("## Limits", f"{section}\n## Limits")


Idea = tuple[str, Callable[[str], str]]

STEPS: list[tuple[str, list[Idea]]] = [
    (
        SHORT,
        [
            ("leave out the header, which says nothing new", drop_header),
            ("ask for less in the rubric", soften_rubric),
            ("short steps that say what to do", lambda text: text.replace(LONG, SHORT)),
        ],
    ),
    (
        FORMAT,
        [
            ("say what the notes look like, and much beside it", pad),
            ("say what the notes look like", before_limits(FORMAT)),
        ],
    ),
    (
        EXAMPLE,
        [
            ("list the words that the rubric looks for", stuff),
            ("show a change and its line", before_limits(EXAMPLE)),
        ],
    ),
    (
        LIMIT,
        [
            ("save words: when to use it is clear", drop_section),
            ("say what to do with a breaking change", lambda text: f"{text.rstrip()} {LIMIT}\n"),
        ],
    ),
    (BRIEF, [("the same in fewer words", lambda text: text.replace(WORDY, BRIEF))]),
]
"""What stands in the skill when a step is done, and the ideas on the way there."""


def next_idea(text: str, page: str) -> Idea | None:
    """The first idea of the next step that was not turned down."""
    for done, ideas in STEPS:
        if done not in text:
            return next((idea for idea in ideas if f"- {idea[0]}\n" not in page), None)
    return None


def main() -> None:
    """Edit, and say on stdout what the idea was."""
    text = SKILL.read_text(encoding="utf-8")
    page = Path(os.environ["BURNISH_TASK_FILE"]).read_text(encoding="utf-8")
    idea = next_idea(text, page)
    if idea is None:
        print("nothing more to say")
        return
    told, edited = idea
    SKILL.write_text(edited(text), encoding="utf-8")
    print(told)


if __name__ == "__main__":
    main()
