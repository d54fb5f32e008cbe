"""What the outputs of a report are called."""

from dataclasses import replace

from treepurify.decomposition import Decomposition

__all__ = ["with_class_names"]

_LINKS_OF_CLASSES = ("softmax", "one-vs-rest")


def with_class_names(d: Decomposition) -> Decomposition:
    """Return the decomposition with outputs called ``"class 2"`` where they are class labels."""
    kind = str((d.diagnostics.get("model") or {}).get("kind", ""))
    are_classes = d.link.name in _LINKS_OF_CLASSES or kind.endswith("Classifier")
    if d.n_outputs == 1 or not are_classes:
        return d
    return replace(d, output_names=tuple(f"class {name}" for name in d.output_names))
