"""How a page was made can be checked by others: versions, hashes, the call."""

import hashlib
from importlib import metadata

import lightgbm
import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.report.pages import Page
from treepurify.report import write_comparison, write_html


def boosted(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["age", "hours", "pay"])
    y = X["age"] * X["hours"] + X["pay"] * X["hours"] + X["pay"]
    return lightgbm.LGBMRegressor(n_estimators=60, max_depth=2, verbose=-1).fit(X, y), X


def facts(model, X, folder, **options):
    d = tp.purify(model, X, progress=False)
    page = Page(write_html(d, folder / "d.html", top=0, progress=False, **options))
    known = {**dict(page["Model and method"].facts), **dict(page["How it was made"].facts)}
    return {name: " ".join(words.split()) for name, words in known.items()}


def test_library_files_and_call_are_named(tmp_path):
    model, X = boosted()
    model.booster_.save_model(tmp_path / "model.txt")
    known = facts(model, X, tmp_path, files=[tmp_path / "model.txt"])
    version = metadata.version("lightgbm")
    assert known["Model"].startswith(f"lightgbm {version}, ")
    assert f"LightGBM {version}" in known["Versions"]
    digest = hashlib.sha256((tmp_path / "model.txt").read_bytes()).hexdigest()
    assert known["Files"] == f"model.txt: SHA-256 {digest}"
    assert known["Call"] == "d = tp.purify(model, X, progress=False)"
    assert "Call" not in facts(model, X, tmp_path, command="python train.py")


def test_hashes_name_the_model_and_the_rows(tmp_path):
    model, X = boosted()
    model.booster_.save_model(tmp_path / "model.txt")
    known = facts(model, X, tmp_path)
    from_file = facts(tmp_path / "model.txt", X.to_numpy(), tmp_path)
    assert from_file["Model as read"] == known["Model as read"]
    assert from_file["Rows as read"] == known["Rows as read"]
    assert facts(boosted(1)[0], X, tmp_path)["Model as read"] != known["Model as read"]
    other_rows = facts(model, X.iloc[::-1], tmp_path)
    assert other_rows["Model as read"] == known["Model as read"]
    assert other_rows["Rows as read"] != known["Rows as read"]


def test_both_sides_of_a_comparison_have_their_call(tmp_path):
    model, X = boosted()
    d = tp.purify(model, X, progress=False)
    both = write_comparison({"a": d, "b": d}, tmp_path / "both.html", top=0, progress=False)
    assert Page(both).text.count("d = tp.purify(model, X, progress=False)") == 2


@pytest.mark.parametrize("files", ["model.txt", [3]])
def test_files_that_are_no_paths_are_refused(files, tmp_path):
    d = tp.purify(*boosted(), progress=False)
    with pytest.raises(tp.errors.InvalidInputError):
        write_html(d, tmp_path / "d.html", files=files, progress=False)
