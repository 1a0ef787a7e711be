"""hs2: the HelpSteer2 paper (arXiv 2406.08673) as code you can read, on the hardware you have."""

__version__ = "0.1.0"
