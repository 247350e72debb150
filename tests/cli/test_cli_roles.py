"""`burnish roles`: what is shipped, what is in force, and that nobody's edits are lost."""

from pathlib import Path

import pytest

from burnish.models.roles import read_prompt, shipped
from tests.cli.console import Burnish, refused, tree

CANARY = "canary-key-0123456789abcdef"
HOME = Path(".burnish/roles")
FIELDS = {
    "critic": {"current_text", "failing_traces", "previous_gradients", "axis", "labels"},
    "applier": {"current_text", "gradient", "max_chars", "axis"},
}


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()


@pytest.mark.parametrize("role", FIELDS)
def test_a_shipped_prompt_shows_its_fields_and_asks_for_json(role: str) -> None:
    prompt = read_prompt(shipped()[role])
    assert prompt.name == role
    assert prompt.description
    assert set(prompt.fields) == FIELDS[role]
    assert "JSON" in prompt.user
    assert "holdout" not in (prompt.system + prompt.user).lower()
    filled = prompt.messages({name: f"<{name}>" for name in prompt.fields})
    assert all(f"<{name}>" in filled[1].content for name in prompt.fields)
    assert "{{" not in filled[0].content + filled[1].content


def test_list_says_where_each_comes_from(burnish: Burnish) -> None:
    said = burnish("roles", "list")
    assert said.code == 0
    assert said.lines[0].split() == ["role", "version", "from", "state", "description"]
    roles = {line.split()[0]: line for line in said.lines[1:]}
    assert {"applier", "critic"} <= set(roles)
    assert "package as shipped" in " ".join(roles["critic"].split())


def test_list_for_programs(burnish: Burnish) -> None:
    burnish("roles", "install", "critic")
    (HOME / "own.yaml").write_text("name: own\nsystem: s\nuser: u\n")
    found = {record["name"]: record for record in burnish("roles", "list", "--json").records}
    assert found["applier"]["source"] == "package"
    assert found["critic"]["source"] == ".burnish/roles/critic.yaml"
    assert found["critic"]["state"] == "as shipped"
    assert found["own"]["state"] == "your own"


def test_install_never_overwrites(burnish: Burnish) -> None:
    said = burnish("roles", "install")
    assert said.code == 0
    assert (HOME / "critic.yaml").read_bytes() == shipped()["critic"].read_bytes()
    mine = (HOME / "critic.yaml").read_text().replace("You find out", "You, dear friend, find out")
    (HOME / "critic.yaml").write_text(mine)
    again = burnish("roles", "install")
    assert again.code == 0
    assert "kept       .burnish/roles/critic.yaml" in again.out
    assert "--diff" in again.out
    assert (HOME / "critic.yaml").read_text() == mine
    assert "changed" in burnish("roles", "list").out
    shown = burnish("roles", "show", "critic")
    assert shown.lines[0] == "# .burnish/roles/critic.yaml"
    assert "dear friend" in shown.out


def test_install_one(burnish: Burnish) -> None:
    burnish("roles", "install", "critic")
    assert [path.name for path in HOME.iterdir()] == ["critic.yaml"]


def test_diff_shows_what_was_changed_and_writes_nothing(burnish: Burnish, tmp_path: Path) -> None:
    said = burnish("roles", "install", "--diff")
    assert "critic: not installed" in said.out
    assert not HOME.exists()
    burnish("roles", "install")
    assert "critic.yaml is as shipped" in burnish("roles", "install", "--diff", "critic").out
    with (HOME / "critic.yaml").open("a") as file:
        file.write("  top_p: 0.5")
    before = tree(tmp_path)
    said = burnish("roles", "install", "--diff", "critic")
    assert said.lines[:2] == ["--- shipped/critic.yaml", "+++ .burnish/roles/critic.yaml"]
    assert "+  top_p: 0.5" in said.lines
    assert tree(tmp_path) == before


def test_a_newer_shipped_version_is_told(burnish: Burnish) -> None:
    burnish("roles", "install", "critic")
    path = HOME / "critic.yaml"
    path.write_text(path.read_text().replace("version: 3", "version: 2"))
    assert "changed; v3 is shipped" in burnish("roles", "list").out


def test_an_unknown_role_is_refused(burnish: Burnish) -> None:
    refused(burnish("roles", "show", "critik"), "critik", "critic")
    refused(burnish("roles", "install", "critic", "nope"), "nope", "there are: aggregator, applier")
    assert not HOME.exists()


def test_a_broken_prompt_is_told_and_the_others_are_listed(burnish: Burnish) -> None:
    HOME.mkdir(parents=True)
    (HOME / "critic.yaml").write_text("name: critic\nsytem: x\nuser: y\n")
    said = burnish("roles", "list")
    assert said.code == 0
    assert "applier" in said.out
    assert "did you mean 'system'" in said.err
    refused(burnish("roles", "show", "critic"), "critic.yaml:2 sytem")


def test_a_folder_that_cannot_be_made(burnish: Burnish) -> None:
    Path(".burnish").write_text("in the way")
    refused(burnish("roles", "install"), ".burnish")


def test_a_link_that_leads_nowhere_is_kept(burnish: Burnish) -> None:
    HOME.mkdir(parents=True)
    (HOME / "critic.yaml").symlink_to("gone.yaml")
    assert "kept" in burnish("roles", "install", "critic").out
    assert not (HOME / "gone.yaml").exists()


def test_no_key_is_shown(burnish: Burnish, monkeypatch: pytest.MonkeyPatch) -> None:
    second = CANARY[::-1]
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    Path(".env").write_text(f"TEAM_TOKEN={second}\n")
    burnish("roles", "install", "critic")
    path = HOME / "critic.yaml"
    text = path.read_text().replace("You find out", f"Use {CANARY} and {second}. You find out")
    path.write_text(text.replace("description: Reads", f"description: {CANARY} reads"))
    for args in (["list"], ["list", "--json"], ["show", "critic"], ["install", "--diff"]):
        said = burnish("roles", *args)
        assert said.code == 0
        assert CANARY not in said.out + said.err
        assert second not in said.out + said.err
