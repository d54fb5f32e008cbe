"""Tables and short texts of a decomposition."""

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from treepurify.components import EachTable, TensorComponent
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.grids.axis import FeatureAxis
from treepurify.grids.grid import Subset
from treepurify.purification.certificate import subset_pairs

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "component_frame",
    "decomposition_frame",
    "html_summary",
    "importance_table",
    "orthogonality_table",
    "text_summary",
]


def importance_table(d: Decomposition) -> "pd.DataFrame":
    """Return one row a component and output; see `Decomposition.importance`."""
    import pandas as pd

    terms: list[tuple[str, int, Any, Any, Any]] = [
        (
            d.term_name(subset),
            len(subset),
            component.variance,
            getattr(component, "mean_absolute", np.full(d.n_outputs, np.nan)),
            None if d.covariances is None else d.covariances.get(subset),
        )
        for subset, component in d.components.items()
    ]
    if d.remainder is not None:
        order = 1 + max((len(subset) for subset in d.components), default=0)
        covariance = None if d.covariances is None else d.covariances.get(())
        absolute = getattr(d.remainder, "mean_absolute", np.full(d.n_outputs, np.nan))
        terms.append(("remainder", order, d.remainder.variance, absolute, covariance))
    total_variance = np.sum([term[2] for term in terms], axis=0) if terms else np.ones(d.n_outputs)
    known = [term[4] for term in terms if term[4] is not None]
    model_variance = np.sum(known, axis=0) if len(known) == len(terms) and terms else None
    rows = []
    for name, order, variance, mean_absolute, covariance in terms:
        for k, output in enumerate(d.output_names):
            share = np.nan
            if model_variance is not None and covariance is not None:
                share = _ratio(covariance[k], model_variance[k])
            rows.append(
                {
                    "term": name,
                    "output": output,
                    "order": order,
                    "variance": variance[k],
                    "variance_share": _ratio(variance[k], total_variance[k]),
                    "mean_absolute": mean_absolute[k],
                    "covariance_share": share,
                }
            )
    columns = ["term", "output", "order", "variance", "variance_share", "mean_absolute"]
    frame = pd.DataFrame(rows, columns=[*columns, "covariance_share"])
    if d.n_outputs == 1:
        frame = frame.drop(columns="output")
    return frame.sort_values("variance", ascending=False, kind="stable").reset_index(drop=True)


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def orthogonality_table(d: Decomposition) -> "pd.DataFrame":
    """Return one row a pair of nested components; see `Decomposition.orthogonality`."""
    import pandas as pd

    tensors = d.tensor_components()
    if len(tensors) < len(d.components):
        raise InvalidInputError(f"components of engine {d.engine!r} are not tables of cells")
    pairs = subset_pairs(
        EachTable(tensors, lambda component: component.values),
        EachTable(tensors, lambda component: component.mass),
        {s: c.axes for s, c in tensors.items()},
        d.certificate.scale if d.certificate else 1.0,
    )
    return pd.DataFrame(
        {
            "term": [d.term_name(pair.subset) for pair in pairs],
            "inside": [d.term_name(pair.inside) or "intercept" for pair in pairs],
            "inner_product": [pair.inner_product for pair in pairs],
            "cosine": [pair.cosine for pair in pairs],
            "conditional_mean": [pair.conditional_mean for pair in pairs],
        }
    )


def decomposition_frame(d: Decomposition) -> "pd.DataFrame":
    """Return the cells of all table components in one long table."""
    import pandas as pd

    frames = []
    for subset in d.tensor_components():
        own = component_frame(d, subset)
        cells = own[[d.feature_names[j] for j in subset]].astype(str).agg(", ".join, axis=1)
        kept = own.drop(columns=[c for c in own.columns if c.split(" (")[0] in d.feature_names])
        kept.insert(0, "cell", cells)
        kept.insert(0, "term", d.term_name(subset))
        frames.append(kept)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def component_frame(d: Decomposition, subset: Subset) -> "pd.DataFrame":
    """Return one row a cell and output of one component; see `Decomposition.to_frame`."""
    import pandas as pd

    component = d.components.get(subset)
    if not isinstance(component, TensorComponent):
        raise InvalidInputError(f"{d.term_name(subset)!r} is not a table of cells")
    component = component.stored()
    shape = component.mass.shape
    columns: dict[str, Any] = {}
    for position, axis in enumerate(component.axes):
        cell = np.indices(shape)[position].ravel()
        columns[axis.name] = np.array(axis.labels(), dtype=object)[cell]
        if not axis.is_categorical:
            lower, upper = _edges(axis)
            columns[f"{axis.name} (from)"] = lower[cell]
            columns[f"{axis.name} (to)"] = upper[cell]
    frames = []
    for k, output in enumerate(d.output_names):
        effects = {"effect": component.values[..., k].ravel()}
        if component.raw is not None:
            effects["raw_effect"] = component.raw[..., k].ravel()
        effects["mass"] = component.mass.ravel()
        own = pd.DataFrame(columns | effects)
        if d.n_outputs > 1:
            own.insert(len(columns), "output", output)
        frames.append(own)
    return pd.concat(frames, ignore_index=True)


def _edges(axis: FeatureAxis) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    cuts = axis.cuts if axis.cuts is not None else np.empty(0)
    special = np.full(axis.n_cells - axis.n_regular, np.nan)
    lower = np.concatenate([[-np.inf], cuts, special])
    upper = np.concatenate([cuts, [np.inf], special])
    return lower, upper


def text_summary(d: Decomposition, most: int = 8) -> str:
    """Return a description of a few lines."""
    lines = [
        f"Decomposition of {len(d.feature_names)} features into {len(d)} components "
        f"(engine: {d.engine}, measure: {d.measure})"
    ]
    table = importance_table(d)
    for row in table.head(most).itertuples():
        output = f" [{row.output}]" if d.n_outputs > 1 else ""
        lines.append(f"  {row.variance_share:7.2%}  {row.term}{output}")
    if len(table) > most:
        lines.append(f"  ... and {len(table) - most} more")
    if d.certificate is not None:
        c = d.certificate
        additivity = c.additivity_cells if c.additivity_cells is not None else c.additivity_rows
        added = "" if additivity is None else f"additivity {additivity:.1e}, "
        lines.append(
            f"certificate: {added}conditional means "
            f"{c.conditional_mean:.1e}, unidentified directions {c.unidentified}"
        )
    return "\n".join(lines)


def html_summary(d: Decomposition, most: int = 20) -> str:
    """Return the summary as HTML for notebooks."""
    table = importance_table(d)
    shown = table.head(most).to_html(index=False, float_format=lambda x: f"{x:.4g}", border=0)
    head = (
        f"<p><b>Decomposition</b> into {len(d)} components &middot; engine {escape(d.engine)} "
        f"&middot; measure {escape(d.measure)}</p>"
    )
    tail = f"<p>... and {len(table) - most} more</p>" if len(table) > most else ""
    facts = d.certificate.sentences() if d.certificate else []
    listed = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return f"{head}{shown}{tail}<ul>{listed}</ul>"
