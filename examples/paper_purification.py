"""
The purification paper, number by number
========================================

Lengerich, Tan, Chang, Hooker and Caruana (2020), "Purifying Interaction Effects with the
Functional ANOVA". Prints the paper's figures and tables, what treepurify computes, and says
where the printed ones have errors. Run:
``python examples/paper_purification.py [--store FOLDER] [--small]``; ``--store`` keeps tables and
pictures for the documentation, ``--small`` trains small models.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DataUnavailableError
from examples.paper_purification_compas import show_compas
from examples.paper_purification_curves import ADULT, SUPPORT2, figure_5
from examples.paper_purification_forests import section_7_1
from examples.paper_purification_housing import show_california_housing
from examples.paper_purification_package import authors_packages
from examples.paper_purification_theory import show_theory
from examples.reproduction import Entry, Table, publish


@dataclass(frozen=True, eq=False)
class Realization:
    """One row of Figure 1; tables are indexed by the values 0 and 1 of the features."""

    name: str
    intercept: float
    main: np.ndarray
    pair: np.ndarray

    def values(self) -> np.ndarray:
        """Return the function in the four cells."""
        return self.intercept + self.main[:, None] + self.main[None, :] + self.pair


# The figure prints the row X1 = 1 above the row X1 = 0. Both main effects are the same.
FIGURE_1 = (
    Realization("a", 0.25, np.array([-0.25, 0.25]), np.array([[0.0, 0.0], [0.0, -1.0]])),
    Realization("b", -0.75, np.array([0.25, -0.25]), np.array([[0.0, 1.0], [1.0, 1.0]])),
    Realization("c", -0.25, np.zeros(2), np.array([[0.0, 0.5], [0.5, 0.0]])),
    Realization("d", 0.0, np.zeros(2), np.array([[-0.25, 0.25], [0.25, -0.25]])),
)
CENTRED_XOR = FIGURE_1[3].pair

# Tables 1 and 2: coefficients of SNP1, SNP2 and their interaction, before and after.
SNP_MODELS = {
    "Interaction Only": ((0, 0, 1), (0.5, 0.5, 0.25)),
    "Modifier SNP": ((0, 1, 1), (0.5, 1.5, 0.25)),
    "No Interaction": ((1, 1, 0), (1.0, 1.0, 0.0)),
    "Redundant": ((1, 1, -1), (0.5, 0.5, -0.25)),
    "Synergistic": ((1, 1, 1), (1.5, 1.5, 0.25)),
}
SNP_DISTRIBUTIONS = {
    "0 or 1, even odds": (0.5, 0.5),
    "0 or 1, one in four": (0.75, 0.25),
    "0, 1, 2 alleles, evenly": (1 / 3, 1 / 3, 1 / 3),
    "0, 1, 2 alleles, frequency 1/4": (9 / 16, 6 / 16, 1 / 16),
}


def purify_realization(realization: Realization) -> tp.Decomposition:
    """Purify one row of Figure 1 under the uniform distribution."""
    tensors = {0: realization.main, 1: realization.main, (0, 1): realization.pair}
    return tp.purify_tensors(tensors, intercept=realization.intercept, feature_names=["X1", "X2"])


def figure_1() -> Table:
    """Return the four realizations purified, next to the paper's purified form."""
    columns = ("f0", "f1(0)", "f1(1)", "f3(0, 0)", "f3(0, 1)", "f3(1, 0)", "f3(1, 1)")
    canonical = FIGURE_1[3]
    printed = (canonical.intercept, *canonical.main, *canonical.pair.ravel())
    entries = []
    for row in FIGURE_1:
        d = purify_realization(row)
        own = (d.intercept[0], *d["X1"].values[:, 0], *d["X1", "X2"].values.ravel())
        cells = [float(value) + 0.0 for value in own]
        entries.append(Entry(f"({row.name}) purified", printed, {"ours": cells}))
    return Table(
        "purification_figure_1",
        "Figure 1: four realizations of one function, and their purified form (d)",
        columns,
        entries,
        ".2f",
        ("All four have the same values in the four cells, so the intercepts are right.",),
    )


