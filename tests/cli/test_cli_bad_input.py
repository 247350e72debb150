"""Bad input: one clear message with place and remedy, exit code 1, nothing changed on disk."""

from pathlib import Path

import pytest

from tests.cli.console import Burnish, refused, tree

pytestmark = pytest.mark.slow

FILES = {
    "unknown key": ("kind: toy\nworl: {}\n", "bad.yaml:2 worl", "did you mean 'world'?"),
    "wrong type": ("kind: toy\nworld: {train: many}\n", "bad.yaml:2 world.train", "'many'"),
    "nested typo": ("kind: toy\nbudget:\n  max_usdd: 1\n", "bad.yaml:3", "'max_usd'"),
    "empty": ("", "bad.yaml: the file is empty", "known kinds: agent, command, framework"),
    "only a comment": ("# nothing\n", "bad.yaml: the file is empty"),
    "syntax": ("kind: toy\nworld: [1, 2\n", "bad.yaml:3", "not valid YAML"),
    "tab": ("kind: toy\nworld:\n\ttrain: 3\n", "bad.yaml:3", "indent with spaces"),
    "twice": ("kind: toy\nkind: toy\n", "bad.yaml:2", "'kind' appears twice"),
    "no kind": ("world: {}\n", "bad.yaml kind: required", "known kinds: agent, command, framework"),
    "unknown kind": ("kind: toi\n", "bad.yaml:1 kind: unknown kind 'toi'", "did you mean 'toy'?"),
    "kind of a wrong type": ("kind: [toy]\n", "bad.yaml:1 kind: expected text, found a list"),
    "a list": ("- kind: toy\n", "bad.yaml: expected keys with values", "found a list"),
    "only a text": ("hello", "bad.yaml: expected keys with values", "found text"),
    "not a number": ("kind: toy\nbudget: {max_usd: .nan}\n", "budget.max_usd", "finite"),
    "infinity": ("kind: toy\nbudget: {max_minutes: .inf}\n", "budget.max_minutes", "finite"),
    "negative": ("kind: toy\nbudget: {max_usd: -1}\n", "budget.max_usd", "more than 0"),
    "zero": ("kind: toy\nconcurrency: 0\n", "bad.yaml:2 concurrency: expected at least 1"),
    "huge": ("kind: toy\nworld: {train: 1000000000000}\n", "world.train: expected at most"),
    "huge concurrency": ("kind: toy\nconcurrency: 1000000000\n", "expected at most 10000"),
    "a share above one": ("kind: toy\nworld: {noise: 7}\n", "world.noise: expected at most 1"),
    "unknown metric": ("kind: toy\nbudget: {required_metrics: [x]}\n", "no metric 'x'"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused(burnish: Burnish, tmp_path: Path, case: str) -> None:
    content, *words = FILES[case]
    (tmp_path / "bad.yaml").write_text(content, encoding="utf-8")
    before = tree(tmp_path)
    refused(burnish("optimize", "bad.yaml"), *words)
    assert tree(tmp_path) == before
    assert burnish("runs", "list").out.startswith("no runs yet")


def test_everything_wrong_is_said_at_once(burnish: Burnish, tmp_path: Path) -> None:
    lines = ["kind: toy", "worl: {}", "world: {train: 0, noise: x}", "budget: {max_usd: -1}"]
    (tmp_path / "bad.yaml").write_text("\n".join(lines), encoding="utf-8")
    said = burnish("optimize", "bad.yaml")
    refused(said, "bad.yaml:2 worl", "bad.yaml:3 world.train", "world.noise", "bad.yaml:4 budget")
    assert len(said.err.splitlines()) == 4


def test_json_is_read_and_its_errors_have_a_place(burnish: Burnish, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"kind": "toy",}', encoding="utf-8")
    refused(burnish("optimize", "a.json"), "a.json:1:1", "not valid JSON")
    (tmp_path / "a.json").write_text('{"kind": "toy", "kind": "toy"}', encoding="utf-8")
    refused(burnish("optimize", "a.json"), "a.json:1", "appears twice")
    (tmp_path / "a.json").write_text('{"kind": "toy", "worl": 1}', encoding="utf-8")
    refused(burnish("optimize", "a.json"), "did you mean 'world'?")
    (tmp_path / "a.json").write_text('{"kind": "toi"}', encoding="utf-8")
    refused(burnish("optimize", "a.json"), "unknown kind 'toi'")


def test_files_that_cannot_be_read(burnish: Burnish, tmp_path: Path) -> None:
    refused(burnish("optimize", "nope.yaml"), "nope.yaml", "does not exist", "Check the path")
    refused(burnish("optimize", "."), "this is a folder, not a file")
    (tmp_path / "latin.yaml").write_bytes(b"kind: t\xff")
    refused(burnish("optimize", "latin.yaml"), "not UTF-8", "byte 7")


FLAGS = {
    "--max-usd -1": "--max-usd: expected more than 0",
    "--max-usd nan": "--max-usd: expected a finite number",
    "--max-usd inf": "--max-usd: expected a finite number",
    "--max-usd 0": "--max-usd: expected more than 0",
    "--max-minutes -2": "--max-minutes: expected more than 0",
    "--max-trials 0": "--max-trials: expected at least 1",
    "--max-tokens -5": "--max-tokens: expected at least 1",
    "--concurrency 0": "--concurrency: expected at least 1",
    "--concurrency 99999999": "--concurrency: expected at most",
    "--score-threshold 2": "--score-threshold: expected at most 1",
    "--concurrency x": "--concurrency",
    "--max-trials 1.5": "--max-trials",
    "--max-trails 4": "--max-trials",
    "--bogus": "--bogus",
    "--progress loud": "--progress: 'loud' is not one of: auto, live, lines, json, holodeck, none",
    "--resume a --fork b": "--resume and --fork do not go together",
    "--resume a -o b": "-o has no effect",
    "--retry-missing": "--fork RUN",
    "--fork nope": "there is no run 'nope'",
    "--resume nope": "there is no run 'nope'",
    "--resume": "requires an argument",
    "second.yaml": "second.yaml",
}


@pytest.mark.parametrize("flags", FLAGS)
def test_bad_flags_are_refused(burnish: Burnish, toy: Path, flags: str) -> None:
    before = tree(toy.parent)
    refused(burnish("optimize", str(toy), *flags.split()), FLAGS[flags])
    assert tree(toy.parent) == before


def test_several_bad_flags_are_said_at_once(burnish: Burnish, toy: Path) -> None:
    said = burnish("optimize", str(toy), "--max-usd", "-1", "--max-trials", "0")
    refused(said, "--max-usd", "--max-trials")


@pytest.mark.parametrize("args", ["optimise x", "runs lst", "optimize", "runs show", "runs rm"])
def test_a_command_line_that_makes_no_sense_exits_with_one(burnish: Burnish, args: str) -> None:
    refused(burnish(*args.split()), "see `burnish")


def test_bad_variables_are_refused(
    burnish: Burnish, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_MAX_TRIALS", "ten")
    monkeypatch.setenv("BURNISH_MAX_USD", "nan")
    monkeypatch.setenv("BURNISH_CONCURRENCY", "-1")
    said = burnish("optimize", str(toy))
    refused(said, "$BURNISH_MAX_TRIALS", "'ten'", "$BURNISH_MAX_USD", "$BURNISH_CONCURRENCY")


def test_an_output_folder_that_is_taken_or_cannot_be(burnish: Burnish, toy: Path) -> None:
    (toy.parent / "taken").mkdir()
    (toy.parent / "taken" / "mine.txt").write_text("mine", encoding="utf-8")
    before = tree(toy.parent)
    refused(burnish("optimize", str(toy), "-o", "taken"), "taken exists already", "-o")
    refused(burnish("optimize", str(toy), "-o", "toy.yaml"), "exists already")
    refused(burnish("optimize", str(toy), "-o", "toy.yaml/run"), "toy.yaml", "-o")
    assert tree(toy.parent) == before


def test_a_run_that_is_not_there(burnish: Burnish, toy: Path) -> None:
    for command in ("show", "resume", "report", "rm"):
        refused(burnish("runs", command, "nope"), "there is no run 'nope'", "burnish runs list")
    refused(burnish("runs", "show", ""), "there is no run ''")
    refused(burnish("runs", "compare", "nope", "nope"), "there is no run 'nope'")


def test_runs_with_the_same_id_are_named_by_their_folders(burnish: Burnish, toy: Path) -> None:
    for folder in ("one/same", "two/same"):
        assert burnish("optimize", str(toy), "-q", "-o", folder, "--max-trials", "1").code == 0
    folders = (str(Path("one/same").resolve()), str(Path("two/same").resolve()))
    refused(burnish("runs", "show", "same"), "name its folder", *folders)
    assert burnish("runs", "show", "two/same").code == 0


def test_an_ambiguous_beginning_names_the_runs(burnish: Burnish, toy: Path) -> None:
    for name in ("run-a", "run-b"):
        assert burnish("optimize", str(toy), "-q", "-o", name, "--max-trials", "1").code == 0
    refused(burnish("runs", "show", "run"), "run-a", "run-b", "more of the id")
    assert burnish("runs", "show", "run-a").code == 0
