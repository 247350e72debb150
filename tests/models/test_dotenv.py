"""What a `.env` may decide: variables, but not where a key of the user's own environment goes."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.models.dotenv import ignored_in, load_dotenv, origin_of
from burnish.models.endpoints import endpoint_of
from burnish.models.errors import ModelRefused
from burnish.models.health import HealthSite, examine
from burnish.models.providers import BUILT_IN
from burnish.models.references import ModelRef, key_for
from burnish.targets.agent.blocks import McpTool
from burnish.targets.agent.document_limits import full_address
from burnish.targets.agent.tools import mcp_server
from burnish.targets.callables.http import HttpTarget
from burnish.targets.callables.programs import CommandTarget
from burnish.targets.prompts.stores import prompt_store

EVIL = "http://127.0.0.1:9/v1"
MINE = "a-key-of-the-user-0123456789"
THEIRS = "a-key-of-the-folder-0123456789"

WITH_KEYS = {
    name: row.key_variables[0]
    for row in BUILT_IN
    for name in row.address_variables
    if row.key_variables
}
WITHOUT_KEYS = [name for row in BUILT_IN for name in row.address_variables if not row.key_variables]
OF_OTHERS = {
    "WANDB_BASE_URL": "WANDB_API_KEY",
    "MLFLOW_TRACKING_URI": "MLFLOW_TRACKING_TOKEN",
    "LANGFUSE_HOST": "LANGFUSE_SECRET_KEY",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "OTEL_EXPORTER_OTLP_HEADERS",
    "OPENAI_API_BASE": "OPENAI_API_KEY",
    "LANGCHAIN_ENDPOINT": "LANGSMITH_API_KEY",
    "GEMINI_API_BASE": "GOOGLE_API_KEY",
    "GH_HOST": "GITHUB_TOKEN",
    "SHOP_URL": "SHOP_PASSWORD",
    # Not by their names, but their values are addresses.
    "OPENAI_GATEWAY": "OPENAI_API_KEY",
    "LANGFUSE_BASEURL": "LANGFUSE_SECRET_KEY",
    "COMET_URL_OVERRIDE": "COMET_API_KEY",
    "PHOENIX_COLLECTOR_ENDPOINT": "PHOENIX_API_KEY",
}
NEVER = (
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "WSS_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"),
    *("SSLKEYLOGFILE", "OTEL_EXPORTER_OTLP_CERTIFICATE", "NODE_EXTRA_CA_CERTS", "NETRC"),
    *("OPENAI_CUSTOM_HEADERS", "AWS_CONFIG_FILE", "HOSTALIASES", "GOOGLE_CLOUD_UNIVERSE_DOMAIN"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "ANTHROPIC_CONFIG_DIR",
        "ANTHROPIC_IDENTITY_TOKEN_FILE",
    ),
    *("PATH", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF"),
    *("NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "MAKEFILES", "BROWSER", "DOCKER_HOST"),
    # Data of botocore say where a service is, and its plug-ins are imported.
    *("AWS_DATA_PATH", "BOTO_CONFIG", "BOTOCORE_EXPERIMENTAL__PLUGINS"),
    # They lead a connection elsewhere, also one whose address names its host.
    *("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE", "PGSYSCONFDIR", "PGSSLMODE", "PGPASSFILE"),
    # It leads the keys of other services there, and its file names a command that makes a key.
    *("LANGSMITH_GATEWAY", "LANGSMITH_CONFIG_FILE", "LANGSMITH_PROFILE"),
    *("MLFLOW_TRACKING_SERVER_CERT_PATH", "GOOGLE_AUTH_WEBAUTHN_PLUGIN", "COVERAGE_PROCESS_START"),
    "DASK_DISTRIBUTED__WORKER__PRELOAD",
    *("BURNISH_HOME", "BURNISH_SANDBOX", "BURNISH_ADDRESS", "BURNISH_REFLECTOR"),
)

pytestmark = pytest.mark.usefixtures("own_variables")


def _env(folder: Path, **values: str) -> Path:
    path = folder / ".env"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


@pytest.mark.parametrize("address", [*WITH_KEYS, "LLM_BASE_URL"])
def test_an_address_alone_is_refused(address: str, tmp_path: Path) -> None:
    """Whether or not the user's environment has a key: a library may know another one."""
    path = _env(tmp_path, **{address: EVIL})
    key = WITH_KEYS.get(address, "LLM_API_KEY")
    for environ in ({}, {key: MINE}):
        before = dict(environ)
        with pytest.raises(ConfigError) as refused:
            load_dotenv(tmp_path, environ)
        assert environ == before
        assert str(path) in str(refused.value)
        assert f"write {key}" in str(refused.value)
        assert f"set {address} in your environment" in str(refused.value)


