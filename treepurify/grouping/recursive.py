"""Group features that interact, by recursive decomposition grouping."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from treepurify.grids.grid import Subset
from treepurify.grouping.counted_function import CountedFunction
from treepurify.grouping.value_functions import ValueFunction
from treepurify.typing import Array


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What a test of two sets of features found.

    Parameters
    ----------
    difference : float
        Largest non-additivity over the probes.
    tolerance : float
        Tolerance at that probe.
    interacts : bool
        Whether any probe exceeds its tolerance.
    witness : ndarray of float64
        The probe that exceeds it the most: as many rows as a probe has.
    """

    difference: float
    tolerance: float
    interacts: bool
    witness: Array


GroupingTest = Callable[[Sequence[int], Sequence[int], Array | None], _Outcome]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups, and how clearly they are separated.

    Parameters
    ----------
    groups : tuple of tuple of int
        The groups, by first member.
    tests : int
        Number of tests of two sets of features.
    largest_additive : float
        Largest non-additivity seen in a test that found none above its tolerance.
    smallest_interaction : float
        Smallest of the largest non-additivities of the tests that found one; infinite
        where none did.
    """

    groups: tuple[Subset, ...]
    tests: int
    largest_additive: float
    smallest_interaction: float


class _Recorder:
    """Runs tests and keeps what the report needs."""

    def __init__(self, test: GroupingTest) -> None:
        self._test = test
        self.tests = 0
        self.largest_additive = 0.0
        self.smallest_interaction = np.inf

    def __call__(self, first: list[int], second: list[int], witness: Array | None) -> _Outcome:
        outcome = self._test(first, second, witness)
        self.tests += 1
        if outcome.interacts:
            self.smallest_interaction = min(self.smallest_interaction, outcome.difference)
        else:
            self.largest_additive = max(self.largest_additive, outcome.difference)
        return outcome


def group_recursively(
    n_features: int, test: GroupingTest, progress: Callable[[str, int, int], None]
) -> Grouping:
    """Group features by Algorithm 2 of Sivill and Flach (2023), with two corrections.

    The last group is kept where no feature remains; the printed algorithm loses it. Every
    test draws new probes, and the probe that showed an interaction is passed on: when the
    second set is halved, one of the halves must show it again, so no interaction is lost.

    Parameters
    ----------
    n_features : int
        Number of features.
    test : GroupingTest
        Whether two sets of features interact.
    progress : callable
        Called with a word, the number of features placed and their number.

    Returns
    -------
    Grouping
        O(n log n) tests for groups of bounded size (Sun, Kirley and Halgamuge 2017).
    """
    recorder = _Recorder(test)
    groups = []
    remaining = list(range(n_features))
    while remaining:
        group = [remaining.pop(0)]
        while remaining:
            partners = _partners(group, remaining, recorder, None)
            if not partners:
                break
            group += partners
            remaining = [j for j in remaining if j not in partners]
        groups.append(tuple(sorted(group)))
        progress("grouping features", n_features - len(remaining), n_features)
    return Grouping(
        tuple(sorted(groups)),
        recorder.tests,
        recorder.largest_additive,
        float(recorder.smallest_interaction),
    )


def _partners(
    group: list[int], others: list[int], test: _Recorder, witness: Array | None
) -> list[int]:
    """Return the features of `others` that interact with the group (Algorithm 1)."""
    outcome = test(group, others, witness)
    if not outcome.interacts:
        return []
    if len(others) == 1:
        return others
    middle = len(others) // 2
    first, second = others[:middle], others[middle:]
    # The differences of the two halves add up to that of the whole if the second is taken
    # with the first half already exchanged.
    exchanged = outcome.witness.copy()
    if len(exchanged) == 2:
        exchanged[1, first] = exchanged[0, first]
    return _partners(group, first, test, outcome.witness) + _partners(
        group, second, test, exchanged
    )


def mixing_test(
    function: CountedFunction,
    X: Array,
    probes: int,
    tolerance: tuple[float, float],
    rng: np.random.Generator,
) -> GroupingTest:
    """Return the test of equation 6: exchange features between two rows of the data.

    Two sets A and B are additive between the rows x and x' if
    ``f(x_A, x_B) - f(x_B) - f(x_A) + f(x')`` is zero, the features not named being those of x'.

    Parameters
    ----------
    function : CountedFunction
        The function.
    X : ndarray of float64, shape (n_rows, n_features)
        Rows that probes are drawn from.
    probes : int
        Pairs of rows per test.
    tolerance : tuple of float
        Relative to the sum of the absolute values of the four evaluations, and absolute.
    rng : Generator
        Draws the probes.
    """
    relative, absolute = tolerance

    def test(first: Sequence[int], second: Sequence[int], witness: Array | None) -> _Outcome:
        x = X[rng.integers(len(X), size=probes)]
        other = X[rng.integers(len(X), size=probes)]
        if witness is not None:
            x, other = np.vstack([witness[:1], x]), np.vstack([witness[1:], other])
        mixed = [other.copy() for _ in range(4)]
        for k, features in enumerate(([*first, *second], second, first)):
            mixed[k][:, list(features)] = x[:, list(features)]
        values = function(np.concatenate(mixed)).reshape(4, len(x), -1)
        difference = np.abs(values[0] - values[1] - values[2] + values[3])
        allowed = relative * np.abs(values).sum(axis=0) + 4 * absolute
        return _outcome(difference, allowed, lambda row: np.stack([x[row], other[row]]))

    return test


def value_test(
    value: ValueFunction,
    X: Array,
    probes: int,
    tolerance: tuple[float, float],
    rng: np.random.Generator,
) -> GroupingTest:
    """Return the test of equation 7, for any value function.

    Two sets A and B are additive for a row if ``v(A and B) - v(A) - v(B)`` is zero. Parameters
    are those of `mixing_test`.
    """
    relative, absolute = tolerance

    def test(first: Sequence[int], second: Sequence[int], witness: Array | None) -> _Outcome:
        x = X[rng.integers(len(X), size=probes)]
        if witness is not None:
            x = np.vstack([witness, x])
        values = np.stack([value(x, [*first, *second]), value(x, first), value(x, second)])
        difference = np.abs(values[0] - values[1] - values[2])
        scale = np.abs(values + value.base).sum(axis=0) + np.abs(value.base)
        allowed = relative * scale + 4 * absolute
        return _outcome(difference, allowed, lambda row: x[[row]])

    return test


def _outcome(difference: Array, allowed: Array, witness: Callable[[int], Array]) -> _Outcome:
    excess = difference - allowed
    row, output = np.unravel_index(int(np.argmax(excess)), excess.shape)
    return _Outcome(
        float(difference[row, output]),
        float(allowed[row, output]),
        bool(excess[row, output] > 0),
        witness(int(row)),
    )
