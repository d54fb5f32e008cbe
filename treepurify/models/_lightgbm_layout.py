"""The layout in which LightGBM writes a model, to the letter.

LightGBM trusts the files that it reads: it crashes on lists that are too short and on indices
out of range. Whether it may be asked about a file is therefore decided here, by a grammar of
the whole text: fields in their order, blank lines, and every number in the form that LightGBM
gives it. The parser checks that the numbers agree with each other.
"""

import re

__all__ = ["is_as_written"]

# Ten digits hold every 32-bit integer, and bit sets without a sign.
_WHOLE = r"(?:0|-?[1-9]\d{0,9})"
_WHOLES = rf"(?:{_WHOLE}(?: {_WHOLE})*)?"
_NUMBER = r"-?(?:inf|nan|(?:0|[1-9]\d{0,16})(?:\.\d{1,22})?(?:e[+-]\d{2,3})?)"
_NUMBERS = rf"(?:{_NUMBER}(?: {_NUMBER})*)?"
# No control characters: LightGBM ends a line at some of them, and the text at another.
_WORD = r"[^\x00-\x20\x7f]+"
_WORDS = rf"(?:{_WORD}(?: {_WORD})*)?"
_LABELS = r"[^\x00-\x1f\x7f]*"

_HEADER = re.compile(
    r"tree\nversion=v[234]\n"
    rf"num_class={_WHOLE}\nnum_tree_per_iteration={_WHOLE}\nlabel_index={_WHOLE}\n"
    rf"max_feature_idx={_WHOLE}\n(?:objective=[a-z0-9_]+(?: [a-z_]+(?::{_NUMBER})?)*\n)?"
    rf"(?:average_output\n)?feature_names={_WORDS}\n(?:monotone_constraints={_WHOLES}\n)?"
    rf"feature_infos={_WORDS}\ntree_sizes={_WHOLES}\n"
)
_TREE = re.compile(
    rf"{_WHOLE}\nnum_leaves={_WHOLE}\nnum_cat={_WHOLE}\n"
    rf"split_feature={_WHOLES}\nsplit_gain={_NUMBERS}\nthreshold={_NUMBERS}\n"
    rf"decision_type={_WHOLES}\nleft_child={_WHOLES}\nright_child={_WHOLES}\n"
    rf"leaf_value={_NUMBERS}\n(?:leaf_weight={_NUMBERS}\n)?leaf_count={_WHOLES}\n"
    rf"internal_value={_NUMBERS}\n(?:internal_weight={_NUMBERS}\n)?internal_count={_WHOLES}\n"
    rf"(?:cat_boundaries={_WHOLES}\ncat_threshold={_WHOLES}\n)?"
    rf"(?:is_linear=0\n)?shrinkage={_NUMBER}\n\n"
)
_TAIL = re.compile(
    rf"\n\nfeature_importances:\n(?:{_WORD}={_WHOLE}\n)*"
    rf"(?:\nparameters:\n(?:\[\w+: {_LABELS}\]\n)*\nend of parameters\n)?"
    rf"(?:\npandas_categorical:{_LABELS}\n)?"
)


def is_as_written(text: str) -> bool:
    """Whether LightGBM could have written the text of a model, letter for letter.

    Parameters
    ----------
    text : str
        The whole text, its lines ended by a line feed alone.

    Returns
    -------
    bool
    """
    head, _, tail = text.partition("\nend of trees")
    header, *trees = head.split("\nTree=")
    return (
        _HEADER.fullmatch(header) is not None
        and all(_TREE.fullmatch(tree) for tree in trees)
        and _TAIL.fullmatch(tail) is not None
    )
