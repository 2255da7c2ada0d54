"""Domains by name: built in, registered by `register(domain)`, or from the entry-point group `intset.domains`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Final

from intset.domains import ranked as engines
from intset.domains.auto import AutoDomain
from intset.domains.foreign.regions import instantiated
from intset.domains.foreign.sets import Guarded
from intset.domains.interval import IntervalDomain
from intset.domains.isl.domain import IslDomain
from intset.domains.modular import ModularDomain, StridedDomain
from intset.domains.points import PointsDomain
from intset.domains.product import product_domain
from intset.domains.protocols import Domain, RankedDomain, Regions
from intset.domains.ranked import strongest as strongest
from intset.domains.stride import StrideDomain
from intset.errors import DomainError, InputError, PluginWarning
from intset.expr.text import shown
from intset.names import CHEAPEST as CHEAPEST
from intset.names import announce, check_name, entry_points, withdraw

_BUILT_IN: Final[Mapping[str, Callable[[], Domain]]] = {
    "auto": AutoDomain,
    "interval": IntervalDomain,
    "stride": StrideDomain,
    "modular": ModularDomain,
    "interval*modular": StridedDomain,
    "isl": IslDomain,
    "points": PointsDomain,
}
_loaded: dict[str, Domain] = {}
_products: dict[str, Domain] = {}  # built on demand
_answering: dict[str, Regions | None] = {}  # cache of `regions_of`, cleared by every registration


def register(domain: Domain, name: str | None = None) -> Domain:
    """Register `domain` under `name` (default: its own). Returns the domain, so it serves as a decorator."""
    instance = instantiated(domain, name or getattr(domain, "name", "") or "?")
    chosen = name or getattr(instance, "name", None)
    if not isinstance(chosen, str) or not chosen:
        raise InputError(f"a domain needs a name: {shown(domain)}")
    if not callable(getattr(instance, "image", None)):
        raise InputError(f"the domain {shown(chosen)} has no method image(query)")
    _loaded[chosen] = guarded = Guarded(instance, chosen)
    engines.enlist(chosen, guarded)
    _forget_what_is_built_from(chosen)
    announce(chosen)  # last: it invalidates cached answers
    return domain


def unregister(name: str) -> None:
    """Remove a domain that was registered by call."""
    _loaded.pop(name, None)
    engines.dismiss(name)
    _forget_what_is_built_from(name)
    withdraw(name)


def _forget_what_is_built_from(name: str) -> None:
    """Drop the products built from the domain of this name."""
    for product in list(_products):
        if name == product or name in map(str.strip, product.split("*")):
            _products.pop(product, None)
    _answering.clear()


def domain_names() -> tuple[str, ...]:
    """The names of all domains; a plugin that fails to load is omitted with a warning."""
    names = dict.fromkeys((*_BUILT_IN, *_loaded))
    for point in entry_points():
        if point.name in names:
            continue
        try:
            domain_named(point.name)
        except DomainError as error:
            warnings.warn(str(error), PluginWarning, stacklevel=2)
        else:
            names[point.name] = None
    return tuple(names)


def domain_named(name: str) -> Domain:
    """The domain registered as `name`; products such as `interval*modular` are built on demand."""
    domain = _loaded.get(name) or _products.get(name)
    if domain is not None:
        return domain
    check_name(name, "domain")
    point = next((p for p in entry_points() if p.name == name), None)
    if name in _BUILT_IN:
        return _loaded.setdefault(name, _BUILT_IN[name]())
    if point is not None:
        return _loaded.setdefault(name, _plugin(point))
    parts = [domain_named(part.strip()) for part in name.split("*")]
    return _products.setdefault(name, product_domain(parts, name))


def regions_of(name: str) -> Regions | None:
    """The domain with regions behind a name: itself or the strongest of its ranked domains; `None` without regions."""
    if name not in _answering:
        domain = domain_named(name)
        top = domain.strongest() if isinstance(domain, RankedDomain) else domain
        _answering[name] = top if isinstance(top, Regions) else None
    return _answering[name]


def _plugin(point: metadata.EntryPoint) -> Domain:
    loaded = engines.load(point)
    if not callable(getattr(loaded, "image", None)):
        raise DomainError(f"the domain {shown(point.name)}: its plugin {point.value} has no method image(query)")
    return Guarded(loaded, point.name)
