"""Which numbers of the small world were fitted to the paper's, and agree with them by construction.

`tools/calibrate_corpus.py` does the fitting. To find these numbers again tests the code and
says nothing about the paper. Paper: silent (the small world is ours).
"""

# Rows of Table 2 whose R with helpfulness was fitted.
FITTED_R = (
    "correctness",
    "coherence",
    "complexity",
    "verbosity",
    "turns in prompt",
    "characters in prompt",
)

# What was fitted -> to what.
FITTED = {
    "means and standard deviations of the ratings": "Table 2",
    f"R with helpfulness of {', '.join(FITTED_R)}": "Table 2",
    "R of the other ratings with each other": "an analysis of the released rows",
    "how often each rating occurs": "an analysis of the released rows",
    "share of pairs with equal ratings, and 2 or more apart": "an analysis of the released rows",
    "kappas of three stages": "Table 1",
    "annotators a response, share of samples removed": "section 2.1",
    "share of multi-turn prompts, mean and SD of turns": "section 2.1, Table 2",
}

# What was not, so that it can come out otherwise than the paper has it.
NOT_FITTED = (
    "lengths in characters, and R of the response's length with helpfulness",
    "partial correlations, slopes and curves of helpfulness by length",
    "what selection alone makes of kappa",
)
