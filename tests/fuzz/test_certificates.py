"""Certificates of random hard purifications against rational arithmetic.

``TREEPURIFY_FUZZ_SECONDS=3600 pytest -s tests/fuzz/test_certificates.py`` goes on for an hour;
``TREEPURIFY_FUZZ_SEED`` is the first seed. Without the first, a fixed number is run.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

import treepurify as tp
from tests.fuzz.hard_masses import MILD, Case, draw_case, draw_support
from tests.fuzz.trial_seeds import consecutive_seeds
from tests.reference.rational import closure, purify, undetermined
from treepurify.purification.unidentified import count_unidentified

pytestmark = pytest.mark.fuzz

# Reported errors are measured, no bounds: those above the first must be right to a factor of ten,
# and with an error above the second nothing passes as exact.
_SMALL, _EXACT = 1e-9, 1e-8
# Along undetermined directions the least norm is a convention, which slices of little mass follow
# only to rounding over the root of their mass.
_LEAST_NORM = 1e-4, 1e-4


def true_errors(case: Case, d: tp.Decomposition) -> dict[tuple[int, ...], float]:
    """Largest error of each component, and of the intercept under (), in cells with mass."""
    truth = purify(case.tensors, case.mass, case.intercept)
    found = {subset: component.values for subset, component in d.components.items()}
    found[()] = d.intercept
    return {
        subset: max(
            abs(float(Fraction(float(mine)) - entry))
            for cell, entries in truth[subset].items()
            for mine, entry in zip(values[cell], entries, strict=True)
        )
        for subset, values in found.items()
    }


def margins(mass: np.ndarray, subsets: Iterable[tuple[int, ...]]) -> list[np.ndarray]:
    """The mass of each subset of two and more features in the closure, the largest last."""
    axes = {*range(mass.ndim)}
    return [mass.sum(axis=tuple(axes - {*own})) for own in closure(subsets) if len(own) > 1]


def is_undetermined(case: Case) -> bool:
    """Whether some tensor's support leaves a direction of its lower effects open."""
    return any(undetermined(margin) > 0 for margin in margins(case.mass, case.tensors))


def violations(case: Case, d: tp.Decomposition) -> list[str]:
    certificate, found = d.certificate, []
    errors = true_errors(case, d)
    reported = {tuple(own["features"]): own["error"] for own in d.diagnostics["errors"]}
    is_open = is_undetermined(case)
    small, exact = _LEAST_NORM if is_open and case.kind not in MILD else (_SMALL, _EXACT)
    for subset, error in errors.items():
        if not error <= max(10 * reported[subset], small * certificate.scale):
            found.append(f"{subset} is wrong by {error:.3g}, reported {reported[subset]:.3g}")
    largest = max(errors.values()) / (certificate.scale or 1.0)
    if certificate.is_exact and not largest <= exact:
        found.append(f"exact, with an error of {largest:.3g}")
    if None in d.origin.open_directions.values():
        found.append("directions were not counted")
    if is_open and not certificate.unidentified:
        found.append("an undetermined direction was missed")
    # Elsewhere a link of less mass than rounding counts as none, and the error says so.
    if case.kind in MILD:
        if certificate.unidentified and not is_open:
            found.append("a determined direction was counted as undetermined")
        if not certificate.is_exact:
            found.append(f"not exact, with a solver error of {certificate.solver_error:.3g}")
    return found


def test_no_certificate_promises_more_than_holds():
    counts: Counter[str] = Counter()
    failures = []
    for seed in consecutive_seeds(120):
        case = draw_case(seed)
        d = tp.purify_tensors(
            case.tensors,
            case.mass,
            intercept=case.intercept,
            output_names=[f"y{k}" for k in range(len(case.intercept))],
            progress=False,
        )
        found = violations(case, d)
        failures += [f"seed {seed} ({case.kind}, {case.mass.shape}): {what}" for what in found]
        counts.update(
            trials=1,
            exact=d.certificate.is_exact,
            undetermined=d.certificate.unidentified > 0,
        )
    print(  # noqa: T201
        f"\ncertificates: {counts['trials']} trials, {len(failures)} violations "
        f"({counts['exact']} exact, {counts['undetermined']} with undetermined directions)"
    )
    report(failures)


def test_every_undetermined_direction_is_counted():
    counts: Counter[str] = Counter()
    failures = []
    for seed in consecutive_seeds(250):
        mass = draw_support(seed)
        everything = tuple(range(mass.ndim))
        found = [count_unidentified(own) for own in margins(mass, [everything])]
        directions = undetermined(mass)
        # Three features that are copies have two directions, and each of three pairs has one.
        if not found[-1] <= directions <= sum(found):
            failures.append(f"seed {seed} ({mass.shape}): {found} for {directions} directions")
        counts.update(trials=1, open=directions > 0, only_above=not any(found[:-1]) and any(found))
    print(  # noqa: T201
        f"\nundetermined directions: {counts['trials']} trials, {len(failures)} violations "
        f"({counts['open']} have some, {counts['only_above']} in the largest tensor only)"
    )
    report(failures)


def report(failures: list[str]) -> None:
    repeat = "Repeat with TREEPURIFY_FUZZ_SEED=<seed> and TREEPURIFY_FUZZ_SECONDS=0.01"
    assert not failures, "\n".join([*failures[:20], repeat])
