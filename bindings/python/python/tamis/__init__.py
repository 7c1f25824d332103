"""Approximate membership filters: every kind, one file format, at Rust speed.

A filter answers *is this key in the set?* from far less memory than the set takes. It may report a
non-member as a member, at a rate that you choose; it never denies a member.

>>> import tamis
>>> seen = tamis.Filter(capacity=1_000_000, fpr=0.01)
>>> seen.add("apple")
>>> "apple" in seen, "pear" in seen
(True, False)

``Filter`` is a set, ``build`` makes one from all its keys, ``Map`` gives each key a value, ``Window``
remembers the most recent keys of a stream, and ``Dictionary`` is an exact store behind a filter.
``open`` maps a file, ``import_filter`` reads filters of Spark, Parquet, Guava and other programs, ``plan``
compares the kinds, ``uniq`` drops repeated items of a stream.
"""

from ._errors import (
    ConflictError,
    CorruptError,
    FullError,
    InUseError,
    InvalidInputError,
    MismatchError,
    OutOfMemoryError,
    StoppedError,
    TamisError,
    UnsupportedError,
)
from ._plan import Advice, KindInfo, Plan, kinds, plan
from ._tamis import (
    AnyFilter,
    Dictionary,
    Filter,
    Map,
    Window,
    __version__,
    build,
    from_buffer,
    from_bytes,
    import_filter,
    open,
)
from ._uniq import uniq

__all__ = [
    "Advice",
    "AnyFilter",
    "ConflictError",
    "CorruptError",
    "Dictionary",
    "Filter",
    "FullError",
    "InUseError",
    "InvalidInputError",
    "KindInfo",
    "Map",
    "MismatchError",
    "OutOfMemoryError",
    "Plan",
    "StoppedError",
    "TamisError",
    "UnsupportedError",
    "Window",
    "__version__",
    "build",
    "from_buffer",
    "from_bytes",
    "import_filter",
    "kinds",
    "open",
    "plan",
    "uniq",
]