def test_small_letters_are_the_same_address(tmp_path: Path) -> None:
    """On Windows, and for libraries that read settings in any case."""
    _env(tmp_path, openai_base_url=EVIL)
    with pytest.raises(ConfigError, match="openai_base_url has no key of its own"):
        load_dotenv(tmp_path, {"OPENAI_API_KEY": MINE})


@pytest.mark.parametrize("address", WITHOUT_KEYS)
def test_an_address_that_takes_a_login_is_refused(address: str, tmp_path: Path) -> None:
    _env(tmp_path, **{address: EVIL})
    with pytest.raises(ConfigError, match=f"set {address} in your environment"):
        load_dotenv(tmp_path, {})


@pytest.mark.parametrize("address", [*WITH_KEYS, "LLM_BASE_URL"])
def test_an_address_and_its_key_belong_together(address: str, tmp_path: Path) -> None:
    """A key of the environment is for another address."""
    key = WITH_KEYS.get(address, "LLM_API_KEY")
    _env(tmp_path, **{address: EVIL, key: THEIRS})
    environ = {key: MINE}
    load_dotenv(tmp_path, environ)
    assert (environ[address], environ[key]) == (EVIL, THEIRS)


def test_blanks_are_no_key(tmp_path: Path) -> None:
    """A library would go on to a login of the user."""
    _env(tmp_path, AWS_ENDPOINT_URL=EVIL, AWS_BEARER_TOKEN_BEDROCK='" "')
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL has no key of its own"):
        load_dotenv(tmp_path, {})


def test_a_second_key_of_the_environment_is_not_used_either(tmp_path: Path) -> None:
    _env(tmp_path, GOOGLE_GEMINI_BASE_URL=EVIL, GEMINI_API_KEY=THEIRS)
    environ = {"GOOGLE_API_KEY": MINE}
    load_dotenv(tmp_path, environ)
    assert MINE not in environ.values()


