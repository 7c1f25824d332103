"""Which kind of filter suits a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from html import escape

from ._tamis import _kinds, _plan


@dataclass(frozen=True)
class Advice:
    """A kind that meets a goal, with its figures."""

    kind: str
    """The name of the kind."""
    keys: int
    """The number of keys that it holds."""
    fpr: float
    """The false positive rate with that many keys."""
    nbytes: int
    """The size of its tables in bytes."""
    query_cost: float
    """The work of a query, in random reads of a cache line."""
    capabilities: tuple[str, ...]
    """What it can do beside answering queries."""
    merits: tuple[str, ...]
    """In what it is the best of the list."""

    @property
    def bits_per_key(self) -> float:
        """The bits of memory per key."""
        return self.nbytes * 8 / max(self.keys, 1)


class Plan(list[Advice]):
    """Kinds that meet a goal, best first. Notebooks show it as a table."""

    def _repr_html_(self) -> str:
        names = [field.name for field in fields(Advice)]
        names.insert(4, "bits_per_key")
        head = "".join(f"<th>{name}</th>" for name in names)
        rows = []
        for advice in self:
            cells = []
            for name in names:
                value = getattr(advice, name)
                if isinstance(value, tuple):
                    value = ", ".join(value)
                elif isinstance(value, float):
                    value = f"{value:.4g}"
                cells.append(f"<td>{escape(str(value))}</td>")
            rows.append(f"<tr>{''.join(cells)}</tr>")
        return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def plan(
    keys: float | None = None,
    fpr: float | None = None,
    nbytes: float | None = None,
    *,
    needs: Iterable[str] = (),
    distinct: bool = False,
) -> Plan:
    """Ranks the kinds for a job, best first.

    Give two of ``keys``, ``fpr`` and ``nbytes``, or ``keys`` alone for a rate of 1 %. Without ``keys`` and
    ``nbytes`` the number of keys is unknown, and only kinds that grow are listed. ``needs`` are names of
    capabilities, such as ``"remove"``. ``distinct`` states that no key is inserted twice.

    >>> import tamis
    >>> best = tamis.plan(keys=1e6, fpr=0.001, needs=["remove"])[0]
    >>> "remove" in best.capabilities
    True
    """
    rows = _plan(keys, fpr, nbytes, list(needs), distinct)
    return Plan(
        Advice(kind, count, rate, size, cost, tuple(capabilities), tuple(merits))
        for kind, count, rate, size, cost, capabilities, merits in rows
    )


@dataclass(frozen=True)
class KindInfo:
    """A kind of filter."""

    name: str
    """Its name, as ``kind`` of ``Filter`` and ``build``."""
    capabilities: tuple[str, ...]
    """What it can do beside answering queries."""
    paper: str
    """The authors and years of the papers that describe it."""
    settings: dict[str, str]
    """Its settings, and the values that each accepts."""


def kinds() -> list[KindInfo]:
    """Returns all kinds of filter.

    >>> import tamis
    >>> [kind.name for kind in tamis.kinds()][:3]
    ['bloom', 'bloom_g', 'split_block_bloom']
    """
    return [
        KindInfo(name, tuple(capabilities), paper, dict(settings))
        for name, capabilities, paper, settings in _kinds()
    ]
