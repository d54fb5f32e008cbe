"""
Figure 4 of the purification paper: where are houses expensive?
===============================================================

An XGBoost model of depth 2 on California Housing: the interaction of latitude and longitude
before and after purification. Part of ``paper_purification.py``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import treepurify as tp
from examples.data import DataSet, california_housing
from examples.reproduction import Entry, Table, publish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEY = ("Latitude", "Longitude")
ROUNDS = 300
WEIGHTS = ("uniform", "empirical", "laplace")
MANY_DISTRICTS = 50

# Latitude and longitude along the coast, from San Diego to Crescent City; west of it is sea.
COAST = np.array(
    [
        (32.5, -117.12),
        (33.2, -117.39),
        (33.75, -118.4),
        (34.0, -118.8),
        (34.27, -119.29),
        (34.45, -120.0),
        (34.58, -120.65),
        (35.6, -121.15),
        (36.6, -121.95),
        (37.5, -122.5),
        (38.0, -123.02),
        (38.95, -123.74),
        (40.44, -124.41),
        (42.0, -124.2),
    ]
)


@dataclass(frozen=True, eq=False)
class Interaction:
    """Latitude x longitude on the cells of a model.

    Parameters
    ----------
    edges : tuple of ndarray
        Edges of the cells along latitude and longitude, the outer ones at the data's ends.
    before, after : ndarray of shape (n_latitudes, n_longitudes)
        Effect in 100 000 dollars; the former is shifted to mean zero.
    districts : ndarray of shape (n_latitudes, n_longitudes)
        Number of districts in each cell.
    """

    edges: tuple[np.ndarray, np.ndarray]
    before: np.ndarray
    after: np.ndarray
    districts: np.ndarray

    def middles(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the middles of the cells."""
        latitude, longitude = (0.5 * (edges[1:] + edges[:-1]) for edges in self.edges)
        return latitude, longitude

    def is_sea(self) -> np.ndarray:
        """Return which cells without districts have their middle in the Pacific."""
        latitude, longitude = self.middles()
        west = longitude < np.interp(latitude, COAST[:, 0], COAST[:, 1])[:, None]
        return west & (self.districts == 0)


def train(data: DataSet, rounds: int = ROUNDS) -> Any:
    """Train the paper's XGB2: boosted trees of depth 2."""
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=rounds, max_depth=2, learning_rate=0.1).fit(data.X, data.y)


def interaction(d: tp.Decomposition, data: DataSet) -> Interaction:
    """Return the interaction of latitude and longitude of a purified model."""
    component = d[KEY]
    edges = tuple(
        np.concatenate([[axis.bounds[0]], axis.cuts, [axis.bounds[1]]]) for axis in component.axes
    )
    cells = [np.searchsorted(axis.cuts, data.X[axis.name], side="right") for axis in component.axes]
    districts = np.zeros(component.mass.shape, dtype=int)
    np.add.at(districts, tuple(cells), 1)
    before = component.raw[..., 0]
    mean = np.sum(component.mass * before)
    return Interaction((edges[0], edges[1]), before - mean, component.values[..., 0], districts)


def variance_shares(d: tp.Decomposition) -> tuple[float, float]:
    """Return the interaction's share of the sum of all variances, before and after."""
    before, after = {}, {}
    for subset, component in d.components.items():
        after[subset] = float(component.variance[0])
        before[subset] = 0.0
        if component.raw is not None:
            raw = component.raw[..., 0]
            mean = np.sum(component.mass * raw)
            before[subset] = float(np.sum(component.mass * (raw - mean) ** 2))
    own = d[KEY].features
    return before[own] / sum(before.values()), after[own] / sum(after.values())