@pytest.mark.parametrize(
    ("address", "key", "other"),
    [
        ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_CUSTOM_HEADERS"),
        ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"),
        ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
        ("AWS_ENDPOINT_URL", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
    ],
)
def test_what_else_the_library_would_send_is_not_used_either(
    address: str, key: str, other: str, tmp_path: Path
) -> None:
    _env(tmp_path, **{address: EVIL, key: THEIRS})
    environ = {key: MINE, other: f"x-api-key: {MINE}"}
    load_dotenv(tmp_path, environ)
    assert (environ[address], environ[key]) == (EVIL, THEIRS)
    assert MINE not in str(environ)


@pytest.mark.parametrize(
    "address", ["AWS_ENDPOINT_URL_S3", "ANTHROPIC_BEDROCK_BASE_URL", "HF_ENDPOINT"]
)
def test_an_address_whose_login_may_be_in_a_file_is_refused(address: str, tmp_path: Path) -> None:
    _env(tmp_path, **{address: EVIL})
    with pytest.raises(ConfigError, match=f"set {address} in your environment"):
        load_dotenv(tmp_path, {})


def test_the_name_of_a_region_leads_to_no_other_host(tmp_path: Path) -> None:
    """Libraries put it into the name of a host, in front of `googleapis.com`."""
    _env(tmp_path, GOOGLE_CLOUD_LOCATION="127.0.0.1:9/")
    with pytest.raises(ConfigError, match="GOOGLE_CLOUD_LOCATION is not a name"):
        load_dotenv(tmp_path, {})
    _env(tmp_path, GOOGLE_CLOUD_LOCATION="europe-west4", AWS_REGION="eu-central-1")
    assert load_dotenv(tmp_path, {}) == ["GOOGLE_CLOUD_LOCATION", "AWS_REGION"]


@pytest.mark.parametrize("address", WITH_KEYS)
def test_an_address_of_the_environment_is_the_users(address: str, tmp_path: Path) -> None:
    key = WITH_KEYS[address]
    _env(tmp_path, **{address: EVIL})
    environ = {address: "https://gateway.example.org/v1", key: MINE}
    assert load_dotenv(tmp_path, environ) == []
    _env(tmp_path, **{key: THEIRS})
    assert load_dotenv(tmp_path, environ) == []
    assert environ[key] == MINE


@pytest.mark.parametrize("address", OF_OTHERS)
def test_the_same_holds_for_services_that_are_no_models(address: str, tmp_path: Path) -> None:
    key = OF_OTHERS[address]
    _env(tmp_path, **{address: EVIL})
    with pytest.raises(ConfigError, match=f"write .*{key}.* beside it"):
        load_dotenv(tmp_path, {key: MINE})
    assert load_dotenv(tmp_path, {}) == [address], "there is no key that could go there"
    _env(tmp_path, **{address: EVIL, key: THEIRS})
    environ = {key: MINE}
    load_dotenv(tmp_path, environ)
    assert environ[key] == THEIRS


def test_one_key_of_the_folder_does_not_let_another_one_go(tmp_path: Path) -> None:
    _env(tmp_path, WANDB_BASE_URL=EVIL, WANDB_OTHER_KEY=THEIRS)
    with pytest.raises(ConfigError, match="WANDB_API_KEY"):
        load_dotenv(tmp_path, {"WANDB_API_KEY": MINE})


@pytest.mark.parametrize("name", NEVER)
def test_some_variables_are_never_taken(name: str, tmp_path: Path) -> None:
    path = _env(tmp_path, **{name: EVIL, "SHOP_KEY": THEIRS})
    environ: dict[str, str] = {}
    assert load_dotenv(tmp_path, environ) == ["SHOP_KEY"]
    assert ignored_in(tmp_path) == (
        f"{path}: not taken from a .env, only from your environment: {name}"
    )


def test_ordinary_variables_are_taken(tmp_path: Path) -> None:
    values = {
        "OPENAI_API_KEY": THEIRS,
        "ENV": "dev",
        "NODE_ENV": "production",
        "SHOP_TIMEOUT": "5",
        "BURNISH_PROMPT_TOKEN": THEIRS,
        "DATABASE_URL": "postgresql://localhost/shop",
    }
    _env(tmp_path, **values)
    environ: dict[str, str] = {}
    load_dotenv(tmp_path, environ)
    assert environ == values
    assert ignored_in(tmp_path) == ""


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"SHOP_URL": EVIL}, {"SHOP_KEY": MINE}, "SHOP_KEY"),
        ({"OPENAI_BASE_URL": EVIL, "OPENAI_API_KEY": THEIRS}, {"OPENAI_API_KEY": MINE}, "_KEY"),
        (
            {"OPENAI_BASE_URL": EVIL, "OPENAI_API_KEY": THEIRS},
            {"OPENAI_BASE_URL": "https://ours.example/v1", "OPENAI_API_KEY": MINE},
            "OPENAI_BASE_URL",
        ),
    ],
)
def test_an_address_of_one_folder_gets_no_key_of_another(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], what: str
) -> None:
    """Such as of two agents that one service serves."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    _env(theirs, **first)
    _env(ours, **second)
    load_dotenv(theirs, os.environ)
    load_dotenv(theirs, os.environ)
    with pytest.raises(ConfigError, match=f"{what} is for another address than"):
        load_dotenv(ours, os.environ)
    assert MINE not in os.environ.values()


def test_an_address_by_a_variable_of_the_file_gets_no_key_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project may name the variable: what it leads to, the `.env` decides."""
    path = _env(tmp_path, GATEWAY="https://gateway.example.org/v1", NEAR=EVIL, TEAM_KEY=THEIRS)
    monkeypatch.setenv("OPENAI_API_KEY", MINE)
    load_dotenv(tmp_path, os.environ)
    assert origin_of("GATEWAY") == path.resolve()
    assert origin_of("OPENAI_API_KEY") is None
    far = ModelRef.parse("openai:m", base_url="${GATEWAY}", api_key="${OPENAI_API_KEY}")
    with pytest.raises(ModelRefused, match="but its key OPENAI_API_KEY is not"):
        endpoint_of(far)
    near = ModelRef.parse("openai:m", base_url="${NEAR}")
    assert key_for(near) is None, "this machine gets the usual key only where the user says so"
    own = ModelRef.parse("openai:m", base_url="${GATEWAY}", api_key="${TEAM_KEY}")
    assert endpoint_of(own).key == THEIRS


