"""What arrives in a later stage, and where. In a snapshot of an early stage this names it; here nothing is missing."""

from __future__ import annotations

LATER: dict[str, str] = {}
