"""A child process of limited memory and processor time that reads one file at a time.

Files are read in a child because what is looked for would end the process: a crash, an endless
loop, an allocation of gigabytes. It is kept for many files, since importing takes seconds, and
started again when it dies.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import treepurify as tp
from treepurify.errors import TreepurifyError
from treepurify.models.parse import Model, parse_model, raw_margin

MOST_BYTES = 500 << 20
MOST_SECONDS = 2.0
# Beyond any processor time that a file may take; nothing waits for it unless the child is stuck.
MOST_WAITING = 120.0
N_ROWS = 12


@dataclass(frozen=True)
class Answer:
    """What became of one file.

    `outcome` is ``"parsed"`` or ``"refused"``, or a violation: ``"foreign error"``,
    ``"not finite"``, ``"slow"`` or ``"died"``. `agrees` says whether the library's own prediction
    is the same, None where it was not asked or cannot read the file.
    """

    outcome: str
    detail: str = ""
    seconds: float = 0.0
    agrees: bool | None = None


class Reader:
    """Sends files to the child and starts it anew where it died."""

    def __init__(self, warm_up: list[Path]) -> None:
        self._warm_up = warm_up
        self._child: subprocess.Popen[bytes] | None = None

    def read(self, path: Path, *, ask_library: bool) -> Answer:
        """Read one file in the child."""
        if self._child is None:
            self._child = self._start()
        request = {"path": str(path), "ask_library": ask_library}
        line = self._ask(self._child, request)
        if line:
            return Answer(**json.loads(line))
        return Answer("died", f"the child ended with {self.close()}")

    def close(self) -> int | None:
        """End the child; return how it ended by itself, if it did."""
        if self._child is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(1)
        self._child.kill()
        # Leaving the context closes the pipes.
        with self._child as child:
            self._child = None
        return child.returncode

    def _start(self) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.limited_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
        )
        if not self._ask(child, {"warm_up": [str(path) for path in self._warm_up]}):
            raise RuntimeError("the child that reads files does not start")
        return child

    @staticmethod
    def _ask(child: subprocess.Popen[bytes], request: dict[str, Any]) -> bytes:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], MOST_WAITING)
        return child.stdout.readline() if ready else b""


def main() -> None:
    """Answer requests until there are no more."""
    # Libraries print to the standard output; answers go to a copy of it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "warm_up" in request:
            for path in request["warm_up"]:
                judged(Path(path), ask_library=True)
            answer = {}
        else:
            path = Path(request["path"])
            limit_resources(path.stat().st_size)
            answer = judged(path, ask_library=request["ask_library"]).__dict__
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def limit_resources(n_bytes: int) -> None:
    """Allow what the law allows for a file of this size, beyond what the child has taken."""
    import resource

    scale = max(1.0, n_bytes / 2**20)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    used = pages * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + int(scale * MOST_BYTES), hard))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    # Twice the law, in whole seconds: what is between is judged by the child itself.
    seconds = int(time.process_time() + 2 * scale * MOST_SECONDS) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def judged(path: Path, *, ask_library: bool) -> Answer:
    """Read a file, use what was read, and say what became of it."""
    start = time.process_time()
    try:
        model, rows, margin = predict(path)
    except TreepurifyError as error:
        outcome, detail, margin = "refused", str(error)[:300], None
    except BaseException as error:  # noqa: BLE001 - whatever comes is the finding
        outcome, detail, margin = "foreign error", repr(error)[:300], None
    else:
        is_finite = margin is None or bool(np.all(np.isfinite(margin)))
        outcome, detail = ("parsed", "") if is_finite else ("not finite", "")
    seconds = time.process_time() - start
    if seconds > MOST_SECONDS * max(1.0, path.stat().st_size / 2**20):
        return Answer("slow", f"{outcome}: {detail}", seconds)
    if outcome != "parsed" or margin is None or not ask_library:
        return Answer(outcome, detail, seconds)
    return Answer(outcome, detail, seconds, agrees(path, model, rows, margin))


def predict(path: Path) -> tuple[Model | None, Any, np.ndarray | None]:
    """Read a file, whatever it holds, and evaluate it on a few rows."""
    if path.suffix == ".tpz":
        d = tp.load(path)
        rows = rows_of(len(d.feature_names), whole=True)
        return None, rows, None if rows is None else np.asarray(d.predict(rows))
    model = parse_model(path)
    rows = rows_of(model.n_features)
    if rows is not None and model.source.library == "catboost":
        rows = with_whole_numbers(rows, model)
    return model, rows, None if rows is None else model.margin(rows)


def with_whole_numbers(rows: np.ndarray, model: Model) -> pd.DataFrame:
    """A table whose categorical columns hold what CatBoost takes for a category."""
    table = pd.DataFrame(rows, columns=list(model.feature_names))
    for j, spec in enumerate(model.features):
        if spec.is_categorical:
            table.isetitem(j, np.nan_to_num(rows[:, j]).astype(int))
    return table


def rows_of(n_features: int, *, whole: bool = False) -> np.ndarray | None:
    """Rows of small numbers, some missing; none where there are very many features.

    A decomposition refuses missing values and codes where the data it was purified on have
    none, so that its rows are `whole`.
    """
    if n_features > 10_000:
        return None
    rng = np.random.default_rng(0)
    pool = [0.0, 1.0, 2.0] if whole else [0.0, 1.0, 2.0, -1.0, 0.25, -0.75, 7.0]
    rows = rng.choice(pool, size=(N_ROWS, n_features))
    if not whole:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


def agrees(path: Path, model: Model | None, rows: Any, margin: np.ndarray) -> bool | None:
    """Whether the library predicts the same, as far as it can be asked."""
    try:
        expected = raw_margin(path, rows, model)
    except Exception:  # noqa: BLE001 - the library's own errors are no concern of ours
        return None
    if expected is None or expected.shape != margin.shape:
        return None
    scale = max(1.0, float(np.max(np.abs(margin), initial=0.0)))
    return bool(np.allclose(margin, expected, rtol=0, atol=1e-5 * scale))


if __name__ == "__main__":
    main()
