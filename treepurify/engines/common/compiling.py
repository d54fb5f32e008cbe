"""Say that kernels are being compiled, the first time that they are."""

import sys
from pathlib import Path

from treepurify._kernels.leaf_boxes import leaf_runs

__all__ = ["announce_compilation"]


def announce_compilation(*, show: bool) -> None:
    """Write one line to standard error if the kernels are neither loaded nor cached."""
    if not show or leaf_runs.signatures:
        return
    folder = Path(leaf_runs.stats.cache_path or "")
    if not any(folder.glob("leaf_boxes.leaf_runs-*.nbi")):
        sys.stderr.write("treepurify: compiling kernels, once for this installation (about 10 s)\n")
        sys.stderr.flush()
