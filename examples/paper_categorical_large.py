"""
Tables 6 and 7 and figures 1 and 3 of the categorical closed form: large sparse data
====================================================================================

The explained functions are class probabilities: of a random forest for Connect-4, as in the paper,
of perceptrons as deep as the paper's for Dota2 and MNIST, and of a perceptron for Poker Hand, with
also of a tabular transformer like the paper's where PyTorch is installed. Part of
``paper_categorical.py --large``.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from examples import paper_categorical_transformer as transformer
from examples.data import dota2 as read_dota2
from examples.data import read_table
from examples.paper_categorical_dota2 import levels_table
from examples.reproduction import Entry, Table
from treepurify import Decomposition, categorical_anova

MEMORY = 12 << 30
SMALL_ROWS = 2000
SMALL_RANK = 200


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with its explained function.

    Parameters
    ----------
    name : str
        What it is called.
    X : DataFrame
        Rows of levels.
    values : ndarray of shape (n_rows,)
        Values of the explained function.
    options : dict
        Options of the search beyond the rank.
    words : str
        The model, with its accuracy.
    rollout : ndarray of shape (n_columns,), optional
        Attention rollout to each column, of a transformer.
    """

    name: str
    X: pd.DataFrame
    values: np.ndarray
    options: dict[str, Any]
    words: str = ""
    rollout: np.ndarray | None = None


@dataclass(frozen=True)
class Printed:
    """What the paper prints of a data set.

    Parameters
    ----------
    accuracy : float
        Of its model.
    lines : tuple
        Rank, seconds, R2, MSE and relative MSE; the first of main effects.
    """

    accuracy: float
    lines: tuple[tuple[float, float, float, float, float], ...] = field(default=())


