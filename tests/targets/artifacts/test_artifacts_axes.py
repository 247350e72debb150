"""Values inside files: put in their places, with everything around them as it was."""

import pytest

from burnish.core.errors import ConfigError
from burnish.core.surfaces import Value
from burnish.system.yaml import value_in
from burnish.targets.artifacts.task import texts_of

YAML = """\
# how it caches
cache:
  size: 8   # entries
  mode: "lru"
waits: [1, 2.5]
8080: on
"""
JSON = '{\n  "a": {\n    "b": 1.5\n  },\n  "c": [\n    true\n  ]\n}\n'


def put(text: str, file: str, **places: Value) -> str:
    axes = {f"{file}#{place.replace('__', '.')}": value for place, value in places.items()}
    return texts_of({file: text, "other.md": "# x", **axes})[file]


def test_comments_order_and_quoting_stay() -> None:
    assert put(YAML, "c.yaml", cache__size=16) == YAML.replace("size: 8 ", "size: 16")
    assert put(YAML, "c.yaml", cache__mode="fifo", waits__1=4) == (
        YAML.replace("lru", "fifo").replace("2.5", "4")
    )


def test_json_stays_json() -> None:
    assert put(JSON, "c.json", a__b=2.5, c__0=False) == (
        JSON.replace("1.5", "2.5").replace("true", "false")
    )


def test_unchanged_values_leave_every_byte_alone() -> None:
    odd = YAML.replace("cache:", "cache:   ").replace("\n", "\r\n")
    assert put(odd, "c.yaml", cache__size=8.0) == odd


def test_a_whole_number_stays_one() -> None:
    assert "size: 9 " in put(YAML, "c.yaml", cache__size=9.0)


def test_files_without_axes_are_as_they_are() -> None:
    assert texts_of({"a#b.md": "text", "c": "d"}) == {"a#b.md": "text", "c": "d"}


@pytest.mark.parametrize("place", ["cache.count", "cache", "waits.7", "waits.x", "cache.size.more"])
def test_a_place_that_is_not_there_is_named(place: str) -> None:
    with pytest.raises(ConfigError, match=rf"c\.yaml#{place}"):
        value_in(YAML, "c.yaml", place)


def test_values_as_they_stand() -> None:
    assert value_in(YAML, "c.yaml", "cache.size") == 8
    assert value_in(YAML, "c.yaml", "waits.1") == 2.5
    assert value_in(JSON, "c.json", "c.0") is True
    assert value_in(YAML, "c.yaml", "8080") in (True, "on")
