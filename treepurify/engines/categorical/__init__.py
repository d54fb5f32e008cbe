"""The exact functional ANOVA of a function of categories, in closed form."""

from treepurify.engines.categorical.anova import categorical_anova

__all__ = ["categorical_anova"]
