"""Leaves of AdaBoost classifiers: the weighted vote of each tree for a class."""

from typing import Any

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.links import Link
from treepurify.typing import Array

__all__ = ["check_votes", "vote_leaves"]


def check_votes(model: Any) -> None:
    """Refuse an AdaBoost classifier whose decision function is no sum of votes of trees.

    Raises
    ------
    UnsupportedModelError
        If its estimators are no trees, or it adds logarithms of probabilities.
    """
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise UnsupportedModelError(
            'this AdaBoostClassifier adds up logarithms of probabilities (algorithm="SAMME.R", an '
            'option of early versions of scikit-learn): train it with algorithm="SAMME", which '
            "adds up votes"
        )
    foreign = {type(each).__name__ for each in model.estimators_ if not hasattr(each, "tree_")}
    if foreign:
        raise UnsupportedModelError(
            f"this AdaBoostClassifier boosts {', '.join(sorted(foreign))}, which is not a tree: "
            "its votes are not a sum of leaf values"
        )


def vote_leaves(model: Any, trees: list[Any]) -> tuple[Array, tuple[str, ...], Array, Link]:
    """Return the votes of all nodes, names of the outputs, base and link.

    They add up to ``decision_function``: of two classes, the difference of the votes for the
    second and the first, else the votes for each class less the mean of those for the others.

    Parameters
    ----------
    model : AdaBoostClassifier
        The fitted classifier.
    trees : list of sklearn.tree._tree.Tree
        Its trees.
    """
    classes = list(model.classes_)
    weights = np.asarray(model.estimator_weights_, dtype=np.float64)[: len(trees)]
    values = []
    for tree, estimator, weight in zip(trees, model.estimators_, weights, strict=True):
        voted = [classes.index(label) for label in estimator.classes_]
        chosen = np.array(voted)[np.argmax(tree.value[:, 0], axis=1)]
        against = -weight / max(len(classes) - 1, 1)
        values.append(np.where(chosen[:, None] == np.arange(len(classes)), weight, against))
    votes = np.concatenate(values) / model.estimator_weights_.sum()
    names = tuple(str(label) for label in classes)
    if len(classes) == 2:
        return votes[:, 1:] - votes[:, :1], names[1:], np.zeros(1), Link("logit")
    link = Link("softmax", scale=1.0 / max(len(classes) - 1, 1))
    return votes, names, np.zeros(len(classes)), link
