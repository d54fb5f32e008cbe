"""Every public call with values that it cannot use: an error of ours, or a right answer.

By default every parameter of every call meets all values of its own kind once. With
``TREEPURIFY_FUZZ_SECONDS`` it meets every other value too, and then random values stand in
several parameters at once, for so many seconds.
"""

import os
import time
import warnings
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import treepurify as tp
from tests.fuzz.bad_values import ANYTHING, BAD, TOO_LONG, frame
from tests.fuzz.public_calls import Call, calls, none_is_wrong, public_callables

pytestmark = [pytest.mark.fuzz, pytest.mark.slow]

SECONDS = os.environ.get("TREEPURIFY_FUZZ_SECONDS")
SEED = int(os.environ.get("TREEPURIFY_FUZZ_SEED", "0"))
SEEDS = 150
# "no", "what was expected" and "what came" do not fit into less.
SHORTEST_MESSAGE = 25


@pytest.fixture(scope="module")
def walked(tmp_path_factory) -> list[Call]:
    return calls(tmp_path_factory.mktemp("calls"))


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    """Files of odd names go to a folder of their own, figures and warnings nowhere."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    from matplotlib import pyplot as plt

    plt.close("all")


def wrong_with(call: Call, given: dict[str, Any], *, must_refuse: bool) -> str:
    """Return what is wrong with the answer to a call, in words; nothing where it is right."""
    try:
        call.function(**{**call.arguments, **given})
    except tp.errors.TreepurifyError as error:
        return "" if len(str(error)) >= SHORTEST_MESSAGE else f"says only {str(error)!r}"
    except Exception as error:  # noqa: BLE001 - whatever else comes is the failure looked for
        if _is_of_function(error):
            return ""
        return f"raises {type(error).__name__}: {str(error)[:120]}"
    finally:
        _close_figures()
    return "takes it in silence" if must_refuse else ""


def _is_of_function(error: Exception) -> bool:
    """Return whether a function that was passed raised an error of its own."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return (
        last is not None and Path(last.tb_frame.f_code.co_filename).parent == Path(__file__).parent
    )


def _close_figures() -> None:
    from matplotlib import pyplot as plt

    plt.close("all")


def own_values(call: Call, name: str, parameter: Any) -> dict[str, Any]:
    """The values that this parameter must refuse."""
    none = {"None": None} if none_is_wrong(parameter) else {}
    return {**BAD[call.kind(name)](), **none}


def test_every_public_callable_is_walked(walked):
    assert public_callables() - {call.name for call in walked} == set()


def test_every_parameter_has_a_kind(walked):
    unknown = [
        f"{call.name}({name})"
        for call in walked
        for name in call.parameters()
        if call.kind(name) not in BAD
    ]
    assert not unknown


def test_the_calls_are_good_ones(walked):
    assert not [call.name for call in walked if wrong_with(call, {}, must_refuse=False)]


def test_wrong_values_are_refused(walked):
    wrong, trials = [], 0
    for call in walked:
        for name, parameter in call.parameters().items():
            for what, value in own_values(call, name, parameter).items():
                trials += 1
                if found := wrong_with(call, {name: value}, must_refuse=True):
                    wrong.append(f"{call.name}({name}={what}) {found}")
    print(f"bad calls: {trials} trials, {len(wrong)} violations")  # noqa: T201 - what the run found
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(SECONDS is None, reason="long: TREEPURIFY_FUZZ_SECONDS is not set")
def test_any_values_are_refused_or_answered(walked):
    wrong, trials = [], 0
    for call in walked:
        for name in call.parameters():
            for what, value in ANYTHING.items():
                trials += 1
                if found := wrong_with(call, {name: value}, must_refuse=False):
                    wrong.append(f"{call.name}({name}={what}) {found}")
    print(f"odd calls: {trials} trials, {len(wrong)} violations")  # noqa: T201 - what the run found
    assert not wrong, "\n".join(wrong)


def random_call(walked: list[Call], seed: int) -> tuple[Call, dict[str, Any], str]:
    """Return a call, and odd values for two or three of its parameters at once."""
    rng = np.random.default_rng(seed)
    several = [call for call in walked if len(_free(call)) > 1]
    call = several[rng.integers(len(several))]
    names = _free(call)
    size = min(int(rng.integers(2, 4)), len(names))
    given, words = {}, []
    for name in rng.choice(names, size, replace=False):
        own = rng.random() < 0.5
        values = BAD[call.kind(name)]() if own else ANYTHING
        what = list(values)[rng.integers(len(values))]
        given[str(name)] = values[what]
        words.append(f"{name}={what}")
    return call, given, f"{call.name}({', '.join(words)})"


