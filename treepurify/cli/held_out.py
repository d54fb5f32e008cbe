"""What was observed on the rows of a file: the target of commands that look at held-out rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from treepurify.errors import InvalidInputError

__all__ = ["PositiveOption", "TargetColumns"]

PositiveOption = Annotated[
    str | None,
    typer.Option(help="The target value that counts as 1, if the two values are not 0 and 1."),
]


@dataclass(frozen=True)
class TargetColumns:
    """The columns of the files that are no features."""

    target: str
    positive: str | None
    dropped: list[str] | None
    weight: str | None

    def observations(self, apart: Any, path: Path) -> Any:
        """Return the target of the rows of a file; 0 and 1 where its positive value is named."""
        y = apart[self.target]
        if self.positive is None:
            return y.to_numpy()
        missing = int(y.isna().sum())
        if missing:
            raise InvalidInputError(
                f"{missing} rows of {str(path)!r} have no value in column {self.target!r}: "
                "remove them"
            )
        is_positive = y.astype(str) == self.positive
        if not is_positive.any():
            raise InvalidInputError(
                f"no row of {str(path)!r} has {self.positive!r} in column {self.target!r}; it has "
                f"{', '.join(sorted(y.astype(str).unique())[:10])}"
            )
        return is_positive.to_numpy().astype(float)
