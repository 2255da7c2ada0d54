"""Ranked domains: those with regions by strength, those with a cost by cost.

This half of the registry lies below sets and the prover, which ask the strongest domain with regions.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Final

from intset.domains.foreign.regions import GuardedRegions, instantiated
from intset.domains.isl.engine import Isl
from intset.domains.protocols import Costed, Installable, Regions
from intset.errors import DomainError
from intset.names import BUILT_IN, entry_points

_BUILT_IN: Final[Mapping[str, Regions]] = {engine.name: engine for engine in (Isl(),)}
_registered: dict[str, Regions] = {}
_costed: dict[str, Costed] = {}
_chosen: list[Regions] = []  # cache of `strongest`, cleared by every registration


def enlist(name: str, domain: object) -> None:
    """Rank a registered domain by its strength and by its cost, where it has them."""
    dismiss(name)
    if isinstance(domain, Regions):
        _registered[name] = domain
    if isinstance(domain, Costed):
        _costed[name] = domain


def dismiss(name: str) -> None:
    """Remove the domain of this name from both ranks."""
    _registered.pop(name, None)
    _costed.pop(name, None)
    _chosen.clear()


def by_cost() -> list[Costed]:
    """The registered domains with a cost, the cheapest first."""
    return sorted(_costed.values(), key=lambda domain: domain.cost)


def strongest() -> Regions:
    """The strongest domain with regions; among equals a registered one before a built-in one."""
    if not _chosen:
        outside = [plugin for point in entry_points() if (plugin := _plugin(point)) is not None]
        _chosen[:] = _choose([*outside, *_registered.values(), *_BUILT_IN.values()])
    return _chosen[0]


def _choose(engines: list[Regions]) -> list[Regions]:
    """The strongest of several; the strength of a single one is not read, because that may load its library."""
    return [max(engines, key=_strength)] if len(engines) > 1 else engines


def _strength(engine: Regions) -> tuple[bool, int]:
    return not isinstance(engine, Installable) or engine.is_installed(), engine.strength


def _plugin(point: metadata.EntryPoint) -> Regions | None:
    if point.name in BUILT_IN:
        return None
    try:
        plugin = GuardedRegions(load(point), point.name)
    except DomainError:  # a plugin that cannot be loaded
        return None
    return plugin if isinstance(plugin, Regions) else None


def load(point: metadata.EntryPoint) -> object:
    """Load the domain of an entry point; raises `DomainError`, which names the plugin."""
    try:
        return instantiated(point.load(), point.name)
    except DomainError:
        raise
    except (Exception, SystemExit) as error:
        shown = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DomainError(f"the domain {point.name!r}: its plugin {point.value} cannot be loaded: {shown}") from error