def test_the_path_and_the_query_of_an_address_are_sent_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _env(tmp_path, SHOP=EVIL, HOST_OF_SHOP="127.0.0.1:9")
    monkeypatch.setenv("MY_KEY", MINE)
    load_dotenv(tmp_path, os.environ)
    url = "${SHOP}/ask?key=${MY_KEY}"
    with pytest.raises(ConfigError, match="but MY_KEY is not"):
        HttpTarget(url=url).request_parts()
    with pytest.raises(ModelRefused, match="but MY_KEY is not"):
        endpoint_of(ModelRef.parse("openai:m", base_url=url))
    with pytest.raises(ConfigError, match="but MY_KEY is not"):
        full_address(url)
    with pytest.raises(ConfigError, match="but MY_KEY is not"):
        prompt_store("sql:postgresql://kim:${MY_KEY}@${HOST_OF_SHOP}/d#prompts/rules")


def test_doctor_says_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    _env(tmp_path, OPENAI_BASE_URL=EVIL, HTTPS_PROXY=EVIL)
    site = HealthSite.of(tmp_path, tmp_path / "home", {"OPENAI_API_KEY": MINE})
    (finding,) = [each for each in examine(site) if each.name == ".env"]
    assert finding.state == "wrong"
    assert "OPENAI_BASE_URL has no key of its own there" in finding.told
    assert "HTTPS_PROXY" in finding.remedy
    assert "OPENAI_BASE_URL" not in site.environ


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("${SHOP}/ask", True),
        ("http://${PLACE}:80/ask", True),
        ("${SCHEME}://${PLACE}/ask", True),
        ("http://127.0.0.1:9/${PATH_OF_SHOP}?x=${PLACE}", False),
    ],
)
def test_a_service_under_test_is_no_way_round(
    url: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose host the `.env` decides gets no header of the user's environment."""
    _env(tmp_path, SHOP=EVIL, PLACE="127.0.0.1", SCHEME="http", PATH_OF_SHOP="ask")
    monkeypatch.setenv("MY_KEY", MINE)
    load_dotenv(tmp_path, os.environ)
    refusal = pytest.raises(ConfigError, match="but MY_KEY is not")
    with refusal if refused else nullcontext():
        target = HttpTarget(url=url, headers={"X-Api-Key": "${MY_KEY}"})
        assert target.request_parts()[1] == {"X-Api-Key": MINE}


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        (["--url", "${SHOP}", "--key", "${MY_KEY}"], True),
        (["--url=${SHOP}", "${MY_KEY}"], True),
        (["${SHOP}/mcp", "Authorization: Bearer ${MY_KEY}"], True),
        (["${SHOP}", "${SHOP_KEY}"], False),
        (["https://ours.example/${WORD}", "${WORD}", "${MY_KEY}"], False),
    ],
)
def test_a_program_is_not_given_a_key_with_an_address_of_the_file(
    texts: list[str], refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of tools, or a command under test, would send it there."""
    _env(tmp_path, SHOP=EVIL, SHOP_KEY=THEIRS, WORD="ask")
    monkeypatch.setenv("MY_KEY", MINE)
    load_dotenv(tmp_path, os.environ)
    tool = McpTool(
        name="t",
        description="A tool.",
        type="mcp",
        command=sys.executable,
        args=texts,
    )
    with pytest.raises(ConfigError, match="but MY_KEY is not") if refused else nullcontext():
        mcp_server(tool, tmp_path)
    env = {f"PART_{number}": text for number, text in enumerate(texts)}
    with pytest.raises(ConfigError, match="but MY_KEY is not") if refused else nullcontext():
        mcp_server(tool.model_copy(update={"args": (), "env": env}), tmp_path)
    with pytest.raises(ConfigError, match="but MY_KEY is not") if refused else nullcontext():
        CommandTarget(command=[sys.executable], env=env)
