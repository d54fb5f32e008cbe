"""Draw the picture of the README: ``python docs/demo_picture.py``."""

from pathlib import Path

from matplotlib.figure import Figure

import treepurify as tp
from treepurify import demo


def main() -> None:
    """Write ``docs/_static/demo.png``."""
    data = demo.load_demo_data("diabetes")
    d = tp.purify(demo.train_demo_model(data).model, data.X, progress=False)
    figure = Figure(figsize=(12.6, 3.9), layout="constrained", facecolor="white")
    before, after, main_effect = figure.subplots(1, 3)
    tp.plots.pair(d, ("bmi", "s5"), before=True, ax=before)
    tp.plots.pair(d, ("bmi", "s5"), ax=after)
    tp.plots.main_effect(d, "bmi", ax=main_effect)
    before.set_title("interaction as the model carries it", fontsize=10)
    after.set_title("the same, purified", fontsize=10)
    main_effect.set_title("main effect that was hidden in it", fontsize=10, pad=40)
    figure.get_layout_engine().set(wspace=0.06)
    figure.savefig(Path(__file__).parent / "_static" / "demo.png", dpi=110)


if __name__ == "__main__":
    main()