def _train(
    model: Any, inputs: np.ndarray, labels: np.ndarray, *, passes: int | None = None
) -> tuple[np.ndarray, str]:
    """Train on 80% of the rows; return probabilities of all rows, and words on the accuracy.

    With `passes` a perceptron goes over the rows this many times.
    """
    train, test = train_test_split(np.arange(len(labels)), test_size=0.2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if passes is None:
            model.fit(inputs[train], labels[train])
        else:
            for _ in range(passes):
                model.partial_fit(inputs[train], labels[train], classes=np.unique(labels))
    scores = [float(model.score(inputs[own], labels[own])) for own in (train, test)]
    words = f"accuracy {scores[1]:.4f} on held-out rows, {scores[0]:.4f} on training rows"
    return model.predict_proba(inputs), words


def _rows(table: pd.DataFrame, *, small: bool) -> pd.DataFrame:
    return table.sample(SMALL_ROWS, random_state=0) if small else table


def connect4(*, small: bool = False) -> list[Case]:
    """Probability of a win by a random forest of 100 trees, trained on win, loss and draw."""
    table = _rows(read_table("connect4"), small=small)
    X = table.drop(columns="class")
    codes = X.apply(lambda column: pd.factorize(column, sort=True)[0]).to_numpy(np.float32)
    forest = RandomForestClassifier(10 if small else 100, random_state=0, n_jobs=1)
    values, words = _train(forest, codes, table["class"].to_numpy())
    win = values[:, list(forest.classes_).index("win")]
    return [Case("random forest", X, win, {"order": 4}, f"{words}, of three classes")]


def poker(*, small: bool = False) -> list[Case]:
    """Probability of a hand of any rank above the lowest; the classes of rare hands are one."""
    table = _rows(read_table("poker_hand_train"), small=small)
    X = table.drop(columns="CLASS")
    one_hot = pd.get_dummies(X.astype(str)).to_numpy(np.float32)
    network = MLPClassifier((320, 64), random_state=0, alpha=0.01)
    labels = (table["CLASS"] > 0).to_numpy()
    values, words = _train(network, one_hot, labels, passes=1 if small else 60)
    cases = [Case("perceptron 320-64", X, values[:, 1], {"order": 4}, words)]
    if transformer.is_possible():
        cases.append(_transformer(X, table["CLASS"].to_numpy(np.int64), passes=1 if small else 45))
    return cases


def hands(*, small: bool = False) -> Case:
    """Whether a hand is of any rank above the lowest: what the models learn."""
    table = _rows(read_table("poker_hand_train"), small=small)
    values = (table["CLASS"] > 0).to_numpy(float)
    return Case("The observed class", table.drop(columns="CLASS"), values, {"order": 4})


def _transformer(X: pd.DataFrame, labels: np.ndarray, *, passes: int) -> Case:
    train, test = train_test_split(np.arange(len(labels)), test_size=0.2, random_state=0)
    codes = X.apply(lambda column: pd.factorize(column, sort=True)[0]).to_numpy(np.int64)
    found = transformer.train(codes, labels, train, passes=passes)
    right = found.probabilities.argmax(axis=1) == labels
    words = (
        f"accuracy {right[test].mean():.4f} on held-out rows, {right[train].mean():.4f} on"
        " training rows, of ten classes"
    )
    values = 1 - found.probabilities[:, 0]
    return Case("transformer", X, values, {"order": 4}, words, found.rollout)


def dota2(*, small: bool = False) -> list[Case]:
    """Probability that the first team wins, from the heroes alone, as training goes on.

    Two of the models are also explained by whether each hero plays for the first team: nearly all
    that functions of definition 3.1 distinguish if the codes -1, 0 and 1 are taken for two levels.
    """
    table = _rows(read_dota2(), small=small)
    X = table.drop(columns="win")
    inputs, labels = X.to_numpy(np.float32), (table["win"] > 0).to_numpy()
    cases = []
    shallow = MLPClassifier((128, 32), random_state=0)
    values, words = _train(shallow, inputs, labels, passes=1 if small else 5)
    cases.append(Case("perceptron 128-32, 5 passes", X, values[:, 1], {"order": 2}, words))
    of_first_team = (X == 1).astype(np.int8)
    told = f"{cases[-1].name}, first team only"
    cases.append(Case(told, of_first_team, values[:, 1], {"order": 2}, words))
    deep = MLPClassifier((32,) if small else (1024, 512, 256, 128, 64, 32), random_state=0)
    done = 0
    for passes in (1, 2) if small else (1, 2, 4):
        values, words = _train(deep, inputs, labels, passes=passes - done)
        done = passes
        name = f"perceptron 1024-...-32, {passes} {'pass' if passes == 1 else 'passes'}"
        cases.append(Case(name, X, values[:, 1], {"order": 2}, words))
    told = f"{cases[-1].name}, first team only"
    cases.append(Case(told, of_first_team, values[:, 1], {"order": 2}, words))
    return cases


def mnist(*, small: bool = False) -> list[Case]:
    """Probability of the digit 3 from binarised pixels; neighbours are at most 2 pixels apart."""
    table = _rows(read_table("mnist_train"), small=small)
    X = (table.drop(columns="label") >= 128).astype(np.uint8)
    network = MLPClassifier((32,) if small else (512, 128), random_state=0)
    labels = table["label"].to_numpy()
    values, words = _train(network, X.to_numpy(np.float32), labels, passes=1 if small else 5)
    near = {
        28 * row + column: [
            28 * (row + down) + column + right
            for down in range(-2, 3)
            for right in range(-2, 3)
            if 0 <= row + down < 28 and 0 <= column + right < 28
        ]
        for row in range(28)
        for column in range(28)
    }
    options = {"order": 3, "neighbours": near, "ranking": "variance"}
    return [Case("perceptron 512-128", X, values[:, 3], options, words)]


LARGE: dict[str, Callable[..., list[Case]]] = {
    "poker": poker,
    "connect4": connect4,
    "dota2": dota2,
    "mnist": mnist,
}
TITLES = {"poker": "Poker Hand", "connect4": "Connect-4", "dota2": "Dota2", "mnist": "MNIST"}
PAPER = {
    "poker": Printed(0.9843, ((76, 1.8, 0.003, 0.24, 0.49), (5000, 600, 0.79, 0.05, 0.10))),
    "connect4": Printed(0.8192, ((83, 10, 0.45, 0.07, 0.13), (5000, 2220, 0.70, 0.04, 0.07))),
    "dota2": Printed(0.5869, ((112, 23, 0.36, 0.02, 0.06), (4000, 2340, 0.41, 0.01, 0.05))),
    "mnist": Printed(
        0.9709,
        (
            (674, 10, 0.54, 0.04, 0.41),
            (2500, 90, 0.77, 0.02, 0.20),
            (5000, 300, 0.83, 0.01, 0.15),
            (10_000, 900, 0.86, 0.01, 0.12),
        ),
    ),
}


def large_table(name: str, out: Path, *, small: bool) -> list[Table]:
    """Return the lines of one data set, and its figure if the paper has one."""
    printed = PAPER[name]
    cases = LARGE[name](small=small)
    entries, last = [], None
    for number, line in enumerate(printed.lines):
        ours = {}
        for case in cases:
            rank = SMALL_RANK * number if small else int(line[0])
            options = case.options | ({"order": 1} if number == 0 else {"rank": rank})
            start = time.process_time()
            last = categorical_anova(
                case.values, case.X, **options, memory_budget=MEMORY, progress=False
            )
            seconds = time.process_time() - start
            ours[case.name] = _cells(last, seconds)
        what = "main effects" if number == 0 else f"rank {line[0]}"
        entries.append(Entry(what, line, ours))
    table = Table(
        f"categorical_large_{name}",
        f"Table {7 if name == 'mnist' else 6}: {TITLES[name]}",
        ("rank", "seconds", "R²", "MSE", "relative error"),
        entries,
        ".4g",
        (
            f"{len(cases[0].X)} rows. Accuracy of the paper's model: {printed.accuracy}. Ours:",
            *(f"{case.name}: {case.words}." for case in cases),
            "Seconds: ours are processor time, the paper's wall-clock time on an Apple M4.",
        ),
    )
    tables = [table]
    if name == "poker":
        tables.append(_figure_3(last, cases[-1], out))
    if name == "mnist":
        tables.append(_figure_1(last, cases[-1], out))
    if name == "poker":
        tables.append(orders_of_columns(hands(small=small), SMALL_RANK if small else 5000))
    if name == "dota2":
        heroes = cases[0].X
        networks = {case.name: case.values for case in cases if case.X is heroes}
        tables.append(levels_table(heroes.to_numpy(), networks))
    return tables


def orders_of_columns(case: Case, rank: int) -> Table:
    """Return what greedy selection explains of one function under several orders of its columns."""
    ranks = [name for name in case.X if str(name).startswith("C")]
    suits = [name for name in case.X if str(name).startswith("S")]
    as_read = list(case.X)
    entries = []
    for words, order, options, paper in (
        ("as in the file, suit and rank of each card", as_read, {}, ()),
        ('as in the file, ranking="variance"', as_read, {"ranking": "variance"}, ()),
        ("the five ranks before the five suits", ranks + suits, {}, (0.79, 0.05, 0.10, None, None)),
    ):
        X = case.X[order]
        settings = case.options | options | {"rank": rank, "memory_budget": MEMORY}
        d = categorical_anova(case.values, X, **settings, progress=False)
        is_suit = np.isin(order, suits)
        ratios = []
        for values in (d.shapley_values(X).values[:, :, 0], _explained_shapley(d, X)):
            shares = _shares(values)
            ratios.append(float(shares[~is_suit].sum() / shares[is_suit].sum()))
        entries.append(Entry(words, paper, {"ours": (*_cells(d, 0.0)[2:], *ratios)}))
    return Table(
        "categorical_poker_orders",
        f"Table 6 and figure 3: Poker Hand at rank {rank}, by the order of the columns",
        ("R²", "MSE", "relative error", "ranks to suits, equation 23", "without the residual"),
        entries,
        ".3f",
        (
            f"{case.name} is explained, not a prediction of it. Greedy selection takes the first"
            " independent functions, so at a limited rank the columns that come first decide what"
            " it explains."
            " The paper does not give its order; according to its text, ranks matter about ten"
            " times as much as suits, as they do with ranks first and without the residual, which"
            " equation 23 divides equally among all columns. Put the columns"
            ' that matter first, or pass ranking="variance", which begins with those of many'
            ' evenly frequent levels, or selection="lars", which depends on no order.',
        ),
    )


def _cells(d: Decomposition, seconds: float) -> tuple[float, ...]:
    fit = d.diagnostics["fit"]["f"]
    rank = float(d.diagnostics["identifiability"]["rank"])
    error = fit["relative_error"]
    return rank, seconds, fit["r_squared"], fit["mean_squared_error"], error


def _shares(values: np.ndarray) -> np.ndarray:
    """Return Shapley values (n_rows, n_features) in the l1 norm, divided by its sum."""
    sizes = np.abs(values).mean(axis=0)
    return sizes / sizes.sum()


def _explained_shapley(d: Decomposition, X: pd.DataFrame) -> np.ndarray:
    """Return equation 23 without the residual that it spreads evenly over all features."""
    values = np.zeros(X.shape)
    for subset, component in d.components.items():
        values[:, list(subset)] += component.on_rows(X) / len(subset)
    return values


def _figure_3(d: Decomposition, case: Case, out: Path) -> Table:
    """Return what ranks and suits matter, and draw them."""
    import matplotlib.pyplot as plt

    shares = {
        "equation 23": 100 * _shares(d.shapley_values(case.X).values[:, :, 0]),
        "without the residual": 100 * _shares(_explained_shapley(d, case.X)),
    }
    if case.rollout is not None:
        shares["attention rollout"] = 100 * case.rollout
    is_suit = np.array([str(name).startswith("S") for name in case.X])
    figure, panels = plt.subplots(
        len(shares), 1, figsize=(7, 2.7 * len(shares)), layout="constrained", squeeze=False
    )
    colours = ["tab:orange" if suit else "tab:blue" for suit in is_suit]
    entries = []
    for panel, (name, own) in zip(panels[:, 0], shares.items(), strict=True):
        panel.bar([str(column) for column in case.X], own, color=colours)
        panel.set(ylabel="per cent", title=name)
        of_ranks, of_suits = float(own[~is_suit].sum()), float(own[is_suit].sum())
        entries.append(Entry(name, (), {case.name: (of_ranks, of_suits, of_ranks / of_suits)}))
    figure.savefig(out / "categorical_figure_3.png", dpi=70)
    plt.close(figure)
    return Table(
        "categorical_figure_3",
        "Figure 3: importance of ranks and suits on Poker Hand, per cent",
        ("ranks", "suits", "ratio"),
        entries,
        ".1f",
        (
            'The paper: "roughly an order of magnitude more importance to ranks than to suits",'
            ' and attention rollout "distributes attribution far more uniformly across the two'
            ' groups". Attention rollout needs a transformer, and this needs PyTorch. A part'
            " of the importance of suits is the residual, which equation 23 divides equally among"
            " all columns.",
        ),
        "categorical_figure_3.png",
    )


def _figure_1(d: Decomposition, case: Case, out: Path) -> Table:
    """Return how an 8 is not a 3, pixel by pixel, and draw it."""
    import matplotlib.pyplot as plt

    table = read_table("mnist_train").loc[case.X.index]
    eights = np.flatnonzero(table["label"].to_numpy() == 8)
    # An eight that the model finds most like a three among the first hundred.
    row = int(eights[np.argmax(case.values[eights[:100]])])
    values = d.shapley_values(case.X.iloc[[row]]).values[0, :, 0]
    pixels = case.X.iloc[row].to_numpy().reshape(28, 28)
    image = values.reshape(28, 28)
    limit = float(np.abs(image).max())
    figure, panels = plt.subplots(1, 3, figsize=(9, 3.1), layout="constrained")
    panels[0].imshow(pixels, cmap="gray_r")
    panels[1].imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
    panels[2].imshow(np.abs(image), cmap="Reds", vmax=limit)
    for panel, title in zip(panels, ("input", "Shapley values", "absolute"), strict=True):
        panel.set_title(title)
        panel.set_axis_off()
    figure.savefig(out / "categorical_figure_1.png", dpi=70)
    plt.close(figure)
    left, right = (float(part[pixels_of > 0].sum()) for part, pixels_of in _halves(image, pixels))
    return Table(
        "categorical_figure_1",
        "Figure 1: an 8 explained as a 3, sums of Shapley values over its black pixels",
        ("left half", "right half", "probability of a 3"),
        [Entry("row of MNIST", (), {"ours": (left, right, float(case.values[row]))})],
        ".3f",
        (
            "The paper: pixels on the left, which close the loops, push the probability down, and"
            " those on the right push it up.",
        ),
        "categorical_figure_1.png",
    )


def _halves(image: np.ndarray, pixels: np.ndarray) -> Sequence[tuple[np.ndarray, np.ndarray]]:
    return [(image[:, :14], pixels[:, :14]), (image[:, 14:], pixels[:, 14:])]
