"""What knows regions: the half of the registry that stands below sets and the prover, which ask the strongest."""

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
_rungs: dict[str, Costed] = {}
_chosen: list[Regions] = []  # the strongest, until there are others


def enlist(name: str, domain: object) -> None:
    """Let a domain that was registered be asked for regions, if it has any, and be climbed to, if it has a cost."""
    dismiss(name)
    if isinstance(domain, Regions):
        _registered[name] = domain
    if isinstance(domain, Costed):
        _rungs[name] = domain


def dismiss(name: str) -> None:
    """Forget what was registered under a name."""
    _registered.pop(name, None)
    _rungs.pop(name, None)
    _chosen.clear()


def rungs() -> list[Costed]:
    """The domains that were registered with a cost, the cheapest first."""
    return sorted(_rungs.values(), key=lambda domain: domain.cost)


def strongest() -> Regions:
    """Of all that have regions the strongest; one from outside before one of the same strength that is built in."""
    if not _chosen:
        outside = [found for point in entry_points() if (found := _plugin(point)) is not None]
        _chosen[:] = _choose([*outside, *_registered.values(), *_BUILT_IN.values()])
    return _chosen[0]


def _choose(engines: list[Regions]) -> list[Regions]:
    """The best of several; a single one is not asked how strong it is, for that may take loading it."""
    return [max(engines, key=_strength)] if len(engines) > 1 else engines


def _strength(engine: Regions) -> tuple[bool, int]:
    return not isinstance(engine, Installable) or engine.is_installed(), engine.strength


def _plugin(point: metadata.EntryPoint) -> Regions | None:
    if point.name in BUILT_IN:
        return None
    try:
        found = GuardedRegions(load(point), point.name)
    except DomainError:  # a plugin that cannot be loaded
        return None
    return found if isinstance(found, Regions) else None


def load(point: metadata.EntryPoint) -> object:
    """The domain of a plugin."""
    try:
        return instantiated(point.load(), point.name)
    except DomainError:
        raise
    except (Exception, SystemExit) as error:
        shown = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DomainError(f"the domain {point.name!r}: its plugin {point.value} cannot be loaded: {shown}") from error