def show_california_housing(out: Path, folder: Path | None, rounds: int = ROUNDS) -> None:
    """Print where the interaction is largest before and after, and draw Figure 4."""
    data = california_housing()
    model = train(data, rounds)
    purified = {
        weights: tp.purify(model, data.X, weights=weights, progress=False) for weights in WEIGHTS
    }
    verified = purified["empirical"].verify(model, data.X)
    entries = [entry for weights, d in purified.items() for entry in _entries(weights, d, data)]
    table = Table(
        "purification_figure_4",
        "Figure 4: California Housing, XGBoost of depth 2, latitude x longitude",
        (
            "share of variance",
            "mean at sea",
            "largest of all cells",
            f"of cells with {MANY_DISTRICTS} districts",
        ),
        entries,
        ".3f",
        (
            f"{rounds} rounds; effects in 100 000 dollars. The sum of the effects is the model"
            f" within {verified.relative_difference:.0e} on {verified.n_rows} rows (the library's"
            " predictions are in single precision).",
            "Before purification the most expensive place lies far out in the Pacific, as in the "
            "paper. Afterwards the sea is worth a fraction of that (the colours of the two maps of "
            "every cell have different scales, and end at 3 before and at 1 after). It does not "
            "vanish under every distribution: places without a district still have some value, "
            "which comes from the trees and not from data, and the uniform distribution counts "
            "the sea like the land.",
        ),
        "purification_figure_4.png",
    )
    publish(table, folder)
    _draw(purified["empirical"], data, out / "purification_figure_4.png")


def _entries(weights: str, d: tp.Decomposition, data: DataSet) -> list[Entry]:
    found = interaction(d, data)
    sea = found.is_sea()
    entries = []
    for name, effect, share in zip(
        ("before", "after"), (found.before, found.after), variance_shares(d), strict=True
    ):
        places = [_place(found, effect, least) for least in (0, MANY_DISTRICTS)]
        cells = (share, float(effect[sea].mean()), *places)
        entries.append(Entry(f"{weights}, {name}", (), {"ours": cells}))
    return entries


def _place(found: Interaction, effect: np.ndarray, least: int) -> str:
    """Describe the cell of largest effect among those with at least `least` districts."""
    latitude, longitude = found.middles()
    shown = np.where(found.districts >= least, effect, -np.inf)
    i, j = np.unravel_index(np.argmax(shown), shown.shape)
    where = "at sea" if found.is_sea()[i, j] else "on land"
    return (
        f"{effect[i, j]:+.2f} at {latitude[i]:.1f} N {-longitude[j]:.1f} W "
        f"({where}, {found.districts[i, j]} districts)"
    )


def _draw(d: tp.Decomposition, data: DataSet, path: Path) -> None:
    import matplotlib.pyplot as plt

    from treepurify import plots

    found = interaction(d, data)
    figure, panels = plt.subplots(2, 3, figsize=(15, 9), layout="constrained")
    _draw_every_cell(panels[0, 0], found, found.before)
    panels[0, 0].set_title("before purification, every cell")
    _draw_every_cell(panels[0, 1], found, found.after)
    panels[0, 1].set_title("purified, every cell (narrower scale)")
    _draw_districts(panels[0, 2], data)
    plots.pair(d, KEY[::-1], before=True, ax=panels[1, 0])
    panels[1, 0].set_title("before purification, where districts are")
    plots.pair(d, KEY[::-1], ax=panels[1, 1])
    panels[1, 1].set_title("purified, where districts are (narrower scale)")
    plots.importance(d, top=8, ax=panels[1, 2])
    figure.savefig(path, dpi=60)
    plt.close(figure)


def _draw_every_cell(ax: "Axes", found: Interaction, effect: np.ndarray) -> None:
    """Draw cells without districts, too, as the paper does: that is where its point is."""
    latitude, longitude = found.edges
    limit = np.quantile(np.abs(effect), 0.98)
    mesh = ax.pcolormesh(longitude, latitude, effect, cmap="RdBu_r", vmin=-limit, vmax=limit)
    place = ax.inset_axes((1.03, 0.0, 0.035, 1.0))
    ax.get_figure().colorbar(mesh, cax=place, label="100 000 dollars", extend="both")
    _draw_coast(ax, found)


def _draw_districts(ax: "Axes", data: DataSet) -> None:
    dots = ax.scatter(data.X["Longitude"], data.X["Latitude"], c=data.y, s=1, cmap="viridis")
    place = ax.inset_axes((1.03, 0.0, 0.035, 1.0))
    ax.get_figure().colorbar(dots, cax=place, label="median value, 100 000 dollars")
    ax.set(title="the districts", xlabel="Longitude", ylabel="Latitude")


def _draw_coast(ax: "Axes", found: Interaction) -> None:
    latitude, longitude = found.edges
    ax.plot(COAST[:, 1], COAST[:, 0], color="black", linewidth=1)
    ax.set(xlim=longitude[[0, -1]], ylim=latitude[[0, -1]], xlabel="Longitude", ylabel="Latitude")
