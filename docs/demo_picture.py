"""Draw the picture of the README and print its example: ``python docs/demo_picture.py``."""

import re
from pathlib import Path

import numpy as np
import xgboost
from matplotlib.figure import Figure

import treepurify as tp
from treepurify import demo

PAIR = "hour & workingday"


DOCS = Path(__file__).resolve().parent


def main() -> None:
    """Write ``docs/_static/demo.png``, and the first screen of the example into the README."""
    data = demo.load_demo_data("bike")
    model = demo.train_demo_model(data).model
    d = tp.purify(model, data.X, progress=False)
    table = d.importance().set_index("effect")
    own, shared = (abs(100 * table["share"][name]) for name in ("workingday", PAIR))
    figure = Figure(figsize=(13, 4.2), layout="constrained", facecolor="white")
    shap, main_effect, pair = figure.subplots(1, 3, width_ratios=[0.8, 0.8, 1.2])
    draw_shap(shap, model, data)
    tp.plots.main_effect(d, "workingday", ax=main_effect)
    tp.plots.pair_lines(d, PAIR, ax=pair)
    for text, days in zip(
        pair.get_legend().get_texts(), ("other days", "working days"), strict=True
    ):
        text.set_text(days)
    main_effect.set_ylim(pair.get_ylim())
    # The other panels have no strip of the data below them.
    main_effect.child_axes[0].remove()
    main_effect.spines["bottom"].set_visible(True)
    main_effect.tick_params(axis="x", length=3, labelbottom=True)
    main_effect.set_xticks([0, 1], ["no", "yes"])
    main_effect.set_xlabel("workingday")
    for ax in (main_effect, pair):
        ax.set_ylabel("bicycles an hour")
    shap.set_title("SHAP ranks workingday fourth", fontsize=11)
    main_effect.set_title(f"its own effect: {own:.2f}% of the variance", fontsize=11)
    pair.set_title(f"with the hour (interaction: {shared:.0f}% of the variance)", fontsize=11)
    figure.savefig(DOCS / "_static" / "demo.png", dpi=110)
    write_screen(str(d))


def write_screen(screen: str) -> None:
    """Replace what the example of the README and of the home page prints."""
    for page in (DOCS.parent / "README.md", DOCS / "index.md"):
        text = page.read_text(encoding="utf-8")
        block = re.compile(r"(?<=^```text\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
        page.write_text(block.sub(lambda _: f"{screen}\n", text, count=1), encoding="utf-8")


def draw_shap(ax, model, data) -> None:
    """Draw the mean absolute SHAP value of each feature, the largest on top."""
    rows = xgboost.DMatrix(data.X)
    values = np.abs(model.get_booster().predict(rows, pred_contribs=True)[:, :-1]).mean(axis=0)
    order = np.argsort(values)
    names = np.array(data.X.columns)[order]
    ax.barh(names, values[order], color=["C1" if n == "workingday" else "0.75" for n in names])
    ax.set_xlabel("mean absolute SHAP value, bicycles an hour")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=0, labelsize=9)


if __name__ == "__main__":
    main()
