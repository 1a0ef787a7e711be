"""Groups of token sequences: trees, attention, sampling."""
