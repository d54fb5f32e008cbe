"""What several public functions take means, and defaults to, the same in each of them."""

import inspect
import re

import pytest

import treepurify as tp
from treepurify.budget import DEFAULT_BUDGET

CALLED = "A model that `parse_model` knows (on its margin scale), an object with ``predict``"
PARSED = "A trained model, a model file, or what `parse_model` returned."
# What decomposes or explains any function, and what needs trees.
OF_FUNCTIONS = {
    tp.ale_anova, tp.categorical_anova, tp.feature_profile, tp.h_statistics, tp.hooker_anova,
    tp.interventional_shapley_values, tp.legendre_anova, tp.partial_dependence_anova,
    tp.reason_codes, tp.shapley_sets,
}  # fmt: skip
OF_MODELS = {
    tp.audit, tp.check_monotonicity, tp.interaction_indices, tp.purify,
}  # fmt: skip
ALL = OF_FUNCTIONS | OF_MODELS | {
    tp.compare, tp.purify_tensors, tp.Decomposition.contributions,
    tp.Decomposition.shapley_interactions, tp.Decomposition.shapley_residuals,
    tp.Decomposition.shapley_values,
}  # fmt: skip
# The default and how the description begins, wherever a function has such a parameter.
SHARED = {
    "feature_names": (None, "Names of the features"),
    "sample_weight": (None, r"Weight of each (background )?row, finite and not negative\."),
    "interactions": (None, "The (interactions|pairs) that are "),
    "memory_budget": (DEFAULT_BUDGET, "Bytes that "),
    "progress": (True, "Whether to report progress on standard error after the first second."),
    "seed": (0, "Seed of "),
}
# What each function of a model has, but for those named here.
NEEDED = ("feature_names", "sample_weight", "memory_budget", "progress")
WITHOUT = {
    # Probes and draws are rows that count alike.
    tp.shapley_sets: {"sample_weight"},
}


def by_name(functions):
    return sorted(functions, key=lambda function: function.__qualname__)


def description(function, name):
    """Return what a docstring says of a parameter, on one line."""
    text = inspect.getdoc(function)
    found = re.search(rf"^{name} : .*\n((?:    .*\n)+)", text, flags=re.MULTILINE)
    assert found, f"{function.__qualname__} does not describe {name}"
    return " ".join(found.group(1).split())


@pytest.mark.parametrize("function", by_name(ALL), ids=lambda f: f.__qualname__)
def test_shared_parameters_agree(function):
    parameters = inspect.signature(function).parameters
    for name, (default, begins) in SHARED.items():
        if name in parameters:
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY, name
            assert parameters[name].default == default, name
            assert re.match(begins, description(function, name)), name


@pytest.mark.parametrize("function", by_name(OF_FUNCTIONS | OF_MODELS), ids=lambda f: f.__name__)
def test_models_come_first_and_are_described_alike(function):
    parameters = inspect.signature(function).parameters
    assert list(parameters)[:2] == ["model", "X"]
    expected = CALLED if function in OF_FUNCTIONS else PARSED
    assert description(function, "model").startswith(expected)
    missing = set(NEEDED) - set(parameters)
    assert missing == WITHOUT.get(function, set())


def test_every_public_function_of_a_model_is_listed():
    public = {getattr(tp, name) for name in tp.__all__}
    takes_model = {
        one
        for one in public
        if inspect.isfunction(one) and "model" in inspect.signature(one).parameters
    }
    # A model that was decomposed before comes second.
    others = {tp.parse_model, tp.with_sampling_error}
    assert takes_model - others == OF_FUNCTIONS | OF_MODELS
