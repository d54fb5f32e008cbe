"""The functional ANOVA of a function of dependent continuous features, in closed form."""

from treepurify.engines.legendre.anova import legendre_anova
from treepurify.engines.legendre.selection import TermSelection

__all__ = ["TermSelection", "legendre_anova"]
