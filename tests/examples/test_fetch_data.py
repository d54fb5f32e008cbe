"""Fetched data sets: raw files are read as the stored tables, and other values are refused."""

import io
import zipfile

import pandas as pd
import pytest

from examples import data, fetch_data
from examples.data import DataUnavailableError
from tests.cases import data_path


def text(table, **options):
    return table.to_csv(index=False, **options).encode()


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as files:
        for name, content in members.items():
            files.writestr(name, content)
    return buffer.getvalue()


def adult(table):
    test = table[32_561:].assign(income=table["income"] + ".")
    banner = b"|1x3 Cross validator\n"
    return zipped(
        {
            "adult.data": text(table[:32_561], header=False).replace(b",", b", "),
            "adult.test": banner + text(test, header=False).replace(b",", b", "),
        }
    )


def boston(table):
    values = table.to_numpy().tolist()
    lines = [f" {' '.join(map(str, row[:11]))}\n  {' '.join(map(str, row[11:]))}" for row in values]
    return ("text\n" * 22 + "\n".join(lines) + "\n").encode()


def compas(table):
    named = table.rename(
        columns={"priors_count_1": "priors_count.1", "decile_score_1": "decile_score.1"}
    )
    return text(named.assign(**dict.fromkeys(fetch_data.IDENTIFIERS, "x")))


RAW = {
    "adult": adult,
    "bike_sharing_hour": lambda table: zipped({"hour.csv": text(table)}),
    "boston_housing": boston,
    "car_evaluation": lambda table: zipped({"car.data": text(table, header=False)}),
    "compas_two_years": compas,
    "electrical_grid": lambda table: zipped({"Data_for_UCI_named.csv": text(table)}),
    "mushroom": lambda table: zipped(
        {"agaricus-lepiota.data": text(table[["class", *table.columns[:-1]]], header=False)}
    ),
    "nursery": lambda table: zipped({"nursery.data": text(table, header=False)}),
    "poker_hand_train": lambda table: zipped(
        {"poker-hand-training-true.data": text(table, header=False)}
    ),
}


@pytest.mark.parametrize("name", RAW)
def test_raw_files_are_read_as_the_stored_tables(name, monkeypatch):
    table = pd.read_parquet(data_path(name))
    monkeypatch.setattr(fetch_data, "_download", lambda url: RAW[name](table))
    fetched = fetch_data.fetch(name)
    pd.testing.assert_frame_equal(fetched, table, check_dtype=False, rtol=1e-12)


def test_the_copy_of_diabetes_on_openml(monkeypatch):
    table = pd.read_parquet(data_path("pima_diabetes"))
    labels = table["Outcome"].map({0: "tested_negative", 1: "tested_positive"})
    copy = table.assign(Outcome=labels.astype("category")).add_prefix("v_")
    monkeypatch.setattr(fetch_data, "_openml", lambda number: copy)
    pd.testing.assert_frame_equal(fetch_data.fetch("pima_diabetes"), table, check_dtype=False)


def test_other_values_are_not_written(monkeypatch, tmp_path, capsys):
    table = pd.read_parquet(data_path("car_evaluation"))
    table.loc[0, "doors"] = "9"
    monkeypatch.setattr(fetch_data, "_download", lambda url: RAW["car_evaluation"](table))
    fetch_data.main([str(tmp_path), "car_evaluation"])
    assert "left out: car_evaluation was downloaded, and is not written" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_fetched_table_is_what_scripts_read(monkeypatch, tmp_path):
    table = pd.read_parquet(data_path("car_evaluation"))
    monkeypatch.setattr(fetch_data, "_download", lambda url: RAW["car_evaluation"](table))
    fetch_data.main([str(tmp_path), "car_evaluation"])
    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    pd.testing.assert_frame_equal(data.read_table("car_evaluation"), table, check_dtype=False)


def test_what_cannot_be_fetched_says_why(monkeypatch):
    def refuse(url):
        raise OSError("no route")

    monkeypatch.setattr(fetch_data, "_download", refuse)
    with pytest.raises(DataUnavailableError, match="nursery could not be downloaded: no route"):
        fetch_data.fetch("nursery")
    with pytest.raises(DataUnavailableError, match=r"connect4 cannot be fetched: .*\.Z file"):
        fetch_data.fetch("connect4")
    with pytest.raises(DataUnavailableError, match="there are adult"):
        fetch_data.fetch("zzz")


def test_missing_data_say_how_to_fetch_them(monkeypatch, tmp_path):
    monkeypatch.setenv("TREEPURIFY_DATA", str(tmp_path))
    with pytest.raises(DataUnavailableError, match=r"fetch_data\.py"):
        data.read_table("nursery")
