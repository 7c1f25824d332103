"""Items of a stream, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, overload

from ._tamis import Filter

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", str, bytes, int)


@overload
def uniq(
    items: Iterable[_Key],
    *,
    key: None = None,
    capacity: float | None = None,
    fpr: float = 1e-6,
    seen: Filter | None = None,
) -> Iterator[_Key]: ...
@overload
def uniq(
    items: Iterable[_Item],
    *,
    key: Callable[[_Item], str | bytes | int],
    capacity: float | None = None,
    fpr: float = 1e-6,
    seen: Filter | None = None,
) -> Iterator[_Item]: ...
def uniq(
    items: Iterable[_Item],
    *,
    key: Callable[[_Item], str | bytes | int] | None = None,
    capacity: float | None = None,
    fpr: float = 1e-6,
    seen: Filter | None = None,
) -> Iterator[_Item]:
    """Yields the items that did not occur before, in order, in constant memory per item.

    An item that is new is dropped with a probability of ``fpr``. ``key`` makes the key of an item. Without
    ``capacity`` the filter grows. ``seen`` is a filter of items that are already known, which is updated.

    >>> import tamis
    >>> list(tamis.uniq(["apple", "pear", "apple"]))
    ['apple', 'pear']
    """
    add_new = (Filter(capacity, fpr) if seen is None else seen).add_new
    if key is None:
        yield from filter(add_new, items)  # type: ignore[arg-type]
    else:
        for item in items:
            if add_new(key(item)):
                yield item
