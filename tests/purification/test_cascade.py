"""Families of tensors: the cascade against the full dense functional ANOVA."""

import threading
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from tests.reference.dense import functional_anova
from treepurify import threads
from treepurify.effects.tensor import EffectTensor, EffectTensors
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.purification import cascade
from treepurify.purification.cascade import downward_closure, purify_effects, refine
from treepurify.purification.general import solve_exactly
from treepurify.purification.purity import measure_purity, subset_pairs


def silent(word: str, done: int, total: int) -> None:
    """No progress in tests."""


def make_axes(shape: tuple[int, ...]) -> tuple[FeatureAxis, ...]:
    return tuple(FeatureAxis(f"x{j}", np.arange(size - 1.0)) for j, size in enumerate(shape))


def family(shape, subsets, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    axes = make_axes(shape)
    tensors = {
        s: EffectTensor(
            s,
            tuple(axes[j] for j in s),
            rng.normal(size=(*(shape[j] for j in s), outputs)),
        )
        for s in subsets
    }
    return EffectTensors(rng.normal(size=outputs), tensors), axes


def margins(joint, subsets):
    return {s: joint.sum(axis=tuple(j for j in range(joint.ndim) if j not in s)) for s in subsets}


def joint_mass(shape, seed=0):
    mass = np.random.default_rng(seed).uniform(0.05, 1, shape) ** 3
    return mass / mass.sum()


def total_on_full_grid(effects, shape):
    total = np.tile(effects.intercept, (*shape, 1))
    for subset, tensor in effects.tensors.items():
        own = [shape[j] if j in subset else 1 for j in range(len(shape))]
        total = total + tensor.values.reshape(*own, -1)
    return total


@pytest.mark.parametrize("method", ["exact", "mass-moving"])
@pytest.mark.parametrize(
    ("shape", "subsets"),
    [
        ((3, 4), [(0, 1)]),
        ((3, 4, 2), [(0,), (0, 1), (1, 2)]),
        ((3, 3, 3), [(0, 1, 2), (0, 2)]),
        ((2, 3, 2, 3), [(0, 1, 2, 3), (1, 3), (2,)]),
        ((2, 3, 2, 3), [(0, 1, 3), (1, 2), (0, 2, 3)]),
    ],
)
def test_equals_the_full_functional_anova(shape, subsets, method):
    effects, axes = family(shape, subsets, outputs=2)
    joint = joint_mass(shape)
    closure = downward_closure(subsets)
    purified = purify_effects(
        effects,
        margins(joint, closure),
        {s: tuple(axes[j] for j in s) for s in closure},
        method=method,
        progress=silent,
    )
    truth = functional_anova(total_on_full_grid(effects, shape), joint)
    np.testing.assert_allclose(purified.intercept, truth[()], atol=1e-11)
    for subset, component in truth.items():
        if subset in purified.effects:
            np.testing.assert_allclose(purified.effects[subset], component, atol=1e-10)
        elif subset:
            np.testing.assert_allclose(component, 0, atol=1e-11)


def test_tables_purified_side_by_side_are_the_same(monkeypatch):
    shape = (4, 5, 3, 4)
    effects, axes = family(shape, [*combinations(range(4), 3)], outputs=2)
    joint = joint_mass(shape)
    closure = downward_closure(effects.tensors)
    mass, own_axes = margins(joint, closure), {s: tuple(axes[j] for j in s) for s in closure}
    alone = purify_effects(effects, mass, own_axes, progress=silent)
    seen = set()

    def solve_and_note(*arguments, **options):
        seen.add(threading.current_thread().name)
        return solve_exactly(*arguments, **options)

    monkeypatch.setattr(cascade, "solve_exactly", solve_and_note)
    monkeypatch.setattr(cascade, "_MUCH_WORK", 0)
    monkeypatch.setattr(threads, "available_threads", lambda: 3)
    together = purify_effects(effects, mass, own_axes, progress=silent)
    assert threading.main_thread().name not in seen
    assert list(together.effects) == list(alone.effects)
    for subset, values in alone.effects.items():
        np.testing.assert_array_equal(together.effects[subset], values)
    np.testing.assert_array_equal(together.intercept, alone.intercept)
    assert (together.errors, together.additivity) == (alone.errors, alone.additivity)


def test_variances_add_up_under_a_product_mass():
    shape = (3, 4, 2)
    effects, axes = family(shape, [(0, 1, 2), (0, 1), (2,)])
    rng = np.random.default_rng(1)
    joint = np.ones(())
    for size in shape:
        joint = np.multiply.outer(joint, rng.dirichlet(np.ones(size)))
    closure = downward_closure(effects.tensors)
    mass = margins(joint, closure)
    purified = purify_effects(
        effects, mass, {s: tuple(axes[j] for j in s) for s in closure}, progress=silent
    )
    total = total_on_full_grid(effects, shape)[..., 0]
    variance = (joint * (total - (joint * total).sum()) ** 2).sum()
    parts = [(mass[s] * purified.effects[s][..., 0] ** 2).sum() for s in closure]
    assert sum(parts) == pytest.approx(variance, rel=1e-12)


def tables(effects, mass, axes):
    """Effects with their cells, as components have them."""
    return {
        s: SimpleNamespace(values=values, mass=mass[s], axes=axes[s])
        for s, values in effects.items()
    }


def test_purity_is_measured_where_it_fails():
    shape = (3, 4)
    joint = joint_mass(shape)
    effects, axes = family(shape, [(0, 1)])
    closure = downward_closure(effects.tensors)
    mass, own_axes = margins(joint, closure), {s: tuple(axes[j] for j in s) for s in closure}
    pure = purify_effects(effects, mass, own_axes, progress=silent).effects
    scale = float(np.abs(effects.tensors[(0, 1)].values).max())
    clean = measure_purity(tables(pure, mass, own_axes), scale)
    assert max(clean.conditional_mean, clean.cosine) <= 1e-13
    spoilt = dict(pure)
    shift = np.random.default_rng(0).normal(size=(3, 1, 1))
    spoilt[(0, 1)] = pure[(0, 1)] + 0.01 * shift
    found = measure_purity(tables(spoilt, mass, own_axes), scale)
    assert found.conditional_mean == pytest.approx(0.01 * np.abs(shift).max() / scale)
    product = (joint[..., None] * spoilt[(0, 1)] * pure[(0,)][:, None]).sum()
    pairs = subset_pairs(tables(spoilt, mass, own_axes), scale)
    row = next(p for p in pairs if p.inside == (0,))
    assert row.inner_product == pytest.approx(product)
    norms = [
        np.sqrt((joint[..., None] * spoilt[(0, 1)] ** 2).sum()),
        np.sqrt((mass[(0,)][:, None] * pure[(0,)] ** 2).sum()),
    ]
    assert row.cosine == pytest.approx(product / np.prod(norms))
    assert found.cosine >= abs(row.cosine)


def test_mains_on_finer_axes_are_independent_within_a_coarse_cell():
    shape = (6, 4)
    joint = joint_mass(shape)
    # Rows come in twos, and the two have one distribution of the other feature.
    shares = np.array([0.3, 0.7])[None, :, None]
    joint = (joint.reshape(3, 2, 4).sum(axis=1, keepdims=True) * shares).reshape(shape)
    rng = np.random.default_rng(0)
    coarse_values, main = rng.normal(size=(3, 4, 1)), rng.normal(size=(6, 1))
    fine, columns = make_axes(shape)
    coarse = FeatureAxis("x0", fine.cuts[1::2])
    effects = {(0,): main, (0, 1): coarse_values}
    mass = {(0,): joint.sum(axis=1), (0, 1): joint.reshape(3, 2, 4).sum(axis=1)}
    axes = {(0,): (fine,), (0, 1): (coarse, columns)}
    pairs = subset_pairs(tables(effects, mass, axes), 1.0)
    found = {p.inside: p for p in pairs if len(p.subset) == 2}
    effects[0, 1] = refine(coarse_values, axes[0, 1], (fine, columns))
    mass[0, 1], axes[0, 1] = joint, (fine, columns)
    pairs = subset_pairs(tables(effects, mass, axes), 1.0)
    truth = {p.inside: p for p in pairs if len(p.subset) == 2}
    for inside in ((), (0,), (1,)):
        for figure in ("inner_product", "cosine", "conditional_mean"):
            expected = getattr(truth[inside], figure)
            assert getattr(found[inside], figure) == pytest.approx(expected, nan_ok=True)


def test_refining_repeats_the_values_of_the_coarse_cell():
    coarse = FeatureAxis("x", np.array([1.0]), has_missing=True)
    fine = FeatureAxis("x", np.array([0.0, 1.0, 2.0]), has_missing=True)
    values = np.array([[1.0], [2.0], [9.0]])
    found = refine(values, (coarse,), (fine,))
    np.testing.assert_array_equal(found[:, 0], [1, 1, 2, 2, 9])


def test_downward_closure():
    found = downward_closure([(0, 1, 3), (2,)])
    expected = {(2,)} | {c for k in (1, 2, 3) for c in combinations((0, 1, 3), k)}
    assert set(found) == expected
    assert found == sorted(found, key=lambda s: (len(s), s))
    assert downward_closure([]) == []


def test_unknown_method():
    effects, _ = family((2, 2), [(0, 1)])
    with pytest.raises(InvalidInputError, match='"exact" or "mass-moving", got \'quick\''):
        purify_effects(effects, {}, {}, method="quick", progress=silent)
