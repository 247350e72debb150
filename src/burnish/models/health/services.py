"""Which models can be asked: the embedded one, services on this machine, the providers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus

from burnish.models.embedded.files import KNOWN, find_model, require_model
from burnish.models.health.findings import Finding, Site
from burnish.models.health.reachability import Heard, Probe, ask_all
from burnish.models.providers import HealthRequest, Provider, all_providers
from burnish.models.troubles import ModelRefused

_EMBEDDED = "smollm2"
_LOCAL_SECONDS = 1.0
_SECONDS = 3.5
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


def local_services(site: Site) -> Iterator[Finding]:
    """Whether the services of this machine answer."""
    rows = [row for row in all_providers() if _is_service(row)]
    yield from _local(site, rows, ask_all(_probes(site, rows), seconds=_LOCAL_SECONDS))


def online(site: Site) -> Iterator[Finding]:
    """Whether the services of this machine and every provider whose key is there answer.

    All are asked at once.
    """
    rows = all_providers()
    services = [row for row in rows if _is_service(row)]
    heard = ask_all(_probes(site, rows), seconds=_SECONDS)
    yield from _local(site, services, heard)
    for row in rows:
        if row in services or row.protocol == "embedded":
            continue
        yield _remote(row, heard[row.name]) if row.name in heard else _not_asked(row)


def _is_service(row: Provider) -> bool:
    return row.is_local and row.probe is not None


def _probes(site: Site, rows: Sequence[Provider]) -> list[Probe]:
    found = (_probe(site, row, row.probe) for row in rows if row.probe is not None)
    return [probe for probe in found if probe is not None]


def _probe(site: Site, row: Provider, request: HealthRequest) -> Probe | None:
    """What is sent, with the key where one is needed; None where there is no key."""
    url = f"{site.addresses[row.name].removesuffix(request.drop)}{request.path}"
    if row.is_local:
        return Probe(name=row.name, url=url, seconds=_LOCAL_SECONDS, proxied=False)
    values = (site.environ.get(name, "").strip() for name in row.key_variables)
    key = next(filter(None, values), None)
    if key is None and row.key_optional != "always":
        return None
    headers = dict(request.headers)
    if key is not None and request.key_header:
        headers[request.key_header] = f"{request.key_prefix}{key}"
    return Probe(name=row.name, url=url, headers=headers)


def _local(site: Site, rows: Sequence[Provider], heard: Mapping[str, Heard]) -> Iterator[Finding]:
    for row in rows:
        assert row.probe is not None
        where = site.addresses[row.name].removesuffix(row.probe.drop)
        yield _service(row, where, heard[row.name], row.probe.listing)


def _service(row: Provider, where: str, heard: Heard, listing: str) -> Finding:
    finding = Finding(area="models", name=f"{row.name}:…", told="")
    if heard.status == HTTPStatus.OK:
        return replace(finding, told=f"answers at {where}; models: {heard.count(listing)}")
    told = heard.trouble or f"something else is there (HTTP {heard.status})"
    return replace(finding, state="absent", told=f"{where}: {told}", remedy=row.start_hint)


def _remote(row: Provider, heard: Heard) -> Finding:
    finding = Finding(area="models", name=f"{row.name}:…", told="answers, and takes the key")
    if heard.status == HTTPStatus.OK:
        return finding
    wrong = replace(finding, state="wrong")
    if heard.status in _REFUSALS:
        remedy = f"check the key in {' or '.join(row.key_variables)}"
        return replace(wrong, told=f"refuses the key (HTTP {heard.status})", remedy=remedy)
    if heard.status:
        return replace(wrong, told=f"answers HTTP {heard.status}", remedy="try again later")
    remedy = "check the network, and HTTPS_PROXY if there is a proxy"
    return replace(wrong, told=heard.trouble, remedy=remedy)


def _not_asked(row: Provider) -> Finding:
    told = row.unprobed if row.probe is None else "not asked: there is no key"
    return Finding(area="models", name=f"{row.name}:…", state="absent", told=told)
