"""Names are the field's: unique classes, variables after what they are, nouns for modules."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "burnish"
VAGUE = {"told", "found", "given", "said", "wanted", "asked", "kept", "known"}
"""How a value came to be, where a name should say what it is."""
MOST_VAGUE = 0.005
"""Their share of all bound names."""
NO_MODULES = {
    "asking", "building", "deciding", "describing", "desk", "driving", "finding", "gathering",
    "heats", "helpers", "judging", "keeping", "launching", "looking", "making", "manners",
    "opening", "placing", "planning", "probing", "proposing", "reading", "refining", "running",
    "searching", "showing", "speaking", "standing", "strands", "talking", "telling", "trying",
    "utils", "walking", "watching", "working", "writing",
}  # fmt: skip
"""Gerunds and metaphors for which the field has a noun."""
SCHEMAS = {
    "Assignment", "Claim", "CommandBlock", "Edit", "EditRequest", "EventShape", "FileShape",
    "Limits", "Pair", "PythonBlock", "Severity", "Structure", "Verdict",
}  # fmt: skip
"""Names that others read: titles of schemas that are published or sent to models, and
`burnish.plugins.Verdict`, which is not the verdict of a gate."""


@pytest.fixture(scope="module")
def trees() -> Mapping[Path, ast.Module]:
    """Every module by its path, parsed once."""
    files = sorted(SOURCE.rglob("*.py"))
    return {f.relative_to(SOURCE): ast.parse(f.read_text(encoding="utf-8")) for f in files}


def bound_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def test_no_two_public_classes_share_a_name(trees: Mapping[Path, ast.Module]) -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file, tree in trees.items():
        # compat has the names that the original systems have
        if file.parts[0] == "compat":
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(file))
    shared = {name: files for name, files in homes.items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in SCHEMAS} == {}


def test_variables_are_named_after_what_they_are(trees: Mapping[Path, ast.Module]) -> None:
    names = Counter(name for tree in trees.values() for name in bound_names(tree))
    vague = sum(names[word] for word in VAGUE)
    assert vague / names.total() <= MOST_VAGUE, {word: names[word] for word in VAGUE}


def test_modules_are_named_by_nouns() -> None:
    assert [str(file) for file in SOURCE.rglob("*.py") if file.stem in NO_MODULES] == []
