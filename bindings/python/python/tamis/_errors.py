"""The exceptions of the package, one for each kind of error of the library.

Each is also one of Python's own classes where one fits, so that ``except ValueError`` works.
"""


class TamisError(Exception):
    """The base of all exceptions of this package."""


class InvalidInputError(TamisError, ValueError):
    """An argument is out of range, unknown or missing."""


class FullError(TamisError):
    """The filter is full, or there are more keys than it is made for."""


class UnsupportedError(TamisError, TypeError):
    """This kind of filter does not have the operation."""


class MismatchError(TamisError, ValueError):
    """Two filters, or a filter and a key, do not belong together."""


class ConflictError(TamisError, ValueError):
    """A key has two values, or is on two lists."""


class OutOfMemoryError(TamisError, MemoryError):
    """Memory ran out, or the memory limit is too low."""


class StoppedError(TamisError):
    """The build reached its time limit."""


class CorruptError(TamisError, ValueError):
    """The bytes are not a valid ``.tamis`` file, or a dictionary is damaged."""


class InUseError(TamisError):
    """Another process has the dictionary open."""
