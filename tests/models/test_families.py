"""A family of models is added by one line in one list."""

import sys
from types import ModuleType

import numpy as np
import pytest

import treepurify as tp
from treepurify.errors import InvalidInputError, UnsupportedModelError
from treepurify.links import Link
from treepurify.models import families
from treepurify.models.additive_tables import AdditiveTables, TableTerm
from treepurify.models.parsed import ModelSource
from treepurify.rows.columns import FeatureSpec


class Product:
    """What a library of its own would train: the product of two signs."""

    def predict(self, X):
        return np.sign(X[:, 0]) * np.sign(X[:, 1])


Product.__module__ = "signs.core"


def parse(model):
    cuts = (np.zeros(1), np.zeros(1))
    # Below the cut, above it, and missing.
    side = np.array([-1.0, 1.0, 0.0])
    return AdditiveTables(
        terms=(TableTerm((0, 1), cuts, np.multiply.outer(side, side)[..., None]),),
        base=np.zeros(1),
        features=(FeatureSpec("x0"), FeatureSpec("x1")),
        output_names=("margin",),
        link=Link(),
        source=ModelSource("signs", "1.0", "product"),
        has_feature_names=False,
    )


def parse_file(file):
    return parse(None) if file.data.startswith(b"SIGNS") else None


@pytest.fixture
def signs(monkeypatch):
    module = ModuleType("signs_reader")
    module.parse, module.parse_file = parse, parse_file
    module.raw_margin = lambda model, X: model.predict(np.asarray(X))[:, None]
    module.load_file = lambda path: Product()
    library = ModuleType("signs")
    library.__version__ = "1.0"
    monkeypatch.setitem(sys.modules, "signs_reader", module)
    monkeypatch.setitem(sys.modules, "signs", library)
    added = families.Family("signs", "signs_reader", "Signs", files="Signs .sgn")
    monkeypatch.setattr(families, "FAMILIES", (*families.FAMILIES, added))


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(200, 2)) + 0.5


def test_a_registered_family_is_purified_and_compared_with_its_library(signs, rows):
    d = tp.purify(Product(), rows, weights="empirical")
    np.testing.assert_allclose(d.predict(rows), Product().predict(rows), atol=1e-12)
    assert d.certificate.margin_error == 0
    assert d.certificate.is_exact
    assert d.origin.model.library == "signs"
    assert d.verify(Product(), rows).source == "raw prediction of the library"
    assert "Signs model" in _page(d)


def test_its_files_are_read_and_named(signs, rows, tmp_path):
    path = tmp_path / "model.sgn"
    path.write_bytes(b"SIGNS 1")
    d = tp.purify(path, rows, weights="empirical")
    assert d.certificate.margin_error == 0
    path.write_bytes(b"else")
    with pytest.raises(InvalidInputError, match=r"and Signs \.sgn"):
        tp.purify(path, rows, weights="empirical")


def test_other_engines_read_it_too(signs, rows):
    for engine in (tp.hooker_anova, tp.partial_dependence_anova, tp.categorical_anova):
        d = engine(Product(), rows)
        np.testing.assert_allclose(d.predict(rows), Product().predict(rows), atol=1e-9)


def test_an_unknown_model_is_told_what_is_known(signs):
    with pytest.raises(UnsupportedModelError, match=r"CatBoost, interpret \(EBM\) and Signs"):
        tp.parse_model(object())


def _page(d):
    from treepurify.report.origin import page_title

    return page_title(d, "Purified effects")
