"""YAML and JSON are read as plain data, with their lines, and written back unharmed."""

from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, FileTrouble
from burnish.system import YamlTree, read_tree

DOCUMENT = """\
# an agent
name: "toy"  # quoted

budget:
  max_trials: 12
  'quoted key': yes

phases:
  # first
  - name: numbers
    rate: 0.5
  - name: 'words'
    text: |
      hello
        there
8080: port
"""


def tree_of(tmp_path: Path, text: str, name: str = "toy.yaml") -> YamlTree:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_tree(path)


def refused(tmp_path: Path, text: str, name: str = "toy.yaml") -> str:
    with pytest.raises(ConfigError) as caught:
        tree_of(tmp_path, text, name)
    return str(caught.value)


def test_the_data_is_plain(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, DOCUMENT)
    assert tree.data == {
        "name": "toy",
        "budget": {"max_trials": 12, "quoted key": "yes"},
        "phases": [
            {"name": "numbers", "rate": 0.5},
            {"name": "words", "text": "hello\n  there\n"},
        ],
        "8080": "port",
    }
    assert type(tree.data) is dict
    assert type(tree.data["name"]) is str


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1F", 31),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("true", True),
        ("~", None),
        ("", None),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T12:00:00+01:00", "2026-01-31T12:00:00+01:00"),
        ("!!str 5", "5"),
        ("&a [1, 2]", [1, 2]),
        ("'${VAR}'", "${VAR}"),
    ],
)
def test_scalars_become_python_values(tmp_path: Path, text: str, value: object) -> None:
    data = tree_of(tmp_path, f"a: {text}\n").data
    assert isinstance(data, dict)
    assert data["a"] == value
    assert type(data["a"]) is type(value)


def test_aliases_and_merges_are_unfolded(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, "a: &a {x: 1}\nb: *a\nc:\n  <<: *a\n  y: 2\n")
    assert tree.data == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}
    assert tree.line_of(["c", "x"]) == 3
    assert tree.line_of(["c", "y"]) == 5


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("name",), 2),
        (("budget", "max_trials"), 5),
        (("budget", "quoted key"), 6),
        (("phases", 0), 10),
        (("phases", 1, "name"), 12),
        (("phases", 1, "text"), 13),
        (("8080",), 16),
        (("phases", 2), None),
        (("budget", "missing"), None),
        (("name", "deeper"), None),
    ],
)
def test_each_value_knows_its_line(
    tmp_path: Path, path: tuple[str | int, ...], line: int | None
) -> None:
    assert tree_of(tmp_path, DOCUMENT).line_of(path) == line


@pytest.mark.parametrize(
    "text",
    [
        DOCUMENT,
        "a:\n- 1\n- 2\nb:\n    c: 3\n    d:\n        e: 4\n",
        "a:\n    - x\n    - y:\n        z: 1\n",
        "---\nflow: [1, 2, 3]\nmap: {a: 1, b: 2}\n",
        "steps:\r\n  - b  # why\r\n",
        f'long: "{"word " * 100}"\n',
        "# only a comment\n",
        "when: 2026-01-31\nhex: 0x1F\nbig: 1_000\n",
        "",
    ],
)
def test_what_was_read_is_written_back_the_same(tmp_path: Path, text: str) -> None:
    assert tree_of(tmp_path, text).dump() == text


def test_json_is_read_with_its_lines(tmp_path: Path) -> None:
    text = '{\n\t"a": {\n\t\t"b": [1, "\\ud83d\\ude00"]\n\t},\n\t"date": "2026-01-31"\n}\n'
    tree = tree_of(tmp_path, text, "toy.json")
    assert tree.data == {"a": {"b": [1, "😀"]}, "date": "2026-01-31"}
    assert tree.line_of(["a", "b", 0]) == 3
    assert tree.line_of(["date"]) == 5


def test_json_is_written_with_its_indent(tmp_path: Path) -> None:
    text = '{\n  "a": [\n    1,\n    "é"\n  ]\n}\n'
    assert tree_of(tmp_path, text, "toy.json").dump() == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: [1\n", "toy.yaml:3:1: not valid YAML"),
        ("a: 1\n\tb: 2\n", "toy.yaml:2:1: not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", "toy.yaml:3:1: key 'a' appears twice"),
        ("1: x\n'1': y\n", "key '1' appears twice"),
        ("a: 1\n---\nb: 2\n", "toy.yaml:2:1: not valid YAML"),
        ("x: 1\na: !!python/object/apply:os.system ['true']\n", "toy.yaml:2: the tag !!python/"),
        ("a: !secret x\n", "toy.yaml:1: the tag !secret is not allowed"),
        ("a: !!binary aGk=\n", "toy.yaml:1: a value of type bytes is not allowed"),
        ("a: !!bool maybe\n", "does not fit its tag"),
        ("? [a, b]\n: c\n", "a key is not a single text"),
        ("a: 2026-13-45\n", "toy.yaml: not valid YAML: month must be"),
        ("a: \x01\n", "toy.yaml: not valid YAML"),
        ("[\n" * 1500, "nested too deeply"),
        ("&a\nb: *a\n", "an alias contains itself"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, text)


def test_aliases_that_explode_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "unfold into too much" in refused(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,\n "b": }', "toy.json:2:7: not valid JSON"),
        ('{"a": 1,\n\t"a": 2}', "toy.json:2:2: key 'a' appears twice"),
    ],
)
def test_wrong_json_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, text, "toy.json")


def test_a_secret_under_a_repeated_key_is_not_shown(tmp_path: Path) -> None:
    assert "hunter2" not in refused(tmp_path, "password: hunter2\npassword: hunter22\n")


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(21 * 1024 * 1024)
    with pytest.raises(ConfigError, match="21 MB is too large"):
        read_tree(path)


def test_a_missing_file_is_file_trouble(tmp_path: Path) -> None:
    with pytest.raises(FileTrouble, match="it does not exist"):
        read_tree(tmp_path / "missing.yaml")


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path: Path) -> None:
    assert tree_of(tmp_path, "\ufeffa: 1\n").data == {"a": 1}
    assert tree_of(tmp_path, '\ufeff{"a": 1}', "toy.json").data == {"a": 1}
