"""What `treepurify info` says about a model."""

import numpy as np

from treepurify.effects.accumulate import model_cuts
from treepurify.effects.leaf_boxes import leaf_boxes
from treepurify.grids.grid import make_grid
from treepurify.models.ensemble import TreeEnsemble
from treepurify.models.parse import Model
from treepurify.rows.columns import ZERO_THRESHOLD, FeatureSpec

__all__ = ["feature_rows", "model_facts"]

_MOST_NAMES = 12


def model_facts(model: Model) -> list[tuple[str, str]]:
    """Return facts about a model as names and values."""
    source = model.source
    version = "" if source.version == "unknown" else f" {source.version}"
    facts = [("model", f"{source.library}{version}, {source.kind}")]
    if isinstance(model, TreeEnsemble):
        size = f"{model.n_trees}, of depth up to {model.depth}, {model.n_leaves} leaves"
        facts.append(("trees", size))
    else:
        facts.append(("terms", str(len(model.terms))))
    facts.append(("effects", _orders(model)))
    facts.append(("features", str(model.n_features)))
    outputs = ", ".join(model.output_names[:_MOST_NAMES])
    outputs += ", ..." if model.n_outputs > _MOST_NAMES else ""
    facts.append(("outputs", f"{model.n_outputs}: {outputs}" if model.n_outputs > 1 else "1"))
    facts.append(("link", model.link.name))
    base = ", ".join(f"{value:.6g}" for value in model.base[:_MOST_NAMES])
    facts.append(("base margin", base))
    facts += [("note", text) for text in source.notes]
    return facts


def feature_rows(model: Model) -> list[list[str]]:
    """Return name, kind, number of cells and the first of them for each feature."""
    return [
        _feature_row(spec, feature_cuts)
        for spec, feature_cuts in zip(model.features, model_cuts(model), strict=True)
    ]


def _feature_row(
    spec: FeatureSpec, cuts: np.ndarray[tuple[int], np.dtype[np.float64]] | None
) -> list[str]:
    if cuts is None:
        named = spec.labels if spec.categories or spec.listed_codes else ()
        labels = ", ".join(map(str, named[: _MOST_NAMES // 2]))
        more = ", ..." if len(named) > _MOST_NAMES // 2 else ""
        return [spec.name, "categorical", labels + more or "codes only", f"{spec.n_codes}"]
    # LightGBM cuts at the next number beyond what it takes for zero.
    ends = [0.0 if abs(cut) < 2 * ZERO_THRESHOLD else cut for cut in (*cuts[:1], *cuts[-1:])]
    span = f"cuts from {ends[0]:.6g} to {ends[1]:.6g}" if ends else "not used"
    if len(cuts) == 1:
        span = f"one cut, at {ends[0]:.6g}"
    return [spec.name, "numeric", span, f"{len(cuts) + 1}"]


def _orders(model: Model) -> str:
    if isinstance(model, TreeEnsemble):
        grid, _ = make_grid(
            None, model.features, model_cuts(model), match_names=model.has_feature_names
        )
        sizes = [len(subset) for subset in leaf_boxes(model, grid).subsets if subset]
    else:
        sizes = [len(term.features) for term in model.terms]
    counts = [f"{sizes.count(size)} of order {size}" for size in sorted(set(sizes))]
    return ", ".join(counts) or "none: the model is constant"
