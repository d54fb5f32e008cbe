"""How what a report shows was made: the call, the model, the data, versions, date and seed."""

import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from treepurify.arguments import brief, read_path
from treepurify.decomposition import Decomposition
from treepurify.errors import InvalidInputError
from treepurify.fingerprints import array_fingerprint, file_fingerprint
from treepurify.models.families import FAMILIES, display_name
from treepurify.remainder import SumOfParts
from treepurify.report.parts import command_block, facts_list
from treepurify.rows.reduction import RowStream

__all__ = [
    "FileHash",
    "call_facts",
    "hash_files",
    "making_facts",
    "making_parts",
    "model_words",
    "page_facts",
]

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "matplotlib")
# Where the name that installs a library is not the one that imports it.
_INSTALLED_AS = {"sklearn": "scikit-learn", "sksurv": "scikit-survival"}
_UNKNOWN = "unknown"

FileHash = tuple[str, str]

# Of the engines that keep some of their options only.
_FUNCTIONS = {
    "ALE": ("ale_anova", "nodes"),
    "hooker": ("hooker_anova", "bins"),
    "Legendre closed form": ("legendre_anova", "how functions are fitted"),
    "categorical closed form": ("categorical_anova", "how functions are selected, bins"),
    "partial dependence": ("partial_dependence_anova", "the background if it was not X"),
    "partial dependence (sampled)": (
        "partial_dependence_anova",
        "the background if it was not X, its size",
    ),
    "path-dependent": ("partial_dependence_anova", ""),
}
# Measures that are called as the weighting is, and those that a weighting words otherwise.
_NAMES = {"empirical", "uniform", "independent", "shrunk"}
_NAMES |= {"kernel", "copula", "chow-liu", "log-linear"}
_WORDS = {
    "laplace (uniform share 0.5)": '"laplace"',
    "laplace (one added to each cell of each table; not one joint mass)": (
        'tp.weights.Laplace(variant="plus-one")'
    ),
    "uniform by length": 'tp.weights.Uniform(by="length")',
}
_OF_A_NUMBER = re.compile(
    r"(laplace|shrunk|kernel) \((?:uniform share|independent share|bandwidth) ([\d.e+-]+)\)"
)
_USUAL_ORDER, _USUAL_TOLERANCE, _USUAL_BINS = 2, 1e-8, 20
_MOST_NAMED = 12
# The part of an EBM's measure after the weighting; `resolution` has it.
_OF_TERMS = ", bins of each term"


def hash_files(files: Any) -> list[FileHash]:
    """Return the name of each file with its SHA-256.

    Raises
    ------
    InvalidInputError
        If `files` is no list of paths, or one of them is not a file that can be read.
    """
    if not isinstance(files, list | tuple):
        raise InvalidInputError(f"files must be a list of paths, got {brief(files)}")
    hashed = []
    for given in files:
        path = read_path("each of files", given)
        if not path.is_file():
            raise InvalidInputError(f"there is no file {str(path)!r}, which files names")
        hashed.append((path.name, file_fingerprint(path)))
    return hashed


def model_words(d: Decomposition) -> str:
    """Return library, version, kind and size of the model, in words; empty where unknown."""
    model = d.diagnostics.get("model") or {}
    known = (str(model[part]) for part in ("library", "version") if part in model)
    source = " ".join(part for part in known if part != _UNKNOWN)
    count = f"{model['trees']} trees" if model.get("trees") is not None else ""
    if model.get("terms") is not None:
        count = f"{model['terms']} terms"
    return ", ".join(part for part in (source, model.get("kind"), count) if part)


def making_parts(
    d: Decomposition, command: str | None, files: Sequence[FileHash] = ()
) -> list[str]:
    """Return the parts of the section on how a decomposition and its page were made.

    Parameters
    ----------
    d : Decomposition
        The decomposition.
    command : str, optional
        The command or the code that made it.
    files : sequence of (str, str)
        Names of files that it was made from, each with its hash.
    """
    facts = [*making_facts(d, with_call=command is None), *page_facts([d], files)]
    return [facts_list(facts), command_block(command)]


