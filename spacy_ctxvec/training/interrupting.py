"""Stopping at the next step when the process is asked to end."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopRequests:
    """Within this context, SIGINT and SIGTERM set `requested`; a second SIGINT stops at once.

    Outside the main thread, where signals cannot be handled, nothing is changed.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequests:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
