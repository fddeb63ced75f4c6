"""Exercises that check themselves. In a notebook: ``check("5.2", my_kernel)``, ``hint("5.2")``, ``solution("5.2")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .desk import check, hint, solution


def __getattr__(name: str) -> Any:
    if name in ("check", "hint", "solution"):
        from . import desk

        return getattr(desk, name)
    raise AttributeError(f"exercises has no {name}; it has check, hint and solution")
