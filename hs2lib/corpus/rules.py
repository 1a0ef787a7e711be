"""What a generated item will be, before any text is written: family, turns, lengths, edits, and so
its true attributes.

Everything is drawn with a counter-based hash of (seed, item), in blocks, so that an item never
depends on the items around it. The true ("latent") attributes of a response follow from the edits
made to it by the table RULES. Paper: appendix G (guidelines); the table is our reading of it. Axes:
B items (prompts), 2 responses, A attributes.
"""

from dataclasses import dataclass

import numpy as np

from hs2lib.paths import read_yaml

_TABLES = read_yaml(__file__, "rules.yaml")

# Changes of the attributes by each named edit, and by the steps of style (see the file).
RULES, SHARE_POWER = _TABLES["edits"], _TABLES["share power"]
JARGON, UNCLEAR, VERBOSITY, EXTRAS = (
    _TABLES["style"][name] for name in ("jargon", "unclear", "verbosity", "extras")
)
SHARES = (
    0.0,
    1 / 8,
    1 / 3,
    3 / 4,
)  # severity 0 (absent), 1 (slight), 2 (clear), 3 (severe): share of items touched
PLANS: list[tuple[float, list[tuple[str, int]]]] = _TABLES["plans"]

KINDS = tuple(RULES)

EFFECT = np.array([RULES[kind] for kind in KINDS])  # [KINDS, A]

PLAN_KIND = np.array(
    [[KINDS.index(k) for k, _ in p] + [len(KINDS)] * (2 - len(p)) for _, p in PLANS]
)

PLAN_SEVERITY = np.array([[s for _, s in p] + [0] * (2 - len(p)) for _, p in PLANS])

REFUSAL = KINDS.index("refusal")

FAMILIES = _TABLES["families"]  # name -> share of prompts, complexity of an unedited answer

NAMES = tuple(FAMILIES)

_SHARE, COMPLEXITY = np.array(list(FAMILIES.values())).T

UNSAFE_ITEMS = 3  # of the answer to an unsafe request: the refusal, and two things to do instead

N_ITEMS = (2, 3, 4, 5)  # of an answer, and how often

_N_ITEMS_SHARE = np.array([0.2, 0.35, 0.3, 0.15])

MULTI_TURN = 0.29  # share of prompts with earlier turns (paper: section 2.1)

EXCHANGES = np.array(
    _TABLES["exchanges"]
)  # chances of 1, 2, 3 ... earlier user turns, where there are any

FITTED = _TABLES["fitted"]

BENCHMARK = _TABLES["benchmark"]  # section -> which families, which edits of the worse response


@dataclass(frozen=True, slots=True)
class Draw:
    """What a block of B items will be. Arrays [B] for the prompt, [B, 2] for the two responses."""

    items: np.ndarray
    family: np.ndarray  # index into NAMES
    exchanges: np.ndarray  # earlier user turns, 0 for a single-turn prompt
    n_items: np.ndarray  # facts or steps that a complete answer has
    prompt_z: np.ndarray  # standard normal: how long the prompt is for its kind
    plan: np.ndarray  # [B, 2] index into PLANS
    touched: np.ndarray  # [B, 2, 2] how many items each of the plan's two edits touches
    expert: np.ndarray  # [B, 2] sentences of an expert, -1 for a plain one
    extras: np.ndarray  # [B, 2] sentences that say nothing asked for
    latent: np.ndarray  # [B, 2, A] the true attributes


