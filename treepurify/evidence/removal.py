"""Take every effect of a feature out, so that predictions no longer use it."""

from treepurify.arguments import check_result, read_features
from treepurify.decomposition import Absorb, Decomposition
from treepurify.evidence.editing import REMAINDER, without

__all__ = ["without_features"]


def without_features(
    d: Decomposition, *features: str | int, absorb: Absorb = False
) -> Decomposition:
    """Take out every effect in which some features take part.

    What is left predicts the same whatever the values of these features: a model without a
    protected attribute, for example, as far as its own use goes (Hiabu et al. 2023). Features
    that depend on it keep their effects. What the other features of an interaction do without
    it is not lost with the interaction: purified, that is in their own effects.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    *features : str or int
        The features, by name or position.
    absorb : bool or "main"
        Whether the effects that stay, or the main effects among them, take over what they can;
        then features that depend on those that go stand in for them. See `Decomposition.without`.

    Returns
    -------
    Decomposition
        Pure under the same measure. A remainder that may depend on one of the features goes
        too. The certificate says what was taken out, and how much that changes.

    Raises
    ------
    UnknownComponentError
        If there is no such feature.

    Examples
    --------
    >>> import numpy as np, treepurify as tp
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> d = tp.purify(DecisionTreeRegressor().fit(X, [0, 0, 0, 1]), X)
    >>> tp.without_features(d, "x0").predict(X)
    array([0. , 0.5, 0. , 0.5])
    """
    check_result("d", d, Decomposition)
    gone = {j for feature in features for j in read_features(feature, d.feature_names)}
    terms = [s for s in d.components if not gone.isdisjoint(s)]
    if d.remainder is not None and not gone.isdisjoint(d.remainder.features):
        terms.append(REMAINDER)
    return without(d, terms, absorb=absorb) if terms else d
