"""Keys: read from `.env` and the environment, asked for by name, never shown."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.errors import BurnishError, ConfigError, FileTrouble
from burnish.models.dotenv import load_dotenv
from burnish.models.errors import ModelRefused
from burnish.models.providers import BUILT_IN, Provider
from burnish.models.references import ModelRef, key_for, key_reference, missing_key
from burnish.system import Redactor

CANARY = "canary-0123456789abcdef"

LINES = {
    "plain": ("KEY=value", "value"),
    "spaces around": ("  KEY  =  value  ", "value"),
    "exported": ("export KEY=value", "value"),
    "exported with a tab": ("export\tKEY=value", "value"),
    "empty": ("KEY=", ""),
    "only a comment": ("KEY=  # nothing", ""),
    "a comment": ("KEY=value # the key", "value"),
    "a hash inside": ("KEY=va#lue", "va#lue"),
    "a hash first": ("KEY=#value", "#value"),
    "an equals sign inside": ("KEY=a=b==", "a=b=="),
    "spaces inside": ("KEY=two words", "two words"),
    "quotes inside": ('KEY=it\'s "so"', 'it\'s "so"'),
    "single quotes": ("KEY='a # b \\n $X'", "a # b \\n $X"),
    "single quotes and a comment": ("KEY='a' # b", "a"),
    "double quotes": ('KEY="a # b"', "a # b"),
    "escapes": (r'KEY="a\n\t\"b\"\\ \d"', 'a\n\t"b"\\ \\d'),
    "nothing is expanded": ('KEY="${HOME} $HOME `id` $(id)"', "${HOME} $HOME `id` $(id)"),
    "a carriage return": ("KEY=value\r", "value"),
    "a byte order mark": ("\ufeffKEY=value", "value"),
    "the last one counts": ("KEY=first\nKEY=value", "value"),
    "comments and empty lines": ("\n# KEY=other\n\n  # more\nKEY=value\n\n", "value"),
    "not only ASCII": ("KEY=clé", "clé"),
    "a strange line separator": ("KEY=a\u2028b", "a\u2028b"),
}

BAD = {
    "no equals sign": CANARY,
    "no name": f"={CANARY}",
    "a name with a dash": f"{CANARY}=x",
    "a name that is a number": f"1={CANARY}",
    "an open single quote": f"KEY='{CANARY}",
    "an open double quote": f'KEY="{CANARY}',
    "an escaped end": f'KEY="{CANARY}\\"',
    "more after the quotes": f"KEY='a' {CANARY}",
    "a null": f"KEY=\0{CANARY}",
}


def _env(folder: Path, text: str) -> Path:
    path = folder / ".env"
    path.write_bytes(text.encode())
    return path


def _ref(text: str = "openai:gpt-4o", **more: str) -> ModelRef:
    return ModelRef.parse(text, **more)


@pytest.mark.parametrize("case", LINES)
def test_a_line_is_read(case: str, tmp_path: Path) -> None:
    text, value = LINES[case]
    _env(tmp_path, text)
    environ: dict[str, str] = {}
    assert load_dotenv(tmp_path, environ) == ["KEY"]
    assert environ == {"KEY": value}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_refused_without_its_content(case: str, tmp_path: Path) -> None:
    path = _env(tmp_path, f"# first\nGOOD=1\n{BAD[case]}\n")
    environ: dict[str, str] = {}
    with pytest.raises(ConfigError) as refused:
        load_dotenv(tmp_path, environ)
    assert f"{path}:3" in str(refused.value)
    assert CANARY not in str(refused.value)
    assert refused.value.__cause__ is None
    assert environ == {}


def test_every_bad_line_is_told(tmp_path: Path) -> None:
    _env(tmp_path, "a b\nGOOD=1\n'\n")
    with pytest.raises(ConfigError) as refused:
        load_dotenv(tmp_path, {})
    assert [problem.where.rpartition(":")[2] for problem in refused.value.problems] == ["1", "3"]


@given(value=st.text(st.characters(exclude_characters="'\0\n\r", exclude_categories=["Cs"])))
def test_single_quotes_keep_every_character(
    value: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("dotenv")
    _env(folder, f"KEY='{value}'")
    environ: dict[str, str] = {}
    load_dotenv(folder, environ)
    assert environ == {"KEY": value}


def test_the_environment_is_stronger_even_where_it_is_empty(tmp_path: Path) -> None:
    _env(tmp_path, "ONE=file\nTWO=file\nTHREE=file\n")
    environ = {"ONE": "mine", "TWO": ""}
    assert load_dotenv(tmp_path, environ) == ["THREE"]
    assert environ == {"ONE": "mine", "TWO": "", "THREE": "file"}


def test_it_is_looked_for_upwards_as_far_as_the_repository(tmp_path: Path) -> None:
    _env(tmp_path, "FAR=1")
    inside = tmp_path / "repository" / "deep" / "deeper"
    inside.mkdir(parents=True)
    assert load_dotenv(inside, {}) == ["FAR"]
    (tmp_path / "repository" / ".git").mkdir()
    assert load_dotenv(inside, {}) == []
    _env(tmp_path / "repository", "NEAR=1")
    assert load_dotenv(inside, {}) == ["NEAR"]
    _env(inside, "NEAREST=1")
    assert load_dotenv(inside, {}) == ["NEAREST"]


def test_a_folder_called_dotenv_is_none(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".env").mkdir()
    assert load_dotenv(tmp_path, {}) == []


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"KEY=\xff\xfe")
    with pytest.raises(FileTrouble, match="not UTF-8"):
        load_dotenv(tmp_path, {})


@pytest.mark.parametrize(
    "row", [row for row in BUILT_IN if row.key_variables], ids=lambda row: row.name
)
def test_a_provider_has_its_usual_variable(row: Provider) -> None:
    ref = _ref(f"{row.name}:model")
    assert key_for(ref, {row.key_variables[0]: f" {CANARY}\n"}) == CANARY
    assert key_for(ref, {row.key_variables[0]: "  "}) is None
    assert key_for(ref, {}) is None


@pytest.mark.parametrize("text", ["ollama:llama3", "local:smollm2"])
def test_some_need_no_key(text: str) -> None:
    assert key_for(_ref(text), {"OPENAI_API_KEY": CANARY}) is None


def test_google_has_two_variables() -> None:
    ref = _ref("google:gemini-2.5-flash")
    assert key_for(ref, {"GEMINI_API_KEY": "second"}) == "second"
    assert key_for(ref, {"GEMINI_API_KEY": "second", "GOOGLE_API_KEY": "first"}) == "first"
    assert "GOOGLE_API_KEY or GEMINI_API_KEY" in str(missing_key(ref))


def test_a_model_may_name_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = _ref(api_key="${TEAM_KEY}")
    assert key_for(ref, {"TEAM_KEY": CANARY, "OPENAI_API_KEY": "other"}) == CANARY
    monkeypatch.setenv("TEAM_KEY", CANARY)
    assert key_for(ref) == CANARY


@pytest.mark.parametrize("environ", [{}, {"TEAM_KEY": ""}, {"OPENAI_API_KEY": CANARY}])
def test_a_named_variable_that_is_missing_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(ModelRefused) as refused:
        key_for(_ref(api_key="${TEAM_KEY}"), environ)
    told = str(refused.value)
    assert "openai:gpt-4o" in told
    assert "TEAM_KEY" in told
    assert ".env" in told
    assert CANARY not in told


def test_what_to_do_without_a_key() -> None:
    told = str(missing_key(_ref("anthropic:claude-sonnet-4-6")))
    assert "set ANTHROPIC_API_KEY in the environment or in .env" in told
    assert "api_key: ${NAME}" in str(missing_key(_ref("ollama:llama3")))


@pytest.mark.parametrize("text", [f"${{{CANARY}", f"{CANARY}${{NAME}}", "${1}", "$NAME"])
def test_what_is_neither_a_key_nor_a_variable_is_refused(text: str) -> None:
    for refusing in (
        lambda: key_reference(text, "agent.yaml:3 model.api_key"),
        lambda: key_for(_ref(api_key=text), {"NAME": "x"}),
    ):
        with pytest.raises(BurnishError) as refused:
            refusing()
        assert "put it in .env and write ${NAME}" in str(refused.value)
        assert CANARY not in str(refused.value)
    with pytest.raises(ConfigError, match=r"agent\.yaml:3 model\.api_key"):
        key_reference(text, "agent.yaml:3 model.api_key")


def test_a_key_in_plain_text_is_a_variable_from_then_on() -> None:
    """So that no file, error or report ever shows it."""
    reference = key_reference(CANARY, "here")
    try:
        assert CANARY not in reference
        assert key_for(_ref(api_key=reference)) == CANARY
        assert Redactor.from_environment().text(f"sent {CANARY}") == "sent [redacted]"
    finally:
        del os.environ[reference[2:-1]]


def test_a_reference_is_kept() -> None:
    assert key_reference(" ${NAME} ", "here") == "${NAME}"
    assert key_reference("", "here") == ""
