"""Which models can be asked: the embedded one, Ollama on this machine, the providers."""

from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus

from burnish.models.embedded.files import KNOWN, find_model, require_model
from burnish.models.health.findings import Finding, Site
from burnish.models.health.reachability import Heard, Probe, ask_all
from burnish.models.keys import variables
from burnish.models.references import PROVIDERS
from burnish.models.troubles import ModelRefused

_EMBEDDED = "smollm2"
_OLLAMA_SECONDS = 1.0
_SECONDS = 3.5
_QUESTIONS = {
    "openai": ("/models", "Authorization", "Bearer "),
    "anthropic": ("/v1/models?limit=1", "x-api-key", ""),
    "google": ("/v1beta/models?pageSize=1", "x-goog-api-key", ""),
}
"""By provider: what lists its models, which costs nothing, and the header that takes the key."""
_MORE_HEADERS = {"anthropic": {"anthropic-version": "2023-06-01"}}
_REFUSALS = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def embedded(site: Site) -> Finding:
    """Whether the file of the embedded model is here, and whole."""
    finding = Finding(area="models", name=f"local:{_EMBEDDED}", told=KNOWN[_EMBEDDED].told)
    try:
        require_model(_EMBEDDED, site.environ)
    except ModelRefused as error:
        state = "absent" if find_model(_EMBEDDED, site.environ) is None else "wrong"
        return replace(finding, state=state, told=error.message, remedy=error.remedy)
    return finding


def ollama(site: Site) -> Finding:
    """Whether Ollama answers on this machine."""
    probe = _ollama_probe(site)
    return _of_ollama(probe, ask_all([probe], seconds=_OLLAMA_SECONDS)[probe.name])


def online(site: Site) -> Iterator[Finding]:
    """Whether Ollama and every provider whose key is there answer; all are asked at once."""
    local = _ollama_probe(site)
    probes = {name: probe for name in _QUESTIONS if (probe := _probe(site, name)) is not None}
    heard = ask_all([local, *probes.values()], seconds=_SECONDS)
    yield _of_ollama(local, heard[local.name])
    for provider in PROVIDERS:
        if provider in probes:
            yield _of_provider(provider, heard[provider])
        elif variables(provider):
            yield _not_asked(provider)


def _probe(site: Site, provider: str) -> Probe | None:
    values = (site.environ.get(name, "").strip() for name in variables(provider))
    key = next(filter(None, values), None)
    if key is None:
        return None
    path, header, before = _QUESTIONS[provider]
    headers = {header: f"{before}{key}", **_MORE_HEADERS.get(provider, {})}
    return Probe(name=provider, url=f"{site.addresses[provider]}{path}", headers=headers)


def _ollama_probe(site: Site) -> Probe:
    url = f"{site.addresses['ollama'].removesuffix('/v1')}/api/tags"
    return Probe(name="ollama", url=url, seconds=_OLLAMA_SECONDS, proxied=False)


def _of_ollama(probe: Probe, heard: Heard) -> Finding:
    finding = Finding(area="models", name="ollama:…", told="")
    where = probe.url.removesuffix("/api/tags")
    if heard.status == HTTPStatus.OK:
        return replace(finding, told=f"answers at {where}; models: {heard.count('models')}")
    told = heard.trouble or f"something else is there (HTTP {heard.status})"
    remedy = "for models of your own, start Ollama: ollama serve"
    return replace(finding, state="absent", told=f"{where}: {told}", remedy=remedy)


def _of_provider(provider: str, heard: Heard) -> Finding:
    finding = Finding(area="models", name=f"{provider}:…", told="answers, and takes the key")
    if heard.status == HTTPStatus.OK:
        return finding
    wrong = replace(finding, state="wrong")
    if heard.status in _REFUSALS:
        remedy = f"check the key in {' or '.join(variables(provider))}"
        return replace(wrong, told=f"refuses the key (HTTP {heard.status})", remedy=remedy)
    if heard.status:
        return replace(wrong, told=f"answers HTTP {heard.status}", remedy="try again later")
    remedy = "check the network, and HTTPS_PROXY if there is a proxy"
    return replace(wrong, told=heard.trouble, remedy=remedy)


def _not_asked(provider: str) -> Finding:
    told = "not asked: there is no key"
    if provider not in _QUESTIONS:
        told = "not asked: its address is part of each model's base_url"
    return Finding(area="models", name=f"{provider}:…", state="absent", told=told)
