"""How good a decomposition is, in one line: what it explains, and how exact it is."""

import numpy as np

from treepurify.decomposition import Decomposition
from treepurify.typing import Array

__all__ = ["explained_words", "verdict"]

# Below this share of the variance a report without its remainder is another model.
_NEARLY_ALL = 0.95
_MOST_NAMED_OUTPUTS = 4
_EXACT = "Sums and conditional means are exact to 1e-10, and every solve converged."
_FITTED = "They were fitted, and the fit converged: conditional means vanish to 1e-10."
_EDITED = "This is no longer the model: its effects were edited, as the lines below say."
_NOT_EXACT = "Not exact to 1e-10: read the figures below."


def _explained_share(d: Decomposition) -> Array:
    """Return the share of the model's variance that the components explain.

    Returns
    -------
    ndarray of float64, shape (n_outputs,)
        One minus the variance of the remainder over that of the model; one where there is no
        remainder, NaN where the measure does not give it.
    """
    if d.remainder is None:
        return np.ones(d.n_outputs)
    if d.origin.explained:
        return np.array(d.origin.explained)
    rest = np.asarray(d.remainder.variance, dtype=np.float64)
    if d.covariances is None or () not in d.covariances:
        return np.full(d.n_outputs, np.nan)
    total = np.sum(list(d.covariances.values()), axis=0)
    constant = total <= 0
    return np.where(constant, 1.0, 1.0 - rest / np.where(constant, 1.0, total))


def explained_words(d: Decomposition) -> str:
    """Return the share in words, such as ``"97.82 %"``; empty without a remainder."""
    shares = _explained_share(d)
    if d.remainder is None:
        return ""
    if np.any(np.isnan(shares)):
        return "an unknown share"
    # A sum of effects can be further from the model than its mean is.
    words = [f"{100 * max(share, 0.0):.2f} %" for share in shares]
    if d.n_outputs == 1:
        return words[0]
    if d.n_outputs > _MOST_NAMED_OUTPUTS:
        low, high = (100 * max(float(end), 0.0) for end in (shares.min(), shares.max()))
        return f"{low:.2f} % to {high:.2f} %, by output,"
    named = [f"{share} ({name})" for share, name in zip(words, d.output_names, strict=True)]
    return f"{', '.join(named[:-1])} and {named[-1]}"


def verdict(d: Decomposition) -> tuple[str, str]:
    """Return the state, ``"good"``, ``"part"`` or ``"bad"``, and the headline; empty for neither.

    What is exact and leaves half of the model out is not good.
    """
    exact = None if d.certificate is None else d.certificate.is_accurate
    if d.certificate is not None and d.certificate.edits:
        return ("part" if exact else "bad"), f"{_EDITED} {'' if exact else _NOT_EXACT}".strip()
    words = {None: "", True: _EXACT, False: _NOT_EXACT}[exact]
    if d.remainder is None:
        return "bad" if exact is False else "good", words
    is_fitted = d.certificate is not None and bool(d.certificate.fitted_share)
    accuracy = _FITTED if exact and is_fitted else _exactness_of_a_part(exact)
    words = f"{_coverage(d)} {accuracy}".strip()
    if exact is False:
        return "bad", words
    return "good" if np.all(_explained_share(d) >= _NEARLY_ALL) else "part", words


def _coverage(d: Decomposition) -> str:
    return (
        f"The effects explain {explained_words(d)} of the model's variance; the rest is in the "
        "remainder, which no figure of an effect shows."
    )


def _exactness_of_a_part(exact: bool | None) -> str:
    if exact is None:
        return ""
    return f"Of the effects themselves: {_EXACT[0].lower()}{_EXACT[1:]}" if exact else _NOT_EXACT