def bitwise_identities() -> dict[str, dict[str, float]]:
    """Return the largest error of section 1.1's identities for OR and AND, read in three ways.

    The text has ``OR = -0.25 X + M + 0.25`` and ``AND = 0.25 X + M + 0.75``, where X is the
    "centered XOR" and ``M = 0.5 (X1 - 0.5) + 0.5 (X2 - 0.5)``.
    """
    x1, x2 = np.indices((2, 2))
    mains = 0.5 * (x1 - 0.5) + 0.5 * (x2 - 0.5)
    truth = {"OR": x1 | x2, "AND": x1 & x2}
    as_figure = {"OR": (-0.25, CENTRED_XOR, 0.25), "AND": (0.25, CENTRED_XOR, 0.75)}
    signs = 4 * CENTRED_XOR
    as_signs = {"OR": (-0.25, signs, 0.25), "AND": (0.25, signs, 0.75)}
    exchanged = {"OR": (0.25, signs, 0.75), "AND": (-0.25, signs, 0.25)}
    readings = {
        "X of Figure 1d (±0.25)": as_figure,
        "X = ±1": as_signs,
        "X = ±1, the two right sides exchanged": exchanged,
    }
    return {
        reading: {
            name: float(np.max(np.abs(factor * table + mains + constant - truth[name])))
            for name, (factor, table, constant) in sides.items()
        }
        for reading, sides in readings.items()
    }


def section_1_1() -> Table:
    """Return which reading of the identities for OR and AND holds."""
    entries = [
        Entry(reading, (0.0, 0.0), {"ours": (errors["OR"], errors["AND"])})
        for reading, errors in bitwise_identities().items()
    ]
    return Table(
        "purification_section_1_1",
        "Section 1.1: OR and AND as XOR plus main effects, largest error in a cell",
        ("OR", "AND"),
        entries,
        ".2f",
        (
            "In the text X is ±1, not the ±0.25 of the figure. The pure interactions of AND and OR"
            " are equal in strength and opposite in sign.",
        ),
    )


def purify_snps(
    coefficients: tuple[float, float, float], shares: tuple[float, ...]
) -> tp.Decomposition:
    """Purify ``b1 SNP1 + b2 SNP2 + b12 SNP1 SNP2`` for independent SNPs.

    Parameters
    ----------
    coefficients : tuple of float
        b1, b2, b12.
    shares : tuple of float
        Probability of the values 0, 1, ... of each SNP.
    """
    levels = np.arange(len(shares), dtype=float)
    first, second, both = coefficients
    tensors = {0: first * levels, 1: second * levels, (0, 1): both * np.outer(levels, levels)}
    return tp.purify_tensors(tensors, np.outer(shares, shares), feature_names=["SNP1", "SNP2"])


def snp_coefficients(d: tp.Decomposition) -> tuple[float, float, float]:
    """Return a decomposition in the convention of Table 2.

    Main effects count as the step from 0 to 1, the interaction as its value at (1, 1).
    """
    step1, step2 = (float(d[name].values[1, 0] - d[name].values[0, 0]) for name in ("SNP1", "SNP2"))
    return step1, step2, float(d["SNP1", "SNP2"].values[1, 1, 0])


def is_two_sided(d: tp.Decomposition) -> bool:
    """Whether the interaction is one number, plus or minus, in every cell."""
    values = np.abs(d["SNP1", "SNP2"].values)
    return bool(np.allclose(values, values.flat[0]))


def table_2() -> Table:
    """Return the generators after purification, in the paper's convention and in heights."""
    entries = []
    for name, (before, after) in SNP_MODELS.items():
        d = purify_snps(before, SNP_DISTRIBUTIONS["0 or 1, even odds"])
        heights = [float(c.values.reshape(-1)[-1]) for c in d.components.values()]
        shown = " ".join(f"{value:+.2f}" for value in heights)
        entries.append(Entry(name, (*after, None), {"ours": (*snp_coefficients(d), shown)}))
    return Table(
        "purification_table_2",
        "Table 2: generators of SNP effects, purified",
        ("SNP1", "SNP2", "SNP1 xor SNP2", "all three as heights"),
        entries,
        ".2f",
        (
            "Table 2 mixes two conventions: a main effect of 0.5 is the step from 0 to 1, that is"
            " ±0.25 around its mean, an interaction of 0.25 is the height. In heights all three"
            " effects of *Interaction Only* are equal, a third of the variance each. The third"
            " column is positive where the SNPs are equal: in terms of the XOR of figure 1d, which"
            " is negative there, the sign turns.",
        ),
    )


def table_2_distributions() -> Table:
    """Return which distribution of the SNPs table 2 assumes."""
    entries = []
    for name, shares in SNP_DISTRIBUTIONS.items():
        purified = [(purify_snps(before, shares), after) for before, after in SNP_MODELS.values()]
        right = sum(np.allclose(snp_coefficients(d), after) for d, after in purified)
        two_sided = all(is_two_sided(d) for d, _ in purified)
        cells = (f"{right} of 5", "yes" if two_sided else "no")
        entries.append(Entry(name, (), {"ours": cells}))
    return Table(
        "purification_table_2_distributions",
        "Table 2: which distribution does it assume?",
        ("lines that come out", "interaction is one number, plus or minus"),
        entries,
        notes=(
            "The paper names none. Only independent SNPs that are 0 or 1 with even odds give"
            " table 2. Alleles of frequency 1/4 agree by accident: their mean is 0.5 as well.",
        ),
    )


