"""The example of six agents: its files are those of the desk, and one rule is missing.

What its README shows is run with the pages.
"""

import json

from tests.example_copies import example_files
from tests.strategies.graph_world import NODES, cases, instruction

HOME = "multi_node"
GUILTY = "rewrite"


def test_the_desk_has_one_fault() -> None:
    files = example_files(HOME)
    for node in NODES:
        text = files[f"{HOME}/instructions/{node}.md"].decode()
        assert text.strip() == instruction(node, without="wish" if node == GUILTY else "")


def test_customers_are_those_of_the_desk_and_none_is_in_two_splits() -> None:
    files = example_files(HOME)
    rows = [
        json.loads(line)
        for split in ("train", "holdout", "sealed")
        for line in files[f"{HOME}/cases/{split}.jsonl"].splitlines()
    ]
    assert [(row["input"], row["ground_truth"]) for row in rows] == [
        (case.input, case.expected) for case in cases(0, 14)
    ]


def test_every_file_is_small() -> None:
    assert all(len(content.splitlines()) <= 120 for content in example_files(HOME).values())
