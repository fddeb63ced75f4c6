"""Pictures that read on a light page and on a dark one, and measured numbers against the machine's roofs.

Every picture has a text form, which is what a terminal prints and what readers get who do not see it. Pictures have no
background and grey labels. Matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .roofline import number

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
        **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.titlesize": "medium",
        "figure.dpi": 110,
        "font.size": 10,
        "grid.alpha": 0.25,
        "grid.color": GREY,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "savefig.bbox": "tight",
    }


@dataclass(frozen=True)
class Picture:
    """Something to look at. In a notebook it shows itself; ``str()`` is its text form, ``.alt`` a sentence for those
    who do not see it."""

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
        out = io.BytesIO()
        self.save(out, format="png", dpi=110)
        return out.getvalue()

    def save(self, path: Any, **options: Any) -> None:
        """Writes it, in the format that the ending of ``path`` names: .png, .svg, .pdf."""
        import matplotlib

        with matplotlib.rc_context(style()):
            self.figure().savefig(path, **options)

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        picture = base64.b64encode(self.png()).decode()
        return {"image/png": picture, "text/plain": self.text}, {"image/png": {"alt": self.alt}}

    def __repr__(self) -> str:
        return self.text


def plot(table: Any, x: str | None = None, y: str | None = None, by: str | None = None) -> Picture:
    """A table of `tt.sweep` as lines: ``y`` (by default the last of GB/s, TFLOP/s, time_us that it has) over ``x`` (the
    first swept parameter), a line for each value of ``by`` (the second swept parameter, if there is one). The measured
    roof is a dashed line; the shade is from the 20th to the 80th percentile.

    >>> import pandas as pd, tinyton as tt
    >>> tt.viz.plot(pd.DataFrame({"n": [1, 2], "time_us": [3.0, 4.5], "spread": [0.1, 0.1]})).alt
    'time_us over n: from 3 to 4.5, best at n = 1'
    """
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
            units = ("axes fraction", "data"), "offset points"
            axes.annotate(f"roof {number(roof)}", (0, roof), (4, 3), *units, color=GREY)
        if numeric:
            axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(set(table[x])), [f"{v:,}" for v in sorted(set(table[x]))], rotation=30, ha="right")
            axes.minorticks_off()
        axes.update_datalim([(0, 0)], updatex=False)  # so that there is room above lines that are level
        axes.autoscale_view(scalex=False)
        axes.set_ylim(bottom=0)
        axes.set(xlabel=x, ylabel={"time_us": "time, µs"}.get(y, y))
        axes.set_title(table.attrs.get("stamp", ""), fontsize=8, loc="right")
        if by:
            axes.legend()

    best = table[x][table[y].idxmin() if y == "time_us" else table[y].idxmax()]
    alt = f"{y} over {x}: from {table[y].min():,.4g} to {table[y].max():,.4g}, best at {x} = {best}"
    return Picture(table[[*over, y]].to_string(index=False), alt, draw)


def cells(axes: Any, hue: np.ndarray, shade: np.ndarray, labels: list[list[str]]) -> None:
    """A table of coloured cells: ``hue`` picks the colour (-1: none), ``shade`` in 0 to 1 makes it lighter."""
    from matplotlib.colors import to_rgb

    palette = np.array([to_rgb(c) for c in COLOURS])
    light = (0.25 + 0.5 * shade)[..., None]
    image = np.ones((*hue.shape, 4))
    image[..., :3] = palette[hue % len(COLOURS)] * (1 - light) + light
    image[..., 3] = hue >= 0
    axes.imshow(image, aspect="auto", interpolation="nearest")
    longest = max(len(part) for row in labels for text in row for part in text.split("\n"))
    font = min(8.0, 6.2 * 72 / hue.shape[1] / max(longest, 2) * 1.5)
    for y, row in enumerate(labels):
        for x, text in enumerate(row):
            axes.text(x, y, text, ha="center", va="center", fontsize=font, color="black", linespacing=0.95)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(False)
    for x in range(1, hue.shape[1]):
        axes.axvline(x - 0.5, color=GREY, linewidth=0.3)
    for y in range(1, hue.shape[0]):
        axes.axhline(y - 0.5, color=GREY, linewidth=0.3)


def columns(rows: list[list[str]]) -> list[str]:
    """A table of text, each row a line."""
    width = max(len(text) for row in rows for text in row)
    return [" ".join(text.rjust(width) for text in row).rstrip() for row in rows]
