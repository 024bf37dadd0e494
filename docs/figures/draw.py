"""README's picture, from committed runs: ``python docs/figures/draw.py``.

Two runs of one network on CIFAR-10 with half of the labels resampled. Only the recipe differs: the
first memorizes, the second does not.
"""

import tempfile
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from rote.selection import select
from rote.studies.chart import as_svg
from rote.studies.pack import unpack
from rote.studies.pool import read_pools

FILE = Path(__file__).parent / "memorizing.svg"
POOL = "cifar10-18k-medium-0"
RUNS = {
    "vgg11-flip": ("Flips only: it memorizes the noise", "ζ rises"),
    "vgg11-crop-flip": ("Crops and flips: it learns", "ζ stays low"),
}
LINES = {
    "test_accuracy": ("test accuracy", "#0072b2"),
    "train_accuracy": ("training accuracy, given labels", "#76818f"),
    "noisy_accuracy": ("mislabeled samples memorized", "#d55e00"),
}
_PURPLE = "#7b5ea7"
_EPOCHS = 40
_WIDTH, _HIGH, _LOW = 245, 180, 70


def read_checkpoints() -> pl.DataFrame:
    """Return the checkpoints of both runs, with what the verdict estimates of each."""
    pool = next(pool for pool in read_pools("medium") if pool.name == POOL)
    with tempfile.TemporaryDirectory() as folder:
        table = select(unpack(pool.record, Path(folder) / "runs")).table
    return table.filter(pl.col("run").is_in(list(RUNS)))


def draw(checkpoints: pl.DataFrame) -> Any:  # noqa: ANN401
    """Draw accuracies above and ζ below, one column for each run."""
    columns = [
        _draw_run(checkpoints.filter(pl.col("run") == run), title, behavior)
        for run, (title, behavior) in RUNS.items()
    ]
    return alt.hconcat(*columns, spacing=28)


def _draw_run(checkpoints: pl.DataFrame, title: str, behavior: str) -> Any:  # noqa: ANN401
    best = checkpoints.row(int(checkpoints["estimated_accuracy"].arg_max() or 0), named=True)
    kept = alt.Chart(alt.Data(values=[{"epoch": best["step"]}]))
    mark = kept.mark_rule(strokeDash=[5, 3], strokeWidth=1.5).encode(x="epoch:Q")
    side: dict[str, Any] = {"align": "left", "dx": 5}
    if best["step"] > _EPOCHS / 2:
        side = {"align": "right", "dx": -5}
    text = ["rote keeps", f"epoch {best['step']}"]
    words = kept.mark_text(text=text, **side, y=9, fontSize=12, fontWeight="bold").encode(
        x="epoch:Q"
    )
    lines = _draw_lines(
        [
            {"epoch": row["step"], "value": row[column], "line": name}
            for row in checkpoints.iter_rows(named=True)
            for column, (name, _) in LINES.items()
        ],
        alt.Y("value:Q", title="accuracy", axis=alt.Axis(format="%")).scale(domain=[0, 1]),
        None,
    )
    zeta = _draw_lines(
        [
            {"epoch": row["step"], "value": row["susceptibility"], "line": "ζ"}
            for row in checkpoints.iter_rows(named=True)
        ],
        alt.Y("value:Q", title="ζ", axis=alt.Axis(titleAngle=0, titleFontSize=16)).scale(
            domain=[0, 0.4]
        ),
        "epoch",
    )
    says = alt.Chart(alt.Data(values=[{"epoch": 0, "value": 0.35}])).mark_text(
        text=behavior, align="left", dx=6, fontSize=12, fontWeight="bold", color=_PURPLE
    )
    says = says.encode(x="epoch:Q", y="value:Q")
    return alt.vconcat(
        (lines + mark + words).properties(width=_WIDTH, height=_HIGH, title=title),
        (zeta + mark + says).properties(width=_WIDTH, height=_LOW),
        spacing=10,
    )


def _draw_lines(rows: list[dict[str, Any]], y: alt.Y, title: str | None) -> Any:  # noqa: ANN401
    names, colors = zip(*LINES.values(), strict=True)
    legend = alt.Legend(
        orient="bottom", title=None, labelLimit=260, symbolStrokeWidth=3, columnPadding=24
    )
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("epoch:Q", title=title).scale(domain=[0, _EPOCHS]),
            y=y,
            color=alt.Color("line:N", legend=legend).scale(domain=names, range=colors)
            if title is None
            else alt.value(_PURPLE),
        )
    )


if __name__ == "__main__":
    FILE.write_bytes(as_svg(draw(read_checkpoints())))
