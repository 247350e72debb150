"""The gates: what each finds, what it leaves alone, and the order they stand in."""

from typing import Any

import pytest

from burnish.delegation.gates import Completion, GateSettings, GateVerdict
from burnish.delegation.loop import ORDER, look, pass_through

LONG = "The sun rose over the quiet hills, and by noon the thermometer showed thirty degrees. "
REPORT = f"# Heat\n\n{LONG * 8}\n"


def completion(files: dict[str, str | bytes] | None = None, **more: Any) -> Completion:
    made = {
        path: text.encode() if isinstance(text, str) else text
        for path, text in (files if files is not None else {"report.md": REPORT}).items()
    }
    more.setdefault("declared", tuple(made))
    more.setdefault("task", "Write a report.")
    more.setdefault("result", "It is written.")
    return Completion(files=made, **more)


PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (1).to_bytes(4) + (1).to_bytes(4)

REJECTED: list[tuple[str, Completion, str]] = [
    ("l0", completion({"a.md": f"{REPORT}\nTBD\n"}), "placeholder token 'TBD'"),
    ("l0", completion({"a.md": "the same line\n" * 9}), "9 times in a row"),
    ("l0", completion({"a.md": REPORT}, earlier_sizes={"a.md": 9000}), "had 9000 before"),
    ("l0", completion({"a.md": "# Heat\n\ntext\n\n# Heat\n"}), "heading 'heat'"),
    ("l0", completion({"a.js": "function f() { return [1; }"}), "'[' too many"),
    ("l0", completion({"a.json": '{"a": NaN}'}), "NaN has no JSON form"),
    ("critique", completion(criticised=True, critique=0.59), "below 0.6"),
    ("critique", completion(criticised=True), "have no critique"),
    ("deliverable_presence", completion(declared=("report.md", "b.md")), "b.md: the file does"),
    ("deliverable_presence", completion({"a.md": " \n"}), "empty"),
    ("deliverable_presence", completion({}), "no plan names one"),
    ("placeholder", completion(result="The result is ???"), "final_result"),
    ("placeholder", completion({"notes.txt": "lorem ipsum"}, declared=()), "notes.txt"),
    ("file", completion({"a.png": PNG}), "one pixel"),
    ("file", completion({"a.csv": "a,b\n"}), "no rows"),
    ("file", completion({"a.docx": "words"}), "not a .docx file"),
    ("deliverable", completion({"a.md": "# Heat\n"}), "the largest has 7"),
    ("syntax_compile", completion({"a.py": "def f(:\n"}), "a.py"),
    ("syntax_compile", completion({"a.yaml": "a: [1\n"}), "a.yaml"),
    ("syntax_compile", completion({"a.md": "```\ncode\n"}), "not closed"),
    ("syntax_compile", completion({"a.csv": "a,b\n1,2,3\n"}), "2 or 3 fields"),
    (
        "schema",
        completion({"a.json": '{"n": "x"}'}, schemas={"a.json": {
            "properties": {"n": {"type": "number"}}}}),
        "is not of type 'number'",
    ),
    ("cross_reference", completion({"a.md": "As [2] says.\n\n## References\n\n[1] One\n"}), "[2]"),
    ("cross_reference", completion({"a.md": "See Figure 3.\n\n![x](x.png)\n"}), "figure 3"),
    (
        "success_criteria",
        completion(open_subtasks=("t1",), settings=GateSettings(strict_criteria=True)),
        "subtask 't1' is open",
    ),
    ("structural_integrity", completion({"a.md": "# A\n\n[b](#b)\n"}), "#b leads to no heading"),
    ("structural_integrity", completion({"a.md": "\n\n".join([LONG] * 5)}), "are repeated"),
    ("structural_integrity", completion({"a.md": "As [1] and (Smith, 2020) say."}), "one style"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gate", "given", "told"), REJECTED, ids=[f"{g}-{t[:20]}" for g, _, t in REJECTED]
)
def test_a_gate_rejects(gate: str, given: Completion, told: str) -> None:
    verdict = look(gate, given)
    assert not verdict.passed
    assert told in verdict.reason


@pytest.mark.parametrize(
    "given",
    [
        completion(),
        completion({"a.py": "# TODO: later\nprint('{{ name }}')\n"}, task="Compute it."),
        completion({"a.json": '{"a": [1, 2]}', "b.csv": "a,b\n1,2\n1,2\n"}, task="Make a file."),
        completion({}, task="What is 2 + 2?"),
        completion({"a.md": "# A\n\n## B c!\n\n[b](#b-c) [1]\n\n## References\n\n1. One\n"
                    + LONG * 8}),
        completion(open_subtasks=("t1",), criticised=True, critique=0.6),
        completion({"a.md": REPORT, "x.bin": b"\0\1"}, declared=("a.md",)),
    ],
)  # fmt: skip
def test_what_is_sound_passes_every_gate(given: Completion) -> None:
    verdicts = [look(gate, given) for gate in ORDER if gate not in ("smoke_test", "eval")]
    assert [verdict.reason for verdict in verdicts if not verdict.passed] == []


async def test_the_chain_ends_at_the_first_rejection() -> None:
    async def fine(_: Completion) -> GateVerdict:
        return GateVerdict(gate="acted")

    acting = {"smoke_test": fine, "eval": fine}
    seen = [v.gate async for v in pass_through(completion({"a.py": "def f(:"}), acting)]
    assert seen == list(ORDER[: ORDER.index("syntax_compile") + 1])
    seen = [v.gate async for v in pass_through(completion(), acting)]
    assert len(seen) == len(ORDER) == 13
    assert ORDER[:6] == (
        "l0", "critique", "deliverable_presence", "placeholder", "file", "deliverable",
    )  # fmt: skip
    assert ORDER[-2:] == ("structural_integrity", "eval")
