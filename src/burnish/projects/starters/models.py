"""Which model a new project starts with: the keys, services and files that this machine has."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from burnish.core.errors import ConfigError, Problem
from burnish.models.endpoints import missing_extra
from burnish.models.health import HealthSite, embedded_model, served_models
from burnish.models.providers import all_providers, find_provider
from burnish.models.references import WHERE, ModelRef
from burnish.system.config import near


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """A model, why it is offered, and what it still needs."""

    label: str
    """`provider:name`"""
    reason: str = ""
    base_url: str = ""
    key_variable: str = ""
    """The variable with the key for `base_url`, if it needs one."""
    needs: tuple[str, ...] = ()
    """What to do before it can be called."""

    @property
    def keys(self) -> dict[str, str]:
        """The block of a project file, without settings."""
        ref = ModelRef.parse(self.label)
        keys = {"provider": ref.row.written, "name": ref.name, "base_url": self.base_url}
        keys["api_key"] = f"${{{self.key_variable}}}" if self.key_variable else ""
        return {key: value for key, value in keys.items() if value}

    @property
    def block(self) -> str:
        """The block on one line of YAML."""
        return f"{{{', '.join(f'{key}: {json.dumps(value)}' for key, value in self.keys.items())}}}"

    def __str__(self) -> str:
        return f"{self.label}, {self.reason}" if self.reason else self.label


def chosen_model(label: str, *, base_url: str = "", key_variable: str = "") -> ModelChoice:
    """The model that the user names; raises ConfigError if its provider is unknown."""
    if ":" in label and find_provider(provider := label.partition(":")[0]) is None:
        message = f"unknown provider '{provider}'"
        remedy = near(provider, [name for row in all_providers() for name in row.names])
        raise ConfigError([Problem(where="--model", message=message, remedy=remedy)])
    ref = ModelRef.parse(label)
    extra = missing_extra(ref.row.protocol)
    needs = (f"pip install 'burnish[{extra}]'",) if extra else ()
    return ModelChoice(label=label, base_url=base_url, key_variable=key_variable, needs=needs)


def offered_models(site: HealthSite) -> list[ModelChoice]:
    """The models that can be called from here, the strongest first; one at least.

    Where there is none, it is a usual one with what it needs.
    """
    choices = [*_with_keys(site), *_served(site), *_embedded(site)]
    if choices:
        return sorted(choices, key=lambda choice: bool(choice.needs))
    usual = all_providers()[0]
    variable = usual.key_variables[0]
    label = f"{usual.name}:{usual.starter}"
    key = f"set {variable} {WHERE}"
    return [ModelChoice(label=label, reason="no key was found", needs=(*_extra(label), key))]


def _with_keys(site: HealthSite) -> Iterator[ModelChoice]:
    for row in all_providers():
        held = [name for name in row.key_variables if site.environ.get(name, "").strip()]
        if held and row.starter:
            label = f"{row.name}:{row.starter}"
            yield ModelChoice(label=label, reason=f"{held[0]} is set", needs=_extra(label))


def _served(site: HealthSite) -> Iterator[ModelChoice]:
    for provider, names in served_models(site).items():
        for name in names[:3]:
            label = f"{provider}:{name}"
            reason = f"it runs at {site.addresses[provider]}"
            yield ModelChoice(label=label, reason=reason, needs=_extra(label))


def _embedded(site: HealthSite) -> Iterator[ModelChoice]:
    finding = embedded_model(site)
    if finding.state == "ok":
        yield ModelChoice(label=finding.name, reason="small, runs inside burnish, costs nothing")


def _extra(label: str) -> tuple[str, ...]:
    extra = missing_extra(ModelRef.parse(label).row.protocol)
    return (f"pip install 'burnish[{extra}]'",) if extra else ()