def purify_surface(values: np.ndarray) -> tp.Decomposition:
    """Purify a function on a square grid under the uniform distribution, by moving mass."""
    return tp.purify_tensors({(0, 1): values}, feature_names=["X1", "X2"], method="mass-moving")


def product_grid(n_cells: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of equal cells of (0, 1] and the product of two of them."""
    middles = (np.arange(n_cells) + 0.5) / n_cells
    return middles, np.outer(middles, middles)


def figure_6(out: Path) -> Table:
    """Return the pure effects of X1 X2 and of its logarithm, and draw them."""
    middles, product = product_grid()
    d, log = purify_surface(product), purify_surface(np.log(product))
    centred = middles - 0.5
    pair = d["X1", "X2"]
    main_error = float(np.max(np.abs(d["X1"].values[:, 0] - centred / 2)))
    pair_error = float(np.max(np.abs(pair.values[..., 0] - np.outer(centred, centred))))
    share = float(pair.variance[0] / sum(c.variance[0] for c in d.components.values()))
    largest = float(np.max(np.abs(log["X1", "X2"].values)))
    sweeps = float(d.diagnostics["solves"][0]["iterations"])
    lines = {
        "intercept of X1 X2": (0.25, float(d.intercept[0])),
        "main effect less (X1 - 1/2) / 2, largest": (0.0, main_error),
        "interaction less (X1 - 1/2)(X2 - 1/2), largest": (0.0, pair_error),
        "share of the interaction in the variance (1/7 for small cells)": (1 / 7, share),
        "interaction of log(X1 X2), largest": (0.0, largest),
        "sweeps of algorithm 1 (theorem 1)": (1.0, sweeps),
    }
    _draw_product(d, log, middles, out / "purification_figure_6.png")
    return Table(
        "purification_figure_6",
        "Figure 6 and section 7.3: the mystery of log(X1 X2), X uniform on (0, 1]",
        ("value",),
        [Entry(label, (truth,), {"ours": (own,)}) for label, (truth, own) in lines.items()],
        ".2g",
        ("The rows marked *paper* are values of the formula that its text implies.",),
        "purification_figure_6.png",
    )


def _draw_product(
    d: tp.Decomposition, log: tp.Decomposition, middles: np.ndarray, path: Path
) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    left.plot(middles, d["X1"].values[:, 0], label="X1 X2")
    left.plot(middles, log["X1"].values[:, 0], label="log(X1 X2)")
    left.set(xlabel="X1", ylabel="main effect of X1")
    left.legend()
    table = d["X1", "X2"].values[..., 0]
    mesh = right.pcolormesh(middles, middles, table.T, cmap="RdBu_r", vmin=-0.25, vmax=0.25)
    figure.colorbar(mesh, ax=right)
    right.set(xlabel="X1", ylabel="X2", title="pure interaction of X1 X2", aspect="equal")
    figure.savefig(path, dpi=70)
    plt.close(figure)


def show_data_sets(out: Path, folder: Path | None, *, small: bool) -> None:
    """Print figures 3 to 5, and the reason where data are not there."""
    rounds, n_people = (60, 2000) if small else (300, None)
    parts: tuple[Callable[[], None], ...] = (
        lambda: show_california_housing(out, folder, rounds),
        lambda: show_compas(out, folder, 10 if small else 200),
        lambda: publish(figure_5(ADULT, out, rounds, n_people), folder),
        *(() if small else (lambda: publish(figure_5(SUPPORT2, out, rounds), folder),)),
    )
    for part in parts:
        try:
            part()
        except DataUnavailableError as reason:
            print(f"left out: {reason}")


def main() -> None:
    """Print every part; parts whose data are not there are left out with the reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--store", type=Path, help="folder for tables and pictures")
    parser.add_argument("--small", action="store_true", help="small models, a minute in all")
    arguments = parser.parse_args()
    folder, small = arguments.store, arguments.small
    out = folder or Path("build/paper_purification")
    out.mkdir(parents=True, exist_ok=True)
    for table in (figure_1(), section_1_1(), table_2(), table_2_distributions(), figure_6(out)):
        publish(table, folder)
    show_theory(out, folder, seeds=2 if small else 20)
    publish(section_7_1(SNP_MODELS, *((2, 300, 5) if small else (20, 1000, 100))), folder)
    publish(authors_packages(8 if small else 32), folder)
    show_data_sets(out, folder, small=small)
    print(f"\nPictures are in {out}")


if __name__ == "__main__":
    main()