def _free(call: Call) -> list[str]:
    """The parameters, but for rows that a function of the caller's may raise anything on."""
    names = call.parameters()
    return [name for name in names if not call.kind(name).startswith("table of")]


def test_several_odd_values_at_once(walked):
    end = None if SECONDS is None else time.monotonic() + float(SECONDS)
    wrong, trials = [], 0
    for seed in count(SEED):
        if seed - SEED >= SEEDS if end is None else time.monotonic() > end:
            break
        call, given, words = random_call(walked, seed)
        trials += 1
        if found := wrong_with(call, given, must_refuse=False):
            wrong.append(f"TREEPURIFY_FUZZ_SEED={seed}: {words} {found}")
    print(f"calls with several odd values: {trials} trials, {len(wrong)} violations")  # noqa: T201 - what the run found
    assert not wrong, "\n".join(wrong)


def test_what_is_no_file_is_left_as_it_is(tmp_path):
    d = tp.purify_tensors({(0,): [0.0, 1.0]})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(tp.errors.InvalidInputError, match="device or a pipe"):
        d.save(pipe)
    assert pipe.is_fifo()
    assert Path.cwd() == tmp_path


@pytest.fixture(scope="module")
def command_files(tmp_path_factory) -> Path:
    """A model, its rows, and files that are none."""
    xgboost = pytest.importorskip("xgboost")
    folder = tmp_path_factory.mktemp("commands")
    X = frame()
    model = xgboost.XGBRegressor(n_estimators=2, max_depth=2).fit(X, X.a * X.b)
    model.save_model(folder / "model.json")
    X.to_csv(folder / "rows.csv", index=False)
    X.rename(columns={"b": "a"}).to_csv(folder / "repeated.csv", index=False)
    (folder / "empty.json").touch()
    (folder / "empty.csv").touch()
    (folder / "binary.csv").write_bytes(b"\xff\xfe\x00" * 20)
    os.mkfifo(folder / "pipe.json")
    return folder


COMMANDS = (
    [("info", path) for path in ("empty.json", "rows.csv", "pipe.json", "/", "", "a\0b", TOO_LONG)]
    + [("purify", "model.json", p) for p in ("repeated.csv", "empty.csv", "binary.csv", "a\0b")]
    + [
        ("purify", "model.json", "rows.csv", option, value)
        for option, value in (
            ("--out", TOO_LONG),
            ("--out", "a\0b"),
            ("--out", "rows.csv"),
            ("--order", "99"),
            ("--order", "x"),
            ("--top", "0"),
            ("--weights", "zzz"),
            ("--target-column", "zzz"),
            ("--sample-weight-column", "zzz"),
            ("--engine", "zzz"),
        )
    ]
    + [
        ("compare", "model.json", "rows.csv", option, value)
        for option, value in (
            ("--other-model", "pipe.json"),
            ("--other-model", "empty.json"),
            ("--report", TOO_LONG),
            ("--out", TOO_LONG),
        )
    ]
    + [
        ("audit", "model.json", "rows.csv", option, value)
        for option, value in (
            ("--threshold", "nan"),
            ("--threshold", "-1"),
            ("--resamplings", "-1"),
            ("--held-out", "empty.csv"),
            ("--out", TOO_LONG),
        )
    ]
    + [("report", path) for path in ("model.json", "empty.json", "pipe.json", "/", TOO_LONG)]
    + [("demo", "--dataset", "zzz"), ("nonsense",)]
)


@pytest.mark.parametrize("words", COMMANDS, ids=map(str, range(len(COMMANDS))))
def test_commands_that_cannot_be(command_files, monkeypatch, words):
    from treepurify.cli.app import app

    if "a\0b" in words and version("click") < "8.2":
        pytest.skip("this version of click asks the system for a file of this name")
    monkeypatch.chdir(command_files)
    result = CliRunner().invoke(app, list(words), prog_name="treepurify")
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (1, 2)
    assert len(result.output) >= SHORTEST_MESSAGE
