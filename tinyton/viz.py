"""Pictures: which thread holds what, which thread touches what, and measured numbers against the machine's roofs.

Every picture has a text form, which is what a terminal prints and what readers get who do not see it. Pictures have no
background and grey labels: they read on a light page and on a dark one. Matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

GREY = "#808080"  # readable on white and on black
COLOURS = ("#4C8BD0", "#E08E3C", "#57A773", "#C75D6A", "#8E6BBF", "#A9844F", "#3FA7A0", "#B3598F")


def style() -> dict[str, Any]:
    """Matplotlib settings of all pictures: no background, grey labels, a palette that the colour-blind can tell apart.

    ``matplotlib.rcParams.update(tt.viz.style())`` makes plots of your own look like them.
    """
    from cycler import cycler

    grey = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color", "text.color")
    clear = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    return {
        **dict.fromkeys(grey, GREY),
        **dict.fromkeys(clear, "none"),
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.grid": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
        "figure.dpi": 110,
        "font.size": 10,
        "grid.alpha": 0.25,
        "grid.color": GREY,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "savefig.bbox": "tight",
    }


@dataclass(frozen=True)
class Picture:
    """Something to look at. In a notebook it shows itself; ``str()`` is its text form, ``save(path)`` writes a file in
    the format that the ending names."""

    text: str
    alt: str
    draw: Callable[[Any], None] = field(repr=False)
    size: tuple[float, float] = (7.0, 3.6)

    def figure(self) -> Any:
        """A new matplotlib figure of it."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(style()):
            figure = Figure(figsize=self.size, layout="constrained")
            self.draw(figure)
        return figure

    def png(self) -> bytes:
        import matplotlib

        out = io.BytesIO()
        with matplotlib.rc_context(style()):
            self.figure().savefig(out, format="png", dpi=110)
        return out.getvalue()

    def save(self, path: Any) -> None:
        import matplotlib

        with matplotlib.rc_context(style()):
            self.figure().savefig(path)

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        picture = base64.b64encode(self.png()).decode()
        return {"image/png": picture, "text/plain": self.text}, {"image/png": {"alt": self.alt}}

    def __repr__(self) -> str:
        return self.text


def plot(table: Any, x: str | None = None, y: str | None = None, by: str | None = None) -> Picture:
    """A table of `tt.sweep` as lines: ``y`` (by default the last of GB/s, TFLOP/s, time_us that it has) over ``x`` (the
    first swept parameter), a line for each value of ``by`` (the second swept parameter, if there is one). The measured
    roof is a dashed line; the shade is from the 20th to the 80th percentile."""
    over = list(table.attrs.get("over", table.columns[:1]))
    x = x or over[0]
    by = by or next((name for name in over if name != x and table[name].nunique() > 1), None)
    y = y or next(name for name in ("TFLOP/s", "GB/s", "time_us") if name in table)
    groups = [(f"{by} = {value}", part) for value, part in table.groupby(by, sort=False)] if by else [("", table)]
    roof = table.attrs.get("roofs", {}).get(y)
    numeric = all(isinstance(v, int | float | np.number) and v > 0 for v in table[x])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for label, part in groups:
            at = part[x] if numeric else [str(v) for v in part[x]]
            axes.plot(at, part[y], marker="o", label=label or None)
            half = part["spread"] / 2 * part[y]
            axes.fill_between(at, part[y] - half, part[y] + half, alpha=0.2, linewidth=0)
        if roof:
            axes.axhline(roof, linestyle="--", color=GREY, linewidth=1.2)
            axes.annotate(
                f"roof {roof:,.3g}", (0, roof), (4, 3), ("axes fraction", "data"), "offset points", color=GREY
            )
        if numeric:
            axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(set(table[x])), [f"{v:,}" for v in sorted(set(table[x]))], rotation=30, ha="right")
            axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set(xlabel=x, ylabel={"time_us": "time, µs"}.get(y, y))
        axes.set_title(table.attrs.get("stamp", ""), fontsize=8, loc="right")
        if by:
            axes.legend()

    best = table.loc[table[y].idxmin() if y == "time_us" else table[y].idxmax()]
    alt = f"{y} over {x}: from {table[y].min():,.4g} to {table[y].max():,.4g}, best at {x} = {best[x]}"
    return Picture(table[[*over, y]].to_string(index=False), alt, draw)
