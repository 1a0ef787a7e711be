"""The environment of the tests: what a user may have set, and no test is about, is gone. Imported before torch.

The Hub of the tests is a server on loopback, and what a test needs besides it sets itself. So they
pass with HF_HUB_OFFLINE, HF_HOME, OMP_NUM_THREADS, a proxy or CI set or not.
"""

import os

OF_THE_USER = ("HF_", "HUGGING_FACE_", "TRANSFORMERS_", "HS2_", "SNAKEMAKE_")
READ_BY_TESTS = ("HS2_DATA_DIR", "HS2_DEVICE")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
OTHERS = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CI", "MPLBACKEND", "PYTEST_ADDOPTS", "NO_COLOR")

for name in list(os.environ):
    is_of_the_user = name.startswith(OF_THE_USER) and name not in READ_BY_TESTS
    if is_of_the_user or name.lower() in PROXIES or name in OTHERS:
        del os.environ[name]

# For the processes that tests start, too. Two busy processes with two threads each collapse on two
# cores.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
if os.environ.get("HS2_DEVICE") != "cuda":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same tests on every machine