def making_facts(d: Decomposition, *, with_call: bool) -> list[tuple[str, str]]:
    """Return how one decomposition was made: engine, seed, and hashes of model and rows.

    `with_call` adds the call that gives it, as far as it is known: for pages whose author did not
    pass the command.
    """
    method = d.diagnostics.get("method")
    model = (d.diagnostics.get("model") or {}).get("sha256")
    rows = _rows_fingerprint(d)
    return [
        *(call_facts(d) if with_call else []),
        ("Engine", f"{d.engine}, {method}" if method else d.engine),
        ("Random choices", _seed_words(d)),
        ("Model as read", f"SHA-256 {model} of its trees or tables" if model else ""),
        ("Rows as read", f"SHA-256 {rows} of the cell of each row and its weight" if rows else ""),
    ]


def page_facts(
    decompositions: Sequence[Decomposition], files: Sequence[FileHash]
) -> list[tuple[str, str]]:
    """Return when and with which versions a page was written, and the files behind it."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        ("Files", "; ".join(f"{name}: SHA-256 {digest}" for name, digest in files)),
        ("Report written", made),
        ("Versions", ", ".join(f"{name} {version}" for name, version in _versions(decompositions))),
    ]


def _rows_fingerprint(d: Decomposition) -> str:
    if not d.rows or isinstance(d.rows, RowStream):
        return ""
    rows = d.rows[max(d.rows)]
    return array_fingerprint([rows.codes, rows.weights])


def _seed_words(d: Decomposition) -> str:
    seeds = sorted(set(_seeds(d.diagnostics)))
    if seeds:
        return f"drawn with seed {', '.join(map(str, seeds))}"
    return "none, or drawn with a fixed seed: the same call gives the same numbers"


def _seeds(facts: Any) -> Iterable[int]:
    """Yield every seed in nested facts."""
    if isinstance(facts, dict) or hasattr(facts, "items"):
        for name, value in facts.items():
            if name == "seed" and isinstance(value, int):
                yield value
            else:
                yield from _seeds(value)
    elif isinstance(facts, list | tuple):
        for value in facts:
            yield from _seeds(value)


def _versions(decompositions: Sequence[Decomposition]) -> list[tuple[str, str]]:
    from treepurify import __version__

    versions = [("treepurify", __version__), ("Python", platform.python_version())]
    versions += [(name, metadata.version(name)) for name in _PACKAGES]
    models = [d.diagnostics.get("model") or {} for d in decompositions]
    named = dict.fromkeys(
        name for model in models for name in str(model.get("library", "")).split(", ") if name
    )
    for name in named:
        installed = _installed_version(name)
        if installed:
            versions.append((display_name(name), installed))
    return versions


def _installed_version(library: str) -> str:
    known = {f.library for f in FAMILIES} | {f.name for f in FAMILIES}
    if library not in known:
        return ""
    try:
        return metadata.version(_INSTALLED_AS.get(library, library))
    except metadata.PackageNotFoundError:
        return ""


def call_facts(d: Decomposition) -> list[tuple[str, str]]:
    """Return the call, and what of it is not known; nothing where no model was decomposed.

    Every argument in it is one that the decomposition itself shows.
    """
    if d.engine == "tree" and d.diagnostics.get("model"):
        name, arguments, unknown = "purify", _of_trees(d), _unknown_of_trees(d)
    elif d.engine in _FUNCTIONS:
        name, options = _FUNCTIONS[d.engine]
        arguments = _of_functions(d)
        unknown = [*([options] if options else []), "named interactions", "weights of rows"]
    else:
        return []
    rest = f"{', '.join(unknown)}: not kept with the decomposition; add what was given"
    if d.diagnostics.get("edits"):
        rest += ". Effects were edited afterwards, as the certificate says"
    return [("Call", f"tp.{name}({', '.join(arguments)})"), ("Not in the call", rest)]


def _of_trees(d: Decomposition) -> list[str]:
    refits = d.diagnostics.get("refits")
    models = "model"
    if refits:
        models = "models" if refits["decomposed"] == "mean" else "tp.Refits(models, of=model)"
    has_rows = d.diagnostics.get("rows") is not None
    return [
        models,
        *(["X"] if has_rows else []),
        *_weights(d),
        *_order(d),
        *_interactions(d),
        *(["sample_weight=sample_weight"] if _has_row_weights(d) else []),
        f"method={_method(d)}",
        *_resolution(d),
    ]


def _unknown_of_trees(d: Decomposition) -> list[str]:
    unknown = []
    if not _is_known(d):
        unknown.append(f"the weighting ({d.measure})")
    elif "points" in d.diagnostics.get("measure", {}):
        unknown.append("options of the weighting")
    is_fitted = d.remainder is not None and not isinstance(d.remainder, SumOfParts)
    if is_fitted and not d.diagnostics.get("strongest_pairs"):
        unknown.append("named interactions")
    if not d.rows and d.diagnostics.get("rows") is not None and "uniform" not in d.measure:
        unknown.append("weights of rows")
    if d.diagnostics.get("method") == "coarse":
        unknown.append("options of the method")
    return [*unknown, "missing_cells"]


def _of_functions(d: Decomposition) -> list[str]:
    arguments = ["model", "X"]
    if d.engine in ("hooker", "categorical closed form"):
        arguments += _weights(d)
    if d.engine == "path-dependent":
        arguments.append('background="cover"')
    arguments.append(f"order={_largest(d)}")
    if d.engine == "ALE" and d.diagnostics.get("bins", _USUAL_BINS) != _USUAL_BINS:
        arguments.append(f"bins={d.diagnostics['bins']}")
    facts = d.diagnostics.get("fit", {}) if d.engine == "hooker" else d.diagnostics
    if d.engine in ("hooker", "partial dependence (sampled)") and facts.get("seed"):
        arguments.append(f"seed={facts['seed']}")
    return arguments


def _weights(d: Decomposition) -> list[str]:
    """Return the weighting that describes itself in the words of the measure."""
    words = _weighting(d.measure, is_found="tried_shares" in d.diagnostics.get("measure", {}))
    return [] if words in ("", '"empirical"') else [f"weights={words}"]


def _is_known(d: Decomposition) -> bool:
    if d.diagnostics.get("rows") is None:
        # Without rows there are the bins of an EBM, which are the default, and uniform cells.
        return True
    return bool(_weighting(d.measure))


def _weighting(measure: str, *, is_found: bool = False) -> str:
    measure = measure.removesuffix(_OF_TERMS)
    if measure.startswith("auto: "):
        return '"auto"'
    if is_found:
        return '"shrunk"'
    if measure in _NAMES:
        return f'"{measure}"'
    number = _OF_A_NUMBER.fullmatch(measure)
    if number is not None and measure not in _WORDS:
        return f"tp.weights.{number[1].capitalize()}({number[2]})"
    return _WORDS.get(measure, "")


def _largest(d: Decomposition) -> int:
    return max((len(subset) for subset in d.components), default=1)


def _order(d: Decomposition) -> list[str]:
    """Return the order, unless the usual one gives the same."""
    largest = _largest(d)
    is_usual = largest == _USUAL_ORDER or (largest < _USUAL_ORDER and d.remainder is None)
    return [] if is_usual else [f"order={largest}"]


def _interactions(d: Decomposition) -> list[str]:
    strongest = d.diagnostics.get("strongest_pairs")
    if strongest:
        return [f"interactions={len(strongest['shares'])}"]
    rest = d.remainder
    if not isinstance(rest, SumOfParts):
        return []
    largest = _largest(d)
    if all(len(part.features) > largest for part in rest.parts):
        return []
    kept = [subset for subset in d.components if len(subset) > 1]
    if len(kept) > _MOST_NAMED:
        return [f"interactions=[those {len(kept)} of this page]"]
    named = [tuple(d.feature_names[j] for j in subset) for subset in kept]
    return [f"interactions={named!r}"]


def _has_row_weights(d: Decomposition) -> bool:
    # Points that were drawn have weights that the measure gave them.
    if not d.rows or "points" in d.diagnostics.get("measure", {}):
        return False
    if isinstance(d.rows, RowStream):
        return d.rows.reader.is_weighted
    return next(iter(d.rows.values())).weights is not None


def _method(d: Decomposition) -> str:
    method = d.diagnostics["method"]
    tolerance = d.diagnostics.get("projection", {}).get("tolerance", _USUAL_TOLERANCE)
    if method == "projection" and tolerance != _USUAL_TOLERANCE:
        return f"tp.options.TreeProjection(tolerance={tolerance:g})"
    return f'"{method}"'


def _resolution(d: Decomposition) -> list[str]:
    """Return the resolution of an EBM, whose terms may keep bins of their own."""
    if (d.diagnostics.get("model") or {}).get("terms") is None:
        return []
    return [f'resolution="{d.diagnostics["resolution"]}"']
