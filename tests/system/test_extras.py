"""Extras: the command that installs them, from where burnish came."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from burnish.system.extras import install_command, installed_from, is_importable, requirement


def _distribution(folder: Path, name: str, direct_url: dict[str, Any] | None) -> None:
    home = folder / f"{name}-1.dist-info"
    home.mkdir()
    (home / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    if direct_url is not None:
        (home / "direct_url.json").write_text(json.dumps(direct_url))


REPOSITORY = {
    "url": "https://host.example/burnish.git",
    "vcs_info": {"vcs": "git", "commit_id": "abc"},
}


@pytest.mark.parametrize(
    ("direct_url", "required"),
    [
        (None, "'other[more,most]'"),
        ({"url": "file://FOLDER/checkout", "dir_info": {}}, "'FOLDER/checkout[more,most]'"),
        (
            {"url": "file://FOLDER/my%20checkout", "dir_info": {"editable": True}},
            "-e 'FOLDER/my checkout[more,most]'",
        ),
        ({"url": "file://FOLDER/o.whl", "archive_info": {}}, "'FOLDER/o.whl[more,most]'"),
        ({"url": "file://FOLDER/gone", "dir_info": {}}, "'other[more,most]'"),
        ({"url": "https://host.example/o.whl", "archive_info": {}}, "'other[more,most]'"),
        (REPOSITORY, "'other[more,most] @ git+https://host.example/burnish.git@abc'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    direct_url: dict[str, Any] | None,
    required: str,
) -> None:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "my checkout").mkdir()
    (tmp_path / "o.whl").touch()
    if direct_url is not None:
        direct_url = {**direct_url, "url": direct_url["url"].replace("FOLDER", str(tmp_path))}
    _distribution(tmp_path, "other", direct_url)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert requirement("other", "more", "most") == required.replace("FOLDER", str(tmp_path))


def test_a_package_that_is_not_installed_came_from_nowhere() -> None:
    assert installed_from("no-such-package") is None
    assert requirement("no-such-package") == "no-such-package"


def test_the_command_names_all_extras_at_once() -> None:
    assert install_command("local", "numeric").endswith("[local,numeric]'")


def test_a_module_of_an_absent_package_is_absent() -> None:
    assert is_importable("json.decoder")
    assert not is_importable("no_such_package")
    assert not is_importable("no_such_package.part")
