"""Whether LightGBM could have written the text of a model, letter for letter.

LightGBM trusts the files that it reads: it crashes on lists that are too short and on indices
out of range. Whether it may be asked about a file is therefore decided by a grammar of the whole
text: fields in their order, blank lines, and every number in the form that LightGBM gives it. The
parser checks that the numbers agree with each other.
"""

import re

from treepurify.models.lightgbm_text import END_OF_OLD_TREES, END_OF_TREES

# Ten digits hold every 32-bit integer, and bit sets without a sign.
_WHOLE = r"(?:0|-?[1-9]\d{0,9})"
_WHOLES = rf"(?:{_WHOLE}(?: {_WHOLE})*)?"
_NUMBER = r"-?(?:inf|nan|(?:0|[1-9]\d{0,16})(?:\.\d{1,22})?(?:e[+-]\d{2,3})?)"
_NUMBERS = rf"(?:{_NUMBER}(?: {_NUMBER})*)?"
# No control characters: LightGBM ends a line at some of them, and the text at another.
_WORD = r"[^\x00-\x20\x7f]+"
_WORDS = rf"(?:{_WORD}(?: {_WORD})*)?"
_LABELS = r"[^\x00-\x1f\x7f]*"

_HEADER_FIELDS = (
    rf"num_class={_WHOLE}\nnum_tree_per_iteration={_WHOLE}\nlabel_index={_WHOLE}\n"
    rf"max_feature_idx={_WHOLE}\n(?:objective=[a-z0-9_]+(?: [a-z_]+(?::{_NUMBER})?)*\n)?"
    rf"(?:boost_from_average\n)?(?:average_output\n)?feature_names={_WORDS}\n"
    rf"(?:monotone_constraints={_WHOLES}\n)?feature_infos={_WORDS}\n"
)
_TREE = re.compile(
    rf"{_WHOLE}\nnum_leaves={_WHOLE}\nnum_cat={_WHOLE}\n"
    rf"split_feature={_WHOLES}\nsplit_gain={_NUMBERS}\nthreshold={_NUMBERS}\n"
    rf"decision_type={_WHOLES}\nleft_child={_WHOLES}\nright_child={_WHOLES}\n"
    rf"(?:leaf_parent={_WHOLES}\n)?"
    rf"leaf_value={_NUMBERS}\n(?:leaf_weight={_NUMBERS}\n)?leaf_count={_WHOLES}\n"
    rf"internal_value={_NUMBERS}\n(?:internal_weight={_NUMBERS}\n)?internal_count={_WHOLES}\n"
    rf"(?:cat_boundaries={_WHOLES}\ncat_threshold={_WHOLES}\n)?"
    rf"(?:is_linear=0\n)?shrinkage={_NUMBER}\n\n"
)
_IMPORTANCES = rf"(?:{_WORD}={_WHOLE}\n)*"
_PARAMETERS = rf"(?:\nparameters:\n(?:\[\w+: {_LABELS}\]\n)*\nend of parameters\n)?"
_PANDAS = rf"(?:\npandas_categorical:{_LABELS}\n)?"
_WITH_SIZES = rf"{_HEADER_FIELDS}tree_sizes={_WHOLES}\n"
# Each layout: the end of the trees, the header, and the text after that end.
_LAYOUTS = tuple(
    (end, re.compile(header), re.compile(tail))
    for end, header, tail in (
        (
            END_OF_TREES,
            rf"tree\nversion=v[234]\n{_WITH_SIZES}",
            rf"\n\nfeature_importances:\n{_IMPORTANCES}{_PARAMETERS}{_PANDAS}",
        ),
        # LightGBM 2.2
        (
            END_OF_TREES,
            rf"tree\nversion=v[23]\n{_WITH_SIZES}",
            rf"\n\nfeature importances:\n{_IMPORTANCES}{_PARAMETERS}{_PANDAS}",
        ),
        # LightGBM 2.0.12 to 2.1
        (END_OF_OLD_TREES, rf"tree\nversion=v2\n{_WITH_SIZES}", rf"{_IMPORTANCES}{_PANDAS}"),
        # LightGBM 2.0.4 to 2.0.11
        (
            END_OF_OLD_TREES,
            rf"tree\n{_HEADER_FIELDS}",
            rf"{_IMPORTANCES}(?:\npandas_categorical:{_LABELS}\n?)?",
        ),
    )
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
    for end_of_trees, header, tail in _LAYOUTS:
        head, end, after = text.partition(end_of_trees)
        first, *trees = head.split("\nTree=")
        if end and header.fullmatch(first) and tail.fullmatch(after):
            return all(_TREE.fullmatch(tree) for tree in trees)
    return False
