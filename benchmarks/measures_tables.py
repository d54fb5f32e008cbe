"""Print the tables and verdicts of `docs/developers_measured.md` on measures.

They come from what `measures.py` kept; long ones are `docs/measured/*.csv` on that page.
Run: ``python benchmarks/measures_tables.py``
"""

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Store = dict[str, dict[str, dict[str, list[float | None]]]]

STORE = Path(__file__).with_name("measures.json")
OTHERS = ("independent", "copula")
WEIGHTS = ("empirical", *OTHERS, "auto")
COARSE = ("coarse 4", "coarse 8", "coarse 16", "coarse 32")
PROJECTED = ("projected", "projected 4", "projected 8", "projected 16")
TRUTH_KEYS = ("correlation", "features", "depth", "rows")
POPULATION_KEYS = ("population", "depth", "rows")


@dataclass(frozen=True)
class Found:
    """Errors of one line: one row per seed that has all of the columns, one column per measure."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    errors: np.ndarray

    def mean(self, column: str) -> float:
        """The mean over seeds."""
        return float(self.errors[:, self.columns.index(column)].mean())

    def ratio(self, other: str, column: str = "auto") -> float:
        """The mean of a column over that of another."""
        return self.mean(column) / self.mean(other)

    def standard_error(self, other: str) -> float:
        """Standard error of the mean difference of "auto" and another; nan for a single seed."""
        if len(self.errors) < 2:
            return np.nan
        auto, there = (self.errors[:, self.columns.index(name)] for name in ("auto", other))
        return float((auto - there).std(ddof=1) / np.sqrt(len(auto)))

    def is_further(self, other: str) -> bool:
        """Whether "auto" is further away than another by more than one standard error."""
        error = np.nan_to_num(self.standard_error(other))
        return self.mean("auto") - self.mean(other) > error


def lines_of(store: Store, table: str, columns: tuple[str, ...]) -> list[Found]:
    """The lines of a table that have the columns, sorted by their keys."""
    found = []
    for name, there in store.get(table, {}).items():
        if set(columns) <= there.keys():
            every = zip(*(there[column] for column in columns), strict=False)
            errors = np.array([values for values in every if None not in values], dtype=float)
            if len(errors):
                found.append(Found(tuple(name.split(" | ")), columns, errors))
    return found


def by_numbers(line: Found) -> tuple[float, ...]:
    """Sort key of the lines against a known truth: features, correlation, depth, rows."""
    correlation, features, depth, rows = map(float, line.keys)
    return features, correlation, depth, rows


def print_table(keys: Sequence[str], columns: Sequence[str], rows: Iterator[list[str]]) -> None:
    """Print a table of Markdown."""
    print(f"\n| {' | '.join([*keys, *columns])} |")
    print(f"|{'---|'}{'---:|' * (len(keys) + len(columns) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def thousands(key: str) -> str:
    """Digits in groups of three from a thousand on."""
    return f"{int(key):,}".replace(",", " ") if key.isdigit() else key


def cells(line: Found, columns: Sequence[str]) -> list[str]:
    """The keys of a line and its means."""
    keys = [thousands(key) for key in line.keys]
    return [*keys, *(f"{line.mean(column):.3f}" for column in columns)]


def with_error(line: Found, columns: Sequence[str], other: str, *more: str) -> list[str]:
    """The same with more cells, the standard error of the difference, and the number of seeds."""
    error = line.standard_error(other)
    words = "" if np.isnan(error) else f"{error:.3f}"
    return [*cells(line, columns), *more, words, str(len(line.errors))]


def with_others(store: Store, table: str, lines: list[Found]) -> Iterator[list[str]]:
    """The same between whose first means stand those of others, over the seeds that they have."""
    for line in lines:
        there = store[table][" | ".join(line.keys)]
        found = ([v for v in there.get(name, []) if v is not None] for name in OTHERS)
        means = [f"{np.mean(values):.3f}" if values else "" for values in found]
        row = with_error(line, line.columns, "empirical")
        place = len(line.keys) + 1
        yield [*row[:place], *means, *row[place:]]


def say(text: str) -> None:
    """Print a paragraph."""
    print("\n" + textwrap.fill(text, 120))


def further(lines: list[Found], other: str, keys: Sequence[str]) -> str:
    """Where "auto" is further away than another, in words."""
    above = [line for line in lines if line.ratio(other) > 1]
    clear = [line for line in above if line.is_further(other)]
    places = [
        ", ".join(f"{key} {value}" for key, value in zip(keys, line.keys, strict=True))
        + f", by {100 * (line.ratio(other) - 1):.1f}%"
        for line in clear
    ]
    return (
        f"further away than {other} in {len(above)} of the {len(lines)} lines, in {len(clear)} of "
        "them by more than one standard error" + (": " + "; ".join(places) if places else "") + "."
    )


def seeds(lines: list[Found]) -> str:
    """How many seeds lines have, in words."""
    counts = np.array([len(line.errors) for line in lines])
    return (
        f"{np.sum(counts >= 20)} of {len(lines)} lines have 20 seeds, {np.sum(counts >= 5)} five or"
        f" more, {np.sum(counts < 3)} one or two."
    )


def print_truth(store: Store) -> None:
    """Print distances from the exact components, and those of treehfd."""
    columns = ("empirical", "auto", "floor")
    lines = sorted(lines_of(store, "truth", columns), key=by_numbers)
    print_table(
        TRUTH_KEYS,
        [*columns, "auto over floor", "+-", "seeds"],
        (with_error(line, columns, "empirical", f"{line.ratio('floor'):.2f}") for line in lines),
    )
    ratios = [line.ratio("floor") for line in lines]
    say(
        f"auto is within 1.15 times the floor in {sum(r <= 1.15 for r in ratios)} of the "
        f"{len(lines)} lines (in the median {np.median(ratios):.2f}, at most {max(ratios):.2f}), "
        f"and {further(lines, 'empirical', TRUTH_KEYS)} {seeds(lines)}"
    )
    clear = [line for line in lines if line.is_further("empirical")]
    beyond = sum(line.ratio("empirical", "floor") > 1 for line in clear)
    say(f"In {beyond} of these {len(clear)} the floor, too, is further away than empirical.")
    columns = ("empirical", "auto", "treehfd")
    lines = sorted(lines_of(store, "truth", columns), key=by_numbers)
    rows = (with_error(line, columns, "treehfd") for line in lines)
    print_table(TRUTH_KEYS, [*columns, "+-", "seeds"], rows)
    say(f"auto is {further(lines, 'treehfd', TRUTH_KEYS)} {seeds(lines)}")


def print_populations(store: Store) -> None:
    """Print distances from the same model under many rows."""
    lines = lines_of(store, "population", ("empirical", "auto"))
    lines = sorted(lines, key=lambda line: (line.keys[0], *map(int, line.keys[1:])))
    rows = with_others(store, "population", lines)
    print_table(POPULATION_KEYS, [*WEIGHTS, "+-", "seeds"], rows)
    median = np.median([line.ratio("empirical") for line in lines])
    say(
        f"auto is {further(lines, 'empirical', POPULATION_KEYS)} In the median it is at "
        f"{median:.2f} times its distance. {seeds(lines)}"
    )


def print_coarse(store: Store) -> None:
    """Print how coarse cells compare with the rows, in medians over lines."""
    for coarse in (COARSE, PROJECTED):
        lines = lines_of(store, "coarse", ("empirical", "auto", *coarse))
        medians = (f"{np.median([f.ratio('empirical', c) for f in lines]):.2f}" for c in coarse)
        best = [min(f.ratio("empirical", column) for column in coarse) for f in lines]
        auto = [f.ratio("empirical") for f in lines]
        nearer = sum(b < a for b, a in zip(best, auto, strict=True))
        say(
            f"{', '.join(coarse)}: on {len(lines)} lines {', '.join(medians)} times the distance "
            f"of empirical in the median; the best of them, in hindsight, {np.median(best):.2f}; "
            f"auto {np.median(auto):.2f}. The best is nearer than auto in {nearer} lines. "
            f"{seeds(lines)}"
        )


def print_real(store: Store) -> None:
    """Print distances on real data."""
    lines = lines_of(store, "real", ("empirical", "auto"))
    rows = with_others(store, "real", lines)
    print_table(("data", "depth"), [*WEIGHTS, "+-", "seeds"], rows)
    median = np.median([line.ratio("empirical") for line in lines])
    say(
        f"In the median auto is at {median:.2f} times the distance of empirical; it is "
        f"{further(lines, 'empirical', ('data', 'depth'))} {seeds(lines)}"
    )


def print_tables() -> None:
    """Print everything that is in the file."""
    store: Store = json.loads(STORE.read_text()) if STORE.exists() else {}
    for show in (print_truth, print_populations, print_coarse, print_real):
        show(store)


if __name__ == "__main__":
    print_tables()
