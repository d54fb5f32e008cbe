"""Whether a transformer returns a sparse matrix, in which XGBoost takes zeros for missing."""

from typing import Any

from treepurify.models.pipelines.structure import is_pipeline

__all__ = ["returns_sparse"]


def returns_sparse(transformer: Any, gets_sparse: bool) -> bool:
    """Return whether a fitted transformer returns a sparse matrix.

    Parameters
    ----------
    transformer : object
        A fitted transformer, ``"passthrough"`` or None.
    gets_sparse : bool
        Whether it gets one.
    """
    if transformer is None or isinstance(transformer, str):
        return gets_sparse
    if is_pipeline(transformer):
        for _, step in transformer.steps:
            gets_sparse = returns_sparse(step, gets_sparse)
        return gets_sparse
    kind = type(transformer).__name__
    library = type(transformer).__module__.partition(".")[0]
    if library == "category_encoders":
        return False
    if kind == "ColumnTransformer":
        return bool(transformer.sparse_output_)
    if kind == "FeatureUnion":
        return any(returns_sparse(part, gets_sparse) for _, part in transformer.transformer_list)
    if kind == "OneHotEncoder":
        return bool(transformer.sparse_output)
    if kind == "KBinsDiscretizer":
        return bool(transformer.encode == "onehot")
    return gets_sparse and kind not in ("OrdinalEncoder", "TargetEncoder", "PowerTransformer")
