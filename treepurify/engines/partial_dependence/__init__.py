"""The interventional functional ANOVA, made of partial dependence."""
