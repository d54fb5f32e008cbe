"""The closed-form functional ANOVA of any function of dependent continuous features."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import comb
from typing import Any, Literal, get_args

import numpy.typing as npt

from treepurify.arguments import check_choice, check_flag, check_number, check_whole
from treepurify.budget import DEFAULT_BUDGET, check_budget, check_memory_budget
from treepurify.decomposition import Decomposition
from treepurify.engines.legendre.axis_fitting import choose_axes
from treepurify.engines.legendre.densities import (
    Density,
    DensityName,
    constant_densities,
    grid_density,
    series_densities,
)
from treepurify.engines.legendre.design import ScaledRows, scaled_rows
from treepurify.engines.legendre.least_squares import least_squares
from treepurify.engines.legendre.moments import measure_moments
from treepurify.engines.legendre.orthogonal_split import split_as_fitted, split_orthogonally
from treepurify.engines.legendre.problem import read_problem
from treepurify.engines.legendre.result import LegendreFit, assemble
from treepurify.engines.legendre.scaling import Axis
from treepurify.engines.legendre.selection import (
    Densities,
    TermSelection,
    as_selection,
    candidate_columns,
    choose_degree,
    select_terms,
)
from treepurify.errors import InvalidInputError
from treepurify.grids.grid import Subset
from treepurify.origin import called
from treepurify.progress import progress_report

_MOST_ORDER = 3
_DENSITY_DEGREE = 4
_DENSITY_CLIP = 0.01


def legendre_anova(  # noqa: PLR0913 - what all engines take, and how functions are fitted
    model: Any,
    X: Any,
    *,
    order: int = 2,
    degree: int | None = None,
    density: DensityName = "none",
    density_degree: int | None = None,
    density_clip: float | None = None,
    scaling: str | Mapping[str, str] = "auto",
    selection: Literal["bic", "aic", "all"] | TermSelection = "bic",
    orthogonal: bool = True,
    sample_weight: npt.ArrayLike | str | None = None,
    feature_names: Sequence[str] | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    progress: bool = True,
) -> Decomposition:
    """Decompose any function of dependent continuous features, under the distribution of rows.

    The function is fitted by least squares on products of functions of one feature each, selected
    by LARS and an information criterion (Ferrere et al., "Generalized Functional ANOVA in
    Closed-Form", appendix C). Each effect is then made orthogonal to all functions of fewer of its
    features, which changes neither the sum nor R2.

    The paper divides the products by the density of their features, which makes them orthogonal
    without that last step (definition 4.1 and theorem 4.2). If features depend strongly on
    each other, estimated densities are small and uncertain at many rows, and errors of effects on
    new rows were twice as large; ``density="legendre"`` with ``scaling="tanh"`` and
    ``orthogonal=False`` is the paper's method. Features with levels use contrasts of levels, which
    sum to zero, in place of polynomials, which integrate to zero. Missing values of a numeric
    feature are an extra level in addition to its polynomials (not with densities): the effect
    has one value for them, and a curve for all others. Figures draw the curve.

    Parameters
    ----------
    model : object, str, Path, callable, or array_like of shape (n_rows,) or (n_rows, n_outputs)
        A model that `parse_model` knows (on its margin scale), an object with ``predict``, or
        a function X -> (n_rows,) or (n_rows, n_outputs); or its values on the rows.
    X : array_like, table of shape (n_rows, n_features), or rows in batches
        The rows. For rows in batches, as in `purify`, a weighted sample of at most 100 000
        is used; ``diagnostics["stream"]`` says so.
    order : {1, 2, 3}
        Largest number of features of an effect.
    degree : int, optional
        Largest degree of a polynomial. By default 10, or if there are too few rows, the largest
        degree with two rows for each column; the certificate and ``diagnostics["degree"]`` say so.
    density : {"none", "legendre", "kernel"}
        The density by which products are divided. ``"none"``: they are not divided.
        ``"legendre"``: a truncated Legendre series (equation 79). ``"kernel"``: Gaussian kernels,
        reflected at the ends and corrected towards orthogonality, which are never negative.
    density_degree : int, optional
        Largest degree of the series of densities; 4 unless given.
    density_clip : float, optional
        Densities on the scaled features are raised to at least this value (remark C.2), 0.01
        unless given. If that changes more than 5% of the rows, a `SupportWarning` names the
        features.
    scaling : {"auto", "score", "rank", "tanh", "minmax", "levels"} or mapping of str to str
        How features are mapped to [-1, 1]. ``"rank"``: by their smoothed ranks, on which outliers
        have no influence. ``"score"``: likewise, but two functions that follow tails (the normal
        score of the rank and its square) replace the polynomials of the two largest degrees, from
        degree 3 on. ``"tanh"``: by the hyperbolic tangent of the standardised feature, as in the
        paper. ``"minmax"``: by their range. ``"levels"``: each distinct value is a level.
        ``"auto"``: levels for categories and for numbers of at most 10 distinct values; scores if a
        fit of degree 4 shows that the function follows tails; else ranks. A mapping names the
        scaling of some features.
    selection : {"bic", "aic", "all"} or options.TermSelection
        The criterion along the path; `treepurify.options.TermSelection` has more.
    orthogonal : bool
        Whether to make effects orthogonal to the functions of fewer of their features. If False,
        they are orthogonal only as far as the densities are right, as in the paper.
    sample_weight : array_like of shape (n_rows,) or str, optional
        Weight of each row, finite and not negative. For rows in batches, the name of the column
        of weights.
    feature_names : sequence of str, optional
        Names of the features, in the order of the model.
    memory_budget : int
        Bytes that tables may take; more is refused before it is allocated.
    progress : bool
        Whether to report progress on standard error after the first second.

    Returns
    -------
    Decomposition
        ``diagnostics["fit"]`` has, for each output, R2, the largest correlation of nested effects
        (equation 94), the number of terms and the conditioning; ``diagnostics["cosines"]`` has
        equations 96 and 97. The ``remainder`` is the function minus the effects;
        ``diagnostics["left_over"]`` has the variance of single effects within it, and a
        `FitWarning` names those with much of it. On the margin scale for parsed models, else on the
        scale of the function.

    Raises
    ------
    InvalidInputError
        If the rows, the function's values or an option cannot be used.
    MemoryBudgetError
        If the regression would take too much memory.

    See Also
    --------
    purify : Main effects and interactions of a tree model.
    hooker_anova : Any function, fitted by tables on points.
    categorical_anova : Any function of categories, in closed form.

    Examples
    --------
    If features are correlated, a product also has main effects, here parabolas:

    >>> import numpy as np, treepurify as tp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    >>> d = tp.legendre_anova(lambda X: X[:, 0] * X[:, 1], X, degree=6, progress=False)
    >>> list(d)
    [(0,), (1,), (0, 1)]
    >>> low, middle, high = d["x0"].evaluate(np.array([[-2.0, 0], [0, 0], [2, 0]]))
    >>> bool(low > 0.5 and middle < -0.3 and high > 0.5)
    True
    >>> d.diagnostics["fit"]["prediction"]["max_correlation"] < 1e-8
    True
    """
    call = called(legendre_anova, locals())
    _check_options(order, degree, density, density_degree, density_clip, orthogonal)
    check_memory_budget(memory_budget)
    chosen = as_selection(selection)
    report = progress_report(progress)
    problem = read_problem(
        model,
        X,
        feature_names,
        sample_weight,
        memory_budget=memory_budget,
        report=report,
    )
    axes, constant = choose_axes(problem, scaling, with_gaps=density == "none")
    rows = scaled_rows(axes, problem.columns, problem.weights)
    make = _density_maker(density, density_degree, density_clip, axes, rows, order, memory_budget)
    lower_degree = ""
    if degree is None:
        n_rows = problem.effective_rows
        degree, chosen, lower_degree = choose_degree(axes, order, chosen, n_rows)
    basis, left_out = candidate_columns(
        axes, rows, problem.values, make, order, degree, chosen, report, memory_budget
    )
    report("inner products of columns", 0, 0)
    moments = measure_moments(basis, rows, problem.values)
    report("selecting terms", 0, 0)
    selected = select_terms(moments, basis, chosen, problem.effective_rows)
    columns = [choice.columns for choice in selected]
    coefficients = least_squares(basis, rows, problem.values, moments, columns)
    report("separating effects", 0, 0)
    if orthogonal:
        split = split_orthogonally(basis, moments, coefficients.values)
    else:
        split = split_as_fitted(basis, coefficients.values)
    candidates = basis.n_columns + left_out
    fit = LegendreFit(basis, rows, moments, selected, coefficients, split, candidates, left_out)
    facts = {
        "constant_features": constant,
        "degree": degree,
        "density": density,
        "orthogonal": orthogonal,
    }
    return assemble(problem, fit, facts, lower_degree, call, report)


def _density_maker(
    density: DensityName,
    degree: int | None,
    clip: float | None,
    axes: Mapping[int, Axis],
    rows: ScaledRows,
    order: int,
    memory_budget: int,
) -> Densities:
    """Return what makes the densities of subsets from the sample, after a check of the budget."""
    degree = _DENSITY_DEGREE if degree is None else degree
    clip = _DENSITY_CLIP if clip is None else clip
    if density == "legendre":
        _check_densities(axes, rows, order, degree, memory_budget)
    return partial(_densities, density, axes, rows, degree, clip)


def _densities(
    density: DensityName,
    axes: Mapping[int, Axis],
    rows: ScaledRows,
    degree: int,
    clip: float,
    subsets: Sequence[Subset],
) -> dict[Subset, Density]:
    if density == "none":
        return dict(constant_densities(axes, subsets))
    if density == "kernel":
        return {s: grid_density(axes, rows.coordinates, rows.weights, s, clip) for s in subsets}
    return series_densities(axes, rows.coordinates, rows.weights, subsets, degree, clip)


def _check_densities(
    axes: Mapping[int, Axis], rows: ScaledRows, order: int, degree: int, memory_budget: int
) -> None:
    # Polynomials on the rows with and without weights; their products; and a series per subset.
    on_rows = rows.n_rows * (2 * len(axes) * (degree + 1) + (degree + 1) ** (order - 1))
    series = sum(comb(len(axes), size) * (degree + 1) ** size for size in range(1, order + 1))
    check_budget(
        8 * (on_rows + series),
        memory_budget,
        f"densities of degree {degree} on {rows.n_rows} rows",
        "Lower density_degree or the order, or use fewer rows.",
    )


def _check_options(
    order: int,
    degree: int | None,
    density: Any,
    density_degree: int | None,
    density_clip: float | None,
    orthogonal: bool,
) -> None:
    check_flag("orthogonal", orthogonal)
    check_whole("order", order, 1, _MOST_ORDER)
    if degree is not None:
        check_whole("degree", degree, 1)
    check_choice("density", density, get_args(DensityName))
    if density_degree is not None:
        check_whole("density_degree", density_degree, 0)
        _check_used("density_degree", density, ("legendre",))
    if density_clip is not None:
        check_number("density_clip", density_clip, least=0, open_ends=True)
        _check_used("density_clip", density, ("legendre", "kernel"))
    if density == "none" and not orthogonal:
        raise InvalidInputError(
            'orthogonal=False needs densities, which density="none" does not estimate: effects '
            'would not be orthogonal at all. Pass density="legendre" (as the paper) or "kernel", '
            "or leave orthogonal=True."
        )


def _check_used(option: str, density: str, users: tuple[str, ...]) -> None:
    if density not in users:
        raise InvalidInputError(
            f"{option} does not apply to density={density!r}, only to "
            f"{' and '.join(f'density={user!r}' for user in users)}: leave {option} out, or pass "
            "another density"
        )