def bits(seed: int, items: np.ndarray, stream: int, k: int) -> np.ndarray:
    """k hashed 64-bit numbers for every item: uint64 [B, k]. The same (seed, item, stream) always gives the same."""
    with np.errstate(over="ignore"):
        x = np.asarray(items, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
        x = x + np.uint64(seed % 2**64) * np.uint64(0xD1B54A32D192ED03)
        x = _mix(x + np.uint64(stream) * np.uint64(0x8CB92BA72F3D8DD7))
        return _mix(x + np.arange(1, k + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014), in place: one input bit changes half of the output."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


def uniforms(seed: int, items: np.ndarray, stream: int, k: int) -> np.ndarray:
    """Uniform numbers in the open interval (0, 1), float64 [B, k]."""
    return ((bits(seed, items, stream, k) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals(seed: int, items: np.ndarray, stream: int, k: int) -> np.ndarray:
    """Standard normal numbers, float64 [B, k], by Box and Muller's transform."""
    half = (k + 1) // 2
    u = uniforms(seed, items, stream, 2 * half)
    radius, angle = np.sqrt(-2 * np.log(u[:, :half])), 2 * np.pi * u[:, half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :k]


def _pick(cumulative: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Index of the cell of a cumulative distribution (rows of it, or one for all) that u falls in."""
    return np.minimum((u[..., None] >= cumulative).sum(axis=-1), cumulative.shape[-1] - 1)


def style(
    family: np.ndarray, expert: np.ndarray, extras: np.ndarray, n_items: np.ndarray
) -> np.ndarray:
    """The attributes of a response without any fault: family [...] and so on as in Draw -> [..., A]."""
    base = np.full((*np.shape(expert), 5), 4.0)
    base[..., 2] += np.interp(expert, np.arange(-1, 4), UNCLEAR)
    base[..., 3] = COMPLEXITY[family] + np.interp(expert, np.arange(-1, 4), JARGON)
    base[..., 4] = 2.0 + np.interp(extras / n_items, EXTRAS, VERBOSITY)
    return base


def attributes(base: np.ndarray, touched: np.ndarray, n_items: np.ndarray) -> np.ndarray:
    """The true attributes by RULES: base [..., A], touched [..., KINDS], n_items [...] -> [..., A]
    in 0..4.

    A share may be above 1: more irrelevant sentences than items, say.
    """
    share = (touched / np.asarray(n_items)[..., None]) ** SHARE_POWER
    return np.clip(base + share @ EFFECT, 0.0, 4.0)


def by_kind(plan: np.ndarray, touched: np.ndarray) -> np.ndarray:
    """Items touched by each kind of edit: plan [...], touched [..., 2] -> [..., KINDS]."""
    slots = PLAN_KIND[plan][..., None] == np.arange(len(KINDS))  # [..., 2, KINDS]
    return (slots * touched[..., None]).sum(axis=-2)


def touched_items(plan: np.ndarray, n_items: np.ndarray) -> np.ndarray:
    """How many of n_items each edit of a plan touches: [..., 2]; an edit of a plan touches at least one."""
    severity, kind = PLAN_SEVERITY[plan], PLAN_KIND[plan]
    n = n_items[..., None]
    count = np.maximum(np.rint(np.array(SHARES)[severity] * n), 1)
    count = np.where(kind == KINDS.index("shuffled order"), np.maximum(count, 2), count)
    count = np.where(kind == KINDS.index("missing item"), np.minimum(count, n - 1), count)
    count = np.where(severity == 0, 0, np.where(kind == REFUSAL, n, np.minimum(count, n))).astype(
        np.int64
    )
    # Of an item that is left out nobody sees that it was wrong.
    both = (kind[..., 0] == KINDS.index("wrong value")) & (
        kind[..., 1] == KINDS.index("missing item")
    )
    count[..., 1] = np.where(
        both, np.minimum(count[..., 1], n_items - count[..., 0]), count[..., 1]
    )
    # And of one that is left alone nobody sees an order.
    alone = (kind[..., 0] == KINDS.index("missing item")) & (
        kind[..., 1] == KINDS.index("shuffled order")
    )
    count[..., 1] = np.where(alone & (n_items - count[..., 0] < 2), 0, count[..., 1])
    return count


def _plan_table(fitted: dict, tilt: np.ndarray) -> np.ndarray:
    """Cumulative probabilities of the plans for each tilt towards helpful ones: [len(tilt), plans]."""
    n = np.full(len(PLANS), 4)
    plans = np.arange(len(PLANS))
    nominal = attributes(
        np.array([4.0, 4.0, 4.0, 1.5, 2.0]), by_kind(plans, touched_items(plans, n)), n
    )
    h, k = nominal[:, 0] - 2.9, nominal[:, 2] - 3.6
    weight = np.log([w for w, _ in PLANS])
    weight = weight + fitted["plan h"] * h + fitted["plan h2"] * h**2 + fitted["plan k"] * k
    weight = weight + fitted["plan k2"] * k**2 + fitted["plan hk"] * h * k
    p = np.exp(weight + tilt[:, None] * h)
    return np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)


_TILTS = np.linspace(-1.2, 1.2, 25)


def draw(seed: int, items: np.ndarray, fitted: dict = FITTED) -> Draw:
    """Draw what the items with these numbers (int [B]) are. Paper: silent (our corpus)."""
    items = np.asarray(items, dtype=np.int64)
    u, z = uniforms(seed, items, 1, 12), normals(seed, items, 2, 8)
    family = _pick(np.cumsum(_SHARE / _SHARE.sum()), u[:, 0])
    exchanges = np.where(
        u[:, 1] < MULTI_TURN, 1 + _pick(np.cumsum(EXCHANGES / EXCHANGES.sum()), u[:, 2]), 0
    )

    n_items = np.array(N_ITEMS)[_pick(np.cumsum(_N_ITEMS_SHARE), u[:, 6])]
    n_items = np.where(family == NAMES.index("unsafe"), UNSAFE_ITEMS, n_items)
    # Complexity: mostly the prompt's (a topic is technical for both responses); a response may
    # deviate by a step.
    level = (
        fitted["jargon mean"]
        + fitted["jargon sd"] * z[:, 1, None]
        + fitted["jargon pair"] * z[:, 2:4]
    )
    expert = np.clip(np.rint(level), 0, len(JARGON) - 1).astype(np.int64) - 1
    # Verbosity: partly the prompt's, rises with complexity (technical answers are wordier).
    complexity = style(family[:, None], expert, np.zeros((1, 2)), 1)[..., 3]
    level = 2 + fitted["verbosity mean"] + fitted["verbosity with complexity"] * (complexity - 1.7)
    wordy = 0.45 * z[:, 4, None] + np.sqrt(1 - 0.45**2) * z[:, 5:7]
    level = (
        level + fitted["verbosity sd"] * np.sign(wordy) * np.abs(wordy) ** 1.5
    )  # heavier tails than a normal
    extras = np.rint(np.interp(level, np.arange(len(EXTRAS)), EXTRAS) * n_items[:, None]).astype(
        np.int64
    )

    # Quality: harder with many turns and long prompts, a little better in technical and in fuller
    # answers.
    base = style(family[:, None], expert, extras, n_items[:, None])
    tilt = fitted["tilt turns"] * (np.minimum(exchanges, 8) - 0.9) + fitted["tilt prompt"] * z[:, 0]
    tilt = tilt[:, None] + fitted["tilt complexity"] * (base[..., 3] - 1.7)
    tilt = tilt + fitted["tilt verbosity"] * (base[..., 4] - 2.0)
    row = np.clip(np.rint((tilt - _TILTS[0]) / (_TILTS[1] - _TILTS[0])), 0, len(_TILTS) - 1).astype(
        np.int64
    )
    plan = _pick(_plan_table(fitted, _TILTS)[row], u[:, 4:6])
    # A refusal has one sentence, in plain and few words.
    refused = (PLAN_KIND[plan] == REFUSAL).any(axis=-1) & (family != NAMES.index("unsafe"))[:, None]
    expert, extras = np.where(refused, 0, expert), np.where(refused, np.minimum(extras, 2), extras)
    base = style(family[:, None], expert, extras, n_items[:, None])
    touched = touched_items(plan, np.broadcast_to(n_items[:, None], plan.shape))
    latent = attributes(base, by_kind(plan, touched), np.broadcast_to(n_items[:, None], plan.shape))
    return Draw(items, family, exchanges, n_items, z[:, 0], plan, touched, expert, extras, latent)


N_ANNOTATORS = 1000

FITTED_RATERS = _TABLES["raters"]


def annotators(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The bias of every annotator [N_ANNOTATORS, A] (unit SD) and their noise level [N_ANNOTATORS] (median 1)."""
    z = normals(seed, np.arange(N_ANNOTATORS), 11, 6)
    z[:, 1] = 0.8 * z[:, 0] + 0.6 * z[:, 1]  # who is strict on helpfulness is strict on correctness
    return z[:, :5], np.exp(0.25 * z[:, 5])


def who(seed: int, items: np.ndarray) -> np.ndarray:
    """The five different annotators an item would be shown to, int [B, 5]: the same for both of its responses."""
    b = bits(seed, items, 12, 2)
    step = 2 * (b[:, 1] % np.uint64(N_ANNOTATORS // 2)) + np.uint64(
        1
    )  # odd, and no multiple of 5 below:
    step = step + np.uint64(2) * (
        step % np.uint64(5) == 0
    )  # coprime to 1000, so five steps never meet
    return (
        (b[:, :1] + step[:, None] * np.arange(5, dtype=np.uint64)) % np.uint64(N_ANNOTATORS)
    ).astype(np.int64)


def rate(
    seed: int, items: np.ndarray, latent: np.ndarray, initial=False, fitted=FITTED_RATERS
) -> tuple:
    """Ratings that five annotators would give, and where the two additional ones are lost to
    quality assurance.

    items int [B]; latent [B, 2, A]. initial: the round before the improvements of section 2.1.
    Returns ratings float64 [2B, 5, A] in 0..4 (rows: item 0 response 0, item 0 response 1, ...),
    lost bool [2B].
    """
    f, n = fitted, len(items)
    people = np.repeat(who(seed, items), 2, axis=0)  # [2B, 5]
    bias, level = (of_all[people] for of_all in annotators(seed))  # [2B, 5, A], [2B, 5]
    rows = (2 * np.asarray(items)[:, None] + np.arange(2)).ravel()
    stream = 31 if initial else 21
    z = normals(seed, rows, stream, 5 * 7).reshape(2 * n, 5, 7)
    # Both responses are rated one after the other, so what an annotator makes of the style is
    # partly the same for both.
    both = np.repeat(normals(seed, items, stream + 2, 5 * 3).reshape(n, 5, 3), 2, axis=0)
    share = f["same item"]
    z[..., [3, 4, 6]] = np.sqrt(share) * both + np.sqrt(1 - share) * z[..., [3, 4, 6]]
    z *= level[..., None]
    u = uniforms(seed, rows, stream + 1, 11)
    truth = np.repeat(latent.reshape(2 * n, 1, 5), 5, axis=1)
    # A lapse: the annotator judges something that is not there (misreads the question, skims the
    # answer). Quality is then a number unrelated to the response; noisy annotators lapse more
    # often.
    lapse = u[:, 1:6] < f["initial lapse" if initial else "lapse"] * level**2
    imagined = 4.4 * u[:, 6:11] - 0.2
    # who misjudges the quality of a response also sees another coherence
    truth[..., 2] += np.where(lapse, f["lapse coherence"] * (imagined - truth[..., 0]), 0.0)
    truth[..., :2] = np.where(lapse[..., None], imagined[..., None], truth[..., :2])
    m = {
        name: f["initial " + name] if initial else 1.0
        for name in ("shared", "coherence", "complexity", "verbosity")
    }
    shared, style = z[..., 5] * f["shared noise"] * m["shared"], z[..., 6] * f["style shared"]
    noise = np.empty_like(truth)
    noise[..., 0] = shared + f["helpfulness noise"] * m["shared"] * z[..., 0]
    noise[..., 1] = shared + f["correctness noise"] * m["shared"] * z[..., 1]
    noise[..., 2] = (
        f["coherence halo"] * z[..., 5] + f["coherence noise"] * m["coherence"] * z[..., 2]
    )
    noise[..., 3] = (style + f["complexity noise"] * z[..., 3]) * m["complexity"]
    noise[..., 4] = (style + f["verbosity noise"] * z[..., 4]) * m["verbosity"]
    return np.clip(np.rint(truth + noise + f["bias"] * bias), 0, 4), u[:, 0] < f["lost"]
