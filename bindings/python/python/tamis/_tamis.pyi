"""The compiled part of the package."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import GenericAlias, TracebackType
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

__all__ = [
    "AnyFilter",
    "from_buffer",
    "from_bytes",
    "open",
    "build",
    "Dictionary",
    "_Entries",
    "Filter",
    "import_filter",
    "Map",
    "_assemble",
    "_count_part",
    "_digests",
    "_from_template",
    "_solve_part",
    "_template",
    "_kinds",
    "_plan",
    "Window",
    "__version__",
]

__version__: str
_T = TypeVar("_T")
_V = TypeVar("_V", int, bytes)
_Key: TypeAlias = str | bytes | bytearray | memoryview | int | np.integer[Any]
# A NumPy array, an Arrow column of any library, or an iterable of keys and None.
_Keys: TypeAlias = Any
_Path: TypeAlias = str | PathLike[str]
_Hash: TypeAlias = Literal["fast", "secure", "ordered"]
_Format: TypeAlias = Literal[
    "parquet",
    "spark_v1",
    "spark_v2",
    "guava",
    "fuse8",
    "fuse16",
    "rbloom",
    "dcso",
    "datasketches",
    "redisbloom",
    "bloomfilter",
]
_Settings: TypeAlias = Mapping[str, int | float | str]
_Progress: TypeAlias = Callable[[int, int], object] | bool

@disjoint_base
class AnyFilter:
    def __contains__(self, key: _Key, /) -> bool: ...
    def contains(self, keys: _Keys, *, threads: int | None = None) -> NDArray[np.bool_]: ...
    def contains_range(self, first: _Key, last: _Key) -> bool: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def to_bytes(self) -> bytes: ...
    def __bytes__(self) -> bytes: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

    def save(self, path: _Path) -> None: ...
    def export(self, format: _Format) -> bytes: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def copy(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object, /) -> Self: ...
    def _repr_html_(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def capabilities(self) -> tuple[str, ...]: ...
    @property
    def capacity(self) -> int: ...
    @property
    def fpr(self) -> float: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def hash(self) -> str: ...  # one of _Hash, or that of another program
    @property
    def seed(self) -> int: ...
    @property
    def parameters(self) -> dict[str, int | float | str]: ...

@final
class Filter(AnyFilter):
    def __new__(
        cls,
        capacity: float | None = None,
        fpr: float | None = None,
        *,
        kind: str | None = None,
        needs: Sequence[str] | None = None,
        nbytes: float | None = None,
        bits_per_key: float | None = None,
        hash: _Hash | None = None,
        seed: int | None = None,
        settings: _Settings | None = None,
    ) -> Self: ...
    def add(self, key: _Key) -> None: ...
    def add_new(self, key: _Key) -> bool: ...
    def update(self, keys: _Keys) -> None: ...
    def update_new(self, keys: _Keys) -> NDArray[np.bool_]: ...
    def discard(self, key: _Key) -> bool: ...
    def remove(self, key: _Key) -> None: ...
    def difference_update(self, keys: _Keys) -> NDArray[np.bool_]: ...
    def count(self, key: _Key) -> int: ...
    def counts(self, keys: _Keys, *, threads: int | None = None) -> NDArray[np.uint64]: ...
    def clear(self) -> None: ...
    def empty_like(self) -> Filter: ...
    def __ior__(self, other: Filter, /) -> Self: ...
    def __or__(self, other: Filter, /) -> Filter: ...
    def __ror__(self, other: Filter, /) -> Filter: ...
    def __iand__(self, other: Filter, /) -> Self: ...
    def __and__(self, other: Filter, /) -> Filter: ...
    def __rand__(self, other: Filter, /) -> Filter: ...
    def similarity(self, other: Filter) -> float: ...
    def cardinality(self) -> float: ...

@final
class Map(AnyFilter, Generic[_V]):
    @overload
    def __new__(
        cls,
        entries: Mapping[Any, int] | Iterable[tuple[Any, int]],
        fpr: float | None = None,
        *,
        nbytes: float | None = None,
        bits_per_key: float | None = None,
        hash: _Hash = "fast",
        seed: int | None = None,
        settings: _Settings | None = None,
        threads: int | None = None,
        progress: _Progress | None = None,
    ) -> Map[int]: ...
    @overload
    def __new__(
        cls,
        entries: Mapping[Any, str] | Mapping[Any, bytes] | Iterable[tuple[Any, str]] | Iterable[tuple[Any, bytes]],
        fpr: float | None = None,
        *,
        nbytes: float | None = None,
        bits_per_key: float | None = None,
        hash: _Hash = "fast",
        seed: int | None = None,
        settings: _Settings | None = None,
        threads: int | None = None,
        progress: _Progress | None = None,
    ) -> Map[bytes]: ...
    @overload
    def __new__(
        cls,
        entries: tuple[_Keys, _Keys],
        fpr: float | None = None,
        *,
        nbytes: float | None = None,
        bits_per_key: float | None = None,
        hash: _Hash = "fast",
        seed: int | None = None,
        settings: _Settings | None = None,
        threads: int | None = None,
        progress: _Progress | None = None,
    ) -> Map[Any]: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...
    @overload
    def get(self, key: _Key, default: None = None) -> _V | None: ...
    @overload
    def get(self, key: _Key, default: _T) -> _V | _T: ...
    def __getitem__(self, key: _Key, /) -> _V: ...
    def __setitem__(self, key: _Key, value: _V | str, /) -> None: ...
    def lookup(
        self, keys: _Keys, default: Any = None, *, threads: int | None = None
    ) -> NDArray[Any]: ...
    @property
    def value_bits(self) -> int: ...

@final
class Window(AnyFilter):
    def __new__(
        cls,
        capacity: float,
        fpr: float | None = None,
        *,
        nbytes: float | None = None,
        bits_per_key: float | None = None,
        hash: _Hash = "fast",
        seed: int | None = None,
        settings: _Settings | None = None,
    ) -> Self: ...
    def push(self, key: _Key) -> bool: ...
    def update(self, keys: _Keys) -> NDArray[np.bool_]: ...
    def advance(self, now: int) -> None: ...
    @property
    def window(self) -> int: ...
    @property
    def slack(self) -> int: ...

@final
class Dictionary:
    def __new__(
        cls,
        path: _Path | None = None,
        *,
        capacity: float | None = None,
        fpr: float | None = None,
        hash: _Hash = "secure",
        layout: Literal["clustered", "secondary"] = "clustered",
    ) -> Self: ...
    def __contains__(self, key: str | bytes, /) -> bool: ...
    def __getitem__(self, key: str | bytes, /) -> bytes: ...
    @overload
    def get(self, key: str | bytes, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: str | bytes, default: _T) -> bytes | _T: ...
    def __setitem__(self, key: str | bytes, value: str | bytes, /) -> None: ...
    def __delitem__(self, key: str | bytes, /) -> None: ...
    def update(
        self,
        entries: Mapping[Any, str | bytes] | Iterable[tuple[str | bytes, str | bytes]],
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def keys(self) -> Iterator[bytes]: ...
    def values(self) -> Iterator[bytes]: ...
    def items(self) -> Iterator[tuple[bytes, bytes]]: ...
    def stats(self) -> dict[str, Any]: ...
    def verify(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

@final
class _Entries:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

def build(
    keys: _Keys,
    fpr: float | None = None,
    *,
    kind: str | None = None,
    needs: Sequence[str] | None = None,
    capacity: float | None = None,
    nbytes: float | None = None,
    bits_per_key: float | None = None,
    deny: _Keys | None = None,
    format: _Format | None = None,
    hash: _Hash | None = None,
    seed: int | None = None,
    settings: _Settings | None = None,
    threads: int | None = None,
    max_memory: float | None = None,
    scratch: _Path | None = None,
    time_limit: float | None = None,
    progress: _Progress | None = None,
) -> Filter: ...
# Returns a Filter, a Map or a Window, as the bytes state.
def open(path: _Path, *, verify: bool = False) -> Any: ...
def from_bytes(data: bytes | bytearray | memoryview) -> Any: ...
def from_buffer(data: bytes) -> Any: ...
def import_filter(
    data: _Path | bytes | bytearray | memoryview, format: _Format | None = None
) -> Filter: ...
def _plan(
    keys: float | None,
    fpr: float | None,
    nbytes: float | None,
    needs: list[str] | None,
    distinct: bool,
) -> list[tuple[str, int, float, int, float, list[str], list[str]]]: ...
def _kinds() -> list[tuple[str, list[str], str, list[tuple[str, str]]]]: ...
def _digests(keys: _Keys, hash: str, seed: int) -> tuple[NDArray[np.uint64], int]: ...
def _count_part(digests: NDArray[np.uint64], index: int, parts: int) -> int: ...
def _solve_part(
    kind: str,
    digests: NDArray[np.uint64],
    index: int,
    parts: int,
    total: int,
    fpr: float,
    settings: dict[str, Any] | None,
) -> bytes: ...
def _assemble(
    kind: str,
    parts: list[bytes],
    total: int,
    fpr: float,
    settings: dict[str, Any] | None,
    hash: str,
    seed: int,
    forms: int,
) -> Filter: ...
def _template(filter: AnyFilter) -> bytes: ...
def _from_template(data: bytes, limit: int) -> Filter: ...
