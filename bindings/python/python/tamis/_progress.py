"""The progress bar of ``progress=True``."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """Shows the progress of a build: with tqdm if it is installed, else as text on standard error."""

    def __init__(self) -> None:
        self._bar: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._bar = tqdm(unit=" keys", unit_scale=True)

    def __call__(self, placed: int, keys: int) -> None:
        if self._bar is None:
            print(f"\r{placed} of {keys} keys", end="", file=sys.stderr, flush=True)
            return
        self._bar.total = keys
        self._bar.n = placed
        self._bar.refresh()

    def close(self) -> None:
        """Ends the line of the bar."""
        if self._bar is None:
            print(file=sys.stderr)
        else:
            self._bar.close()
