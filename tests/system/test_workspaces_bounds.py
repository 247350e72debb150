"""What an edit may do, by snapshots and texts alone."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.system.workspaces import (
    Bounds,
    Entry,
    Snapshot,
    count_changed_lines,
    edit_violations,
    path_problem,
    pattern_problem,
    proposal_violations,
    run_violations,
    shown,
    summarize_diff,
)
from burnish.system.workspaces.snapshots import covers, matches

BOUNDS = Bounds(
    include=("skills/**/*.md", "config.yaml"),
    exclude=("skills/old",),
    protect=("skills/fixed.md", "score.py"),
    scratch=("work",),
    file_types=(".md", ".yaml"),
    max_files=2,
    max_changed_lines=4,
)
START = {
    "skills/a/SKILL.md": b"one\ntwo\n",
    "skills/fixed.md": b"rules\n",
    "config.yaml": b"a: 1\n",
    "score.py": b"print(1)\n",
}


def entries(contents: dict[str, bytes], **special: Entry) -> Snapshot:
    found = {
        p: Entry(kind="file", mode=0o644, digest=repr(c), size=len(c)) for p, c in contents.items()
    }
    for path in contents:
        parts = path.split("/")
        for end in range(1, len(parts)):
            found["/".join(parts[:end])] = Entry(kind="folder", mode=0o755)
    return Snapshot(entries={**found, **special})


def broken(after: dict[str, bytes | None], **special: Entry) -> list[tuple[str, str]]:
    new = {p: c for p, c in {**START, **after}.items() if c is not None}
    found = edit_violations(BOUNDS, entries(START), entries(new, **special), old=START, new=new)
    return [(v.kind, v.path) for v in found]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("a.md", "a.md", True),
        ("a.md", "x/a.md", False),
        ("A.md", "a.md", False),
        ("*.md", "x/a.md", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "x/y/a.md", True),
        ("x/**", "x/y/a.md", True),
        ("x/**", "x", False),
        ("x/", "x/a", True),
        ("./x/*", "x/a", True),
        ("x/**/z", "x/z", True),
        ("x/**/z", "x/yz", False),
        ("x?.[ch]", "xy.c", True),
        ("[!a]b", "ab", False),
        ("[!a]b", "cb", True),
        ("*", "line\nbreak", True),
        ("a+(b).md", "a+(b).md", True),
        ("**", "any/thing", True),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(path, [pattern]) is expected


def test_a_folder_that_is_named_covers_what_is_in_it() -> None:
    assert covers(["work"], "work/deep/file")
    assert covers(["**/cache"], "a/cache/b")
    assert not covers(["work"], "workshop/file")


@pytest.mark.parametrize("pattern", ["", "/", "/etc/*", "../x", "a/../b", "~/x", "a\\b"])
def test_patterns_that_leave_the_workspace_are_refused(pattern: str) -> None:
    assert pattern_problem(pattern)
    assert not pattern_problem("a/**/*.md")


@given(st.text(max_size=30))
def test_a_path_without_a_problem_stays_inside(path: str) -> None:
    if not path_problem(path):
        parts = path.split("/")
        assert all(part not in ("", ".", "..") for part in parts)
        assert "\0" not in path
        assert shown(path).isprintable()


def test_an_edit_within_its_bounds() -> None:
    assert broken({"skills/a/SKILL.md": b"one\n2\n", "skills/new/deep/x.md": b"hello\n"}) == []
    assert broken({"config.yaml": None}) == []
    assert broken({"work/log": b"\0", "work/deep/er": b"x"}) == []


def test_files_outside_are_refused() -> None:
    assert broken({"notes.md": b"x"}) == [("outside", "notes.md")]
    assert broken({"skills/old/x.md": b"x"}) == [
        ("outside", "skills/old"),
        ("outside", "skills/old/x.md"),
    ]
    assert broken({"Config.yaml": b"x"})[0] == ("outside", "Config.yaml")


def test_what_is_not_the_candidates_is_tampering() -> None:
    assert broken({"score.py": b"print(9)\n"}) == [("tampering", "score.py")]
    assert broken({"score.py": None}) == [("tampering", "score.py")]
    assert broken({"skills/fixed.md": b"no rules\n"}) == [("tampering", "skills/fixed.md")]
    other = Entry(kind="file", mode=0o755, digest=repr(START["score.py"]), size=9)
    assert broken({}, **{"score.py": other}) == [("tampering", "score.py")]


def test_renaming_is_seen_for_what_it_is() -> None:
    found = broken({"score.py": None, "skills/s.md": START["score.py"]})
    assert found == [("tampering", "score.py")]
    moved = {**START, "other.txt": START["config.yaml"]}
    del moved["config.yaml"]
    found = edit_violations(BOUNDS, entries(START), entries(moved), old=START, new=moved)
    assert [v.kind for v in found] == ["outside"]
    assert "renamed config.yaml to" in found[0].message


def test_links_modes_and_kinds_are_refused() -> None:
    link = Entry(kind="link", digest="x", size=4)
    assert broken({}, **{"config.yaml": link}) == [("link", "config.yaml")]
    hard = Entry(kind="file", mode=0o644, digest="x", size=4, links=2)
    assert broken({}, **{"config.yaml": hard}) == [("link", "config.yaml")]
    folder = Entry(kind="folder", mode=0o755)
    assert broken({}, **{"config.yaml": folder}) == [("link", "config.yaml")]
    mode = Entry(kind="file", mode=0o755, digest=repr(START["config.yaml"]), size=5)
    assert broken({}, **{"config.yaml": mode}) == [("mode", "config.yaml")]
    new = Entry(kind="file", mode=0o755, digest=repr(b"x"), size=1)
    assert broken({"skills/x.md": b"x"}, **{"skills/x.md": new}) == [("mode", "skills/x.md")]


def test_binary_content_and_file_types_are_refused() -> None:
    assert broken({"config.yaml": b"a\0b"}) == [("binary", "config.yaml")]
    assert broken({"config.yaml": b"\xff\xfe"}) == [("binary", "config.yaml")]
    bounds = Bounds(include=("**",), file_types=(".md",), max_file_bytes=10)
    new = {"x.py": b"1", "y.md": b"x" * 11}
    found = edit_violations(bounds, entries({}), entries(new), old={}, new=new)
    assert {(v.kind, v.path) for v in found} == {("file_type", "x.py"), ("binary", "y.md")}


def test_names_that_look_the_same_are_refused() -> None:
    for twin in ("skills/a/skill.md", "skills/A/SKILL.md"):
        assert ("name", twin) in broken({twin: b"x"})
    composed, decomposed = "skills/\u00e9.md", "skills/e\u0301.md"
    bounds = Bounds(include=("skills/*.md",))
    new = {composed: b"1", decomposed: b"2"}
    found = edit_violations(bounds, entries({composed: b"1"}), entries(new), old={}, new=new)
    assert [(v.kind, v.path) for v in found] == [("name", decomposed)]


def test_too_much_is_refused() -> None:
    assert broken({"config.yaml": b"b: 1\nc: 2\nd: 3\ne: 4\n"}) == [("changed_lines", "")]
    many = {f"skills/{n}.md": b"" for n in range(3)}
    assert broken({**many}) == [("file_count", "")]


def test_a_run_may_write_to_its_scratch_places_only() -> None:
    after = {**START, "work/out/log": b"x", "config.yaml": b"a: 2\n", "conftest.py": b"x"}
    found = run_violations(BOUNDS, entries(START), entries(after))
    assert [(v.kind, v.path) for v in found] == [
        ("tampering", "config.yaml"),
        ("outside", "conftest.py"),
    ]
    assert str(found[1]) == (
        "conftest.py: a run added it — list it as scratch if the run is meant to write it"
    )


@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        ({"config.yaml": "a: 2\n"}, []),
        ({"config.yaml": None}, []),
        ({"../config.yaml": "x"}, ["outside"]),
        ({"score.py": "x"}, ["tampering"]),
        ({"other.md": "x"}, ["outside"]),
        ({"config.yaml": "a\0"}, ["binary"]),
        ({"config.yaml": "\ud800"}, ["binary"]),
        ({"config.yaml": "1\n2\n3\n4\n"}, ["changed_lines"]),
    ],
)
def test_a_proposal_is_checked_before_it_is_written(
    texts: dict[str, str | None], kinds: list[str]
) -> None:
    assert [v.kind for v in proposal_violations(BOUNDS, texts, old=START)] == kinds


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=14).map("\n".join)


@given(LINES, LINES)
def test_changed_lines_are_counted_as_a_shortest_diff_does(before: str, after: str) -> None:
    count = count_changed_lines(before, after)
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    by_difflib = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    assert count.changed <= len(by_difflib)
    assert count.added - count.removed == len(new) - len(old)
    assert (count.changed == 0) is (before == after)


@given(LINES, LINES)
def test_the_shown_diff_has_exactly_the_lines_that_were_counted(before: str, after: str) -> None:
    summary = summarize_diff({"f": before.encode()}, {"f": after.encode()})
    count = count_changed_lines(before, after)
    body = summary.text.splitlines()[2:]
    assert sum(line.startswith("+") for line in body) == count.added == summary.total.added
    assert sum(line.startswith("-") for line in body) == count.removed
    assert applied(before, summary.text) == after


def applied(before: str, diff: str) -> str:
    """What a diff makes of a text."""
    old, made, at = before.splitlines(keepends=True), list[str](), 0
    rows = diff.splitlines(keepends=True)[2:]
    for number, row in enumerate(rows):
        ends_here = rows[number + 1 : number + 2] == ["\\ No newline at end of file\n"]
        text = row[1:].removesuffix("\n") if ends_here else row[1:]
        if row.startswith("@@"):
            first, _, size = row.split()[1][1:].partition(",")
            begin = int(first) - (size != "0")
            made += old[at:begin]
            at = begin
        elif row[0] in " -":
            assert old[at] == text
            at += 1
        if row[0] in " +":
            made.append(text)
    return "".join([*made, *old[at:]])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_with_any_of_the_usual_ends(end: str) -> None:
    before, after = end.join("abcdef"), end.join("abXdeY")
    count = count_changed_lines(before, after)
    assert (count.added, count.removed) == (2, 2)
    assert count_changed_lines("", end.join("abc") + end).added == 3


def test_content_that_could_not_be_read_is_not_called_binary() -> None:
    new = {"config.yaml": b"a: 2\n"}
    [found] = edit_violations(
        BOUNDS, entries(START), entries({**START, **new}), old=START, new=dict[str, bytes]()
    )
    assert found.message == "its content cannot be read"


def test_very_different_texts_count_every_line() -> None:
    before = "".join(f"{n}\n" for n in range(3000))
    after = "".join(f"x{n}\n" for n in range(3000))
    count = count_changed_lines(before, after)
    assert (count.added, count.removed) == (3000, 3000)


def test_a_few_changes_in_a_long_file_are_few() -> None:
    lines = [f"{n % 7}\n" for n in range(20_000)]
    changed = [*lines]
    changed[3], changed[-3] = "first\n", "last\n"
    assert count_changed_lines("".join(lines), "".join(changed)).changed == 4


def test_a_summary_is_bounded_and_its_counts_are_not() -> None:
    new = {f"{n}.md": b"line\n" * 50 for n in range(20)}
    summary = summarize_diff({}, {**new, "image": b"\0"}, max_chars=500)
    assert summary.truncated
    assert len(summary.text) < 600
    assert "characters left out" in summary.text
    assert summary.total.added == 20 * 50 + 1
    assert summary.files["0.md"].added == 50


def test_a_summary_reads_like_a_diff() -> None:
    summary = summarize_diff({"a": b"1\n2\n", "gone": b"x\n"}, {"a": b"1\n3\n", "new": b"y"})
    assert summary.text == (
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+y\n\\ No newline at end of file\n"
    )
