"""
The purification paper, number by number
========================================

Lengerich, Tan, Chang, Hooker and Caruana (2020), "Purifying Interaction Effects with the
Functional ANOVA". Prints the paper's figures and tables beside what treepurify computes, and says
where the printed ones have errors. Run: ``python examples/paper_purification.py [--out DIR]``.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import treepurify as tp
from examples.data import DataUnavailableError
from examples.paper_purification_compas import show_compas
from examples.paper_purification_housing import show_california_housing


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


def show_figure_1() -> None:
    """Print the four realizations, the function they share and its purified form."""
    print("\n== Figure 1: one function, four realizations ==")
    print("                as printed                      |  purified by treepurify")
    print("     f0    f1(0)  f1(1)   f3 (00, 01, 10, 11)   |   f0    f1(1)   f3 (00, 01, 10, 11)")
    for row in FIGURE_1:
        d = purify_realization(row)
        print(
            f"({row.name}) {row.intercept:+.2f}  {row.main[0]:+.2f}  {row.main[1]:+.2f}  "
            f"{_cells(row.pair)} |  {d.intercept[0]:+.2f}  {d['X1'].values[1, 0]:+.2f}  "
            f"{_cells(d['X1', 'X2'].values)}"
        )
    same = all(np.array_equal(row.values(), FIGURE_1[0].values()) for row in FIGURE_1)
    print(f"The same function: {same}. The intercepts of the figure are right as printed.")
    show_bitwise_identities()


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
        "X of Figure 1d (+-0.25)": as_figure,
        "X = +-1": as_signs,
        "X = +-1, the two right sides exchanged": exchanged,
    }
    return {
        reading: {
            name: float(np.max(np.abs(factor * table + mains + constant - truth[name])))
            for name, (factor, table, constant) in sides.items()
        }
        for reading, sides in readings.items()
    }


def show_bitwise_identities() -> None:
    """Print which reading of the identities for OR and AND holds."""
    print("Section 1.1, OR and AND as XOR plus main effects: largest error in a cell")
    for reading, errors in bitwise_identities().items():
        print(f"  {reading:<40} OR {errors['OR']:.4f}   AND {errors['AND']:.4f}")
    print("So the two identities stand exchanged in the text, and X is +-1 there, not +-0.25;")
    print("the pure interactions of AND and OR are equal in strength and opposite in sign.")


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


def show_tables_1_and_2() -> None:
    """Print which distribution Table 2 assumes, and its rows in two conventions."""
    print("\n== Tables 1 and 2: generators of SNP effects ==")
    print("Which distribution? Rows of Table 2 that come out, reading main effects as the step")
    print("from 0 to 1 and the interaction as its value at (1, 1):")
    for name, shares in SNP_DISTRIBUTIONS.items():
        purified = [(purify_snps(before, shares), after) for before, after in SNP_MODELS.values()]
        right = sum(np.allclose(snp_coefficients(d), after) for d, after in purified)
        two_sided = all(is_two_sided(d) for d, _ in purified)
        print(f"  {name:<32} {right} of 5, interaction {'+-one number' if two_sided else 'not'}")
    print("Only SNPs that are 0 or 1 with even odds, independent, give a table of +-0.25.")
    print("(Alleles of frequency 1/4 agree by accident: their mean is 0.5 as well.)\n")
    print(f"{'':<17}Table 1          Table 2 as printed    ours, its convention  | heights, alike")
    for name, (before, after) in SNP_MODELS.items():
        d = purify_snps(before, SNP_DISTRIBUTIONS["0 or 1, even odds"])
        heights = [float(c.values.reshape(-1)[-1]) for c in d.components.values()]
        print(
            f"{name:<17}{_numbers(before, 0)}   {_numbers(after, 2)}   "
            f"{_numbers(snp_coefficients(d), 2)} | {_numbers(heights, 2)}"
        )
    print("Table 2 mixes two conventions: a main effect of 0.5 is a step, +-0.25 around its mean,")
    print(
        "an interaction of 0.25 is the height. In heights all three effects of 'Interaction Only'"
    )
    print(
        "are equal, a third of the variance each. Its third column is positive where the SNPs are"
    )
    print("equal: in terms of the XOR of Figure 1d, which is negative there, the sign turns.")


def purify_surface(values: np.ndarray) -> tp.Decomposition:
    """Purify a function on a square grid under the uniform distribution, by moving mass."""
    return tp.purify_tensors({(0, 1): values}, feature_names=["X1", "X2"], method="mass-moving")


def product_grid(n_cells: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of equal cells of (0, 1] and the product of two of them."""
    middles = (np.arange(n_cells) + 0.5) / n_cells
    return middles, np.outer(middles, middles)


def show_product(out: Path) -> None:
    """Print and draw the pure effects of X1 X2 and of its logarithm."""
    print("\n== Section 7.3: the mystery of log(X1 X2), X uniform on (0, 1] ==")
    middles, product = product_grid()
    d, log = purify_surface(product), purify_surface(np.log(product))
    centred = middles - 0.5
    main_error = np.max(np.abs(d["X1"].values[:, 0] - centred / 2))
    pair_error = np.max(np.abs(d["X1", "X2"].values[..., 0] - np.outer(centred, centred)))
    print("X1 X2 = 1/4 + (X1 - 1/2)/2 + (X2 - 1/2)/2 + (X1 - 1/2)(X2 - 1/2); ours:")
    print(f"  intercept {d.intercept[0]:.4f}")
    print(f"  linear main effects, largest difference {main_error:.1e}")
    print(f"  XOR-like interaction, largest difference {pair_error:.1e}")
    share = d["X1", "X2"].variance[0] / sum(c.variance[0] for c in d.components.values())
    print(
        f"  share of the interaction in the variance {share:.4f} (in the limit 1/7 = {1 / 7:.4f})"
    )
    largest = np.max(np.abs(log["X1", "X2"].values))
    print(f"log(X1 X2): largest value of the interaction {largest:.1e}: there is none")
    sweeps = d.diagnostics["solves"][0]["iterations"]
    print(
        f"Sweeps of the paper's Algorithm 1: {sweeps}; with equal weights one is enough (Theorem 1)"
    )
    _draw_product(d, log, middles, out / "figure_6_product.png")


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
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _cells(table: np.ndarray) -> str:
    return " ".join(f"{value:+.2f}" for value in np.asarray(table).reshape(-1) + 0.0)


def _numbers(values: tuple[float, ...] | list[float], digits: int) -> str:
    return " ".join(f"{value:+6.{digits}f}" for value in values)


def main() -> None:
    """Print every part; parts whose data are not there are left out with the reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--out", type=Path, default=Path("build/paper_purification"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    show_figure_1()
    show_tables_1_and_2()
    show_product(out)
    for part in (show_california_housing, show_compas):
        try:
            part(out)
        except DataUnavailableError as reason:
            print(f"left out: {reason}")
    print(f"\nPictures are in {out}")


if __name__ == "__main__":
    main()
