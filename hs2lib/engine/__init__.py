"""Models run on groups of token sequences: attention, log-probabilities, sampling."""
