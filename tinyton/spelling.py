"""What the two spellings of the language differ in: `tinyton` is about pointers, `tinyton.tile` about arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .ops import Entry


@dataclass(frozen=True, eq=False)
class Spelling:
    """A way to write kernels: its functions, which are the methods of tiles too; what of Python has a meaning of its
    own there (a function, or an operator of `ast`) and the function, or the rule, that it stands for; and its words in
    messages, as patterns and what replaces them."""

    module: str
    functions: Mapping[str, Entry]
    meanings: Mapping[Any, Any]
    wording: tuple[tuple[str, str], ...]

    def words(self, message: str) -> str:
        for pattern, text in self.wording:
            message = re.sub(pattern, text, message)
        return message


class ConstantAnnotation:
    """Marks a parameter whose value is fixed when the kernel is compiled: ``Annotated[int, ConstantAnnotation()]``."""


@dataclass(frozen=True)
class Leaf:
    """In the place of an argument of the compiled code, inside of a parameter that is made of several."""

    name: str
