"""What a report says of how it was made, and what is left of it on paper."""

import hashlib
import re
from html.parser import HTMLParser
from importlib import metadata, resources

import lightgbm
import numpy as np
import pandas as pd
import pytest

import treepurify as tp
from tests.report.test_interactive import in_browser, needs_chromium
from treepurify.report import write_html
from treepurify.report.making import call_facts


class Facts(HTMLParser):
    """Every name of a list of facts with its value."""

    def __init__(self, path):
        super().__init__()
        self.named, self.tag, self.name = {}, "", ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tag = tag

    def handle_endtag(self, tag):
        self.tag = ""

    def handle_data(self, data):
        if self.tag == "dt":
            self.name = data
        elif self.tag == "dd":
            self.named[self.name] = data


def trained(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["age", "hours"])
    model = lightgbm.LGBMRegressor(n_estimators=8, max_depth=2, min_child_samples=5, verbose=-1)
    return model.fit(X, X["age"] * X["hours"]), X


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    model, X = trained()
    folder = tmp_path_factory.mktemp("making")
    model.booster_.save_model(folder / "model.txt")
    d = tp.purify(model, X, progress=False)
    page = write_html(d, folder / "d.html", top=1, files=[folder / "model.txt"], X=X[:3])
    return model, X, folder, page


def test_library_of_the_model_has_its_version(made):
    facts = Facts(made[-1]).named
    version = metadata.version("lightgbm")
    assert facts["Model"].startswith(f"lightgbm {version}, ")
    assert f"LightGBM {version}" in facts["Versions"]
    assert "unknown" not in facts["Model"] + facts["Versions"]


def test_files_have_the_hash_that_others_compute(made):
    _, _, folder, page = made
    digest = hashlib.sha256((folder / "model.txt").read_bytes()).hexdigest()
    assert Facts(page).named["Files"] == f"model.txt: SHA-256 {digest}"
    d = tp.purify(made[0], made[1], progress=False)
    with pytest.raises(tp.errors.InvalidInputError, match="which does not exist"):
        write_html(d, folder / "e.html", files=[folder / "none.txt"])
    with pytest.raises(tp.errors.InvalidInputError, match="list of paths"):
        write_html(d, folder / "e.html", files=str(folder / "model.txt"))


def test_hashes_name_the_model_and_the_rows(made, tmp_path):
    model, X, folder, page = made
    known = Facts(page).named

    def facts(model, X):
        d = tp.purify(model, X, progress=False)
        return Facts(write_html(d, tmp_path / "d.html", top=0)).named

    from_file = facts(folder / "model.txt", X.to_numpy())
    assert from_file["Model as read"] == known["Model as read"]
    assert from_file["Rows as read"] == known["Rows as read"]
    assert facts(trained(1)[0], X)["Model as read"] != known["Model as read"]
    other_rows = facts(model, X.iloc[::-1])
    assert other_rows["Model as read"] == known["Model as read"]
    assert other_rows["Rows as read"] != known["Rows as read"]


def test_bars_stand_to_the_right_of_their_numbers(made):
    text = made[-1].read_text(encoding="utf-8")
    cells = re.findall(
        r'<td class="share">([\d.]+)%<span class="bar"[^>]*><i style="width: ([\d.]+)%', text
    )
    assert len(cells) == 3
    for share, width in cells:
        assert float(width) == pytest.approx(float(share), abs=0.006)


@needs_chromium
def test_waterfall_has_values_an_axis_and_both_ends(made, tmp_path):
    model, X, _, page = made
    result = in_browser(
        page,
        """
        const place = document.getElementById("prediction-explorer");
        choose(place.querySelector("select"), 2);
        result.texts = all("text", place.querySelector(".canvas")).map((own) => own.textContent);
        """,
        tmp_path,
    )
    assert result["problems"] == []
    texts = result["texts"]
    age = float(
        next(text for text in texts if text.startswith("age = "))[6:].replace("\u2212", "-")
    )
    assert age == pytest.approx(X["age"].iloc[1], rel=1e-4)
    end = texts[texts.index("prediction", texts.index("prediction") + 1) + 1]
    assert float(end) == pytest.approx(model.predict(X[1:2])[0], rel=1e-3)
    assert "mean" in texts
    assert sum(bool(re.fullmatch(r"-?[\d.]+", text)) for text in texts) >= 4


def test_paper_has_all_effects_and_no_widgets():
    sheet = resources.files("treepurify.report").joinpath("report.css").read_text("utf-8")
    printed = sheet.rsplit("@media print {", 1)[1]
    # Effects that a search hides on the screen are printed.
    assert "tbody tr[hidden] { display: table-row !important; }" in printed
    hidden = " ".join(re.findall(r"([^}]*)\{ display: none !important; \}", printed))
    assert ".controls" in hidden
    assert ".screen" in hidden
    assert "h1, h2, h3, summary { break-after: avoid; }" in printed
    # Names of columns that sort are buttons, with which Chromium does not repeat a heading.
    assert "th button { display: contents; }" in printed
    assert "@media screen and (prefers-color-scheme: dark)" in sheet


def boosted(seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["age", "hours", "pay"])
    y = X["age"] * X["hours"] + X["pay"] * X["hours"] + X["pay"]
    return lightgbm.LGBMRegressor(n_estimators=60, max_depth=2, verbose=-1).fit(X, y), X


def call_words(d):
    return dict(call_facts(d))


def test_the_call_is_what_was_called():
    model, X = boosted()
    d = tp.purify(model, X, weights=tp.weights.Laplace(0.25), interactions=[("hours", "pay")])
    assert call_words(d)["Call"] == (
        "d = tp.purify(model, X, weights=tp.weights.Laplace(smoothing=0.25), "
        'interactions=[("hours", "pay")])'
    )
    assert call_words(d)["After the call"] == ""
    edited = call_words(d.without("pay"))
    assert edited["Call"] == call_words(d)["Call"]
    assert "edited afterwards" in edited["After the call"]
    assert call_facts(tp.purify(model, X).as_trained()) == []


def test_a_report_has_the_call_unless_its_author_gave_the_command(made, tmp_path):
    model, X, folder, page = made
    assert Facts(page).named["Call"] == "d = tp.purify(model, X, progress=False)"
    d = tp.purify(model, X, progress=False)
    page = write_html(d, folder / "own.html", top=0, command="python train.py")
    assert "Call" not in Facts(page).named
    both = tp.report.write_comparison({"a": d, "b": d}, tmp_path / "both.html", top=0)
    assert both.read_text(encoding="utf-8").count("d = tp.purify(model, X, progress=False)") == 2
