"""What a generated item will be before it is written: family, turns, lengths, edits, attributes.

Everything is drawn in blocks by a counter-based hash of (seed, item), so an item never depends on
the items around it. The true ("latent") attributes of a response follow from the edits made to it,
by the table RULES. Paper: appendix G (guidelines); the table is our reading of it.
Axes: B items (prompts), 2 responses, A attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hs2lib.corpus.tasks import ASK, WISHES
from hs2lib.paths import read_yaml

_TABLES = read_yaml(__file__, "rules.yaml")

# Changes of the attributes by each named edit, and by the steps of style (see the file).
RULES = _TABLES["edits"]
SHARE_POWER = _TABLES["share power"]
JARGON = _TABLES["style"]["jargon"]
UNCLEAR = _TABLES["style"]["unclear"]
VERBOSITY = _TABLES["style"]["verbosity"]
EXTRAS = _TABLES["style"]["extras"]
REMARK = _TABLES["style"]["remark"]
UNHELPFUL = _TABLES["style"]["unhelpful"]
LIKED = _TABLES["style"]["liked"]
PLAIN = -1  # the lowest step of `JARGON`; the others are 0, 1, 2 .. sentences of an expert
MOST_EXPERT = len(JARGON) - 2  # sentences of an expert at its highest step
EXPERT_STEPS = np.arange(PLAIN, MOST_EXPERT + 1)

# Severity 0 (absent), 1 (slight), 2 (clear), 3 (severe): the share of items that an edit touches.
SHARES = (0.0, 1 / 8, 1 / 3, 3 / 4)
PLANS: list[tuple[float, list[tuple[str, int]]]] = _TABLES["plans"]

KINDS = tuple(RULES)

EFFECT = np.array([RULES[kind] for kind in KINDS])  # [KINDS, A]


def _plan_slots() -> tuple[np.ndarray, np.ndarray]:
    """Make the plans' two edits as arrays [PLANS, 2]: index of the kind, and severity.

    An empty slot has the kind len(KINDS) and severity 0.
    """
    kind_of = np.full((len(PLANS), 2), len(KINDS))
    severity_of = np.zeros((len(PLANS), 2), int)
    for plan, (_, edits) in enumerate(PLANS):
        for slot, (kind, severity) in enumerate(edits):
            kind_of[plan, slot] = KINDS.index(kind)
            severity_of[plan, slot] = severity
    return kind_of, severity_of


PLAN_KIND, PLAN_SEVERITY = _plan_slots()

REFUSAL = KINDS.index("refusal")
MISSING = KINDS.index("missing item")
ORDER = KINDS.index("shuffled order")
WRONG = KINDS.index("wrong value")
IRRELEVANT = KINDS.index("irrelevant sentence")
REPETITION = KINDS.index("repetition")
IGNORED = KINDS.index("ignored wish")

FAMILIES = _TABLES["families"]  # name -> share of prompts, complexity of an unedited answer

NAMES = tuple(FAMILIES)

_FAMILY_SHARE = np.array([share for share, _ in FAMILIES.values()])
COMPLEXITY = np.array([complexity for _, complexity in FAMILIES.values()])

UNSAFE = NAMES.index("unsafe")
PREMISE = NAMES.index("false premise")

UNSAFE_ITEMS = 3  # of the answer to an unsafe request: the refusal, and two things to do instead

N_ITEMS = (2, 3, 4, 5)  # of an answer, and how often
_N_ITEMS_SHARE = np.array([0.2, 0.35, 0.3, 0.15])

MULTI_TURN = 0.29  # share of prompts with earlier turns (paper: section 2.1)

# Chances of 1, 2, 3 ... earlier user turns, where there are any.
EXCHANGES = np.array(_TABLES["exchanges"])

FITTED = _TABLES["fitted"]

BENCHMARK = _TABLES["benchmark"]  # section -> which families, which edits of the worse response


# Who writes, and in what way

AUTHORS: list[list[str]] = _TABLES["authors"]  # two habits each
HABITS = ("", "stops", "jumbles", "strays", "repeats", "gives in")
NO_HABIT = HABITS.index("")
STOPS = HABITS.index("stops")
JUMBLES = HABITS.index("jumbles")
STRAYS = HABITS.index("strays")
REPEATS = HABITS.index("repeats")
GIVES_IN = HABITS.index("gives in")

ANSWERS: dict[str, dict[str, float]] = _TABLES["answers"]  # kind of texts -> how often what shows

_N_WORDINGS = np.array([len(ASK[name]) for name in NAMES])
_WISHES = tuple(WISHES)  # one of which each prompt ends in
ALONE = _WISHES.index("alone")
REMARKS = _WISHES.index("remarks")

# Of these families, in which one can give in, the authors by wording: half of them do.
_YIELDING = np.array([4, 1, 6, 2])


def author_of(family: np.ndarray, wording: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Number the author of an answer, or the second one where `second` is 1: int [...]."""
    usual = (2 * family + 3 * wording + 5 * second) % len(AUTHORS)
    yielding = _YIELDING[(wording + second) % len(_YIELDING)]
    return np.where(np.isin(family, (UNSAFE, PREMISE)), yielding, usual)


def _habit_table() -> np.ndarray:
    """Make the table of the habit that an author shows in a family: index into HABITS [A, F]."""
    table = np.zeros((len(AUTHORS), len(NAMES)), int)
    for author, (first, second) in enumerate(AUTHORS):
        for family in range(len(NAMES)):
            shown = second if first == "gives in" or family % 2 else first
            if family in (UNSAFE, PREMISE):
                shown = first if first == "gives in" or second == "jumbles" else second
            table[author, family] = HABITS.index(shown)
    return table


HABIT_OF = _habit_table()


def left_out(n_items: np.ndarray) -> np.ndarray:
    """Count the items that an author leaves out who stops early: two of five, at least one."""
    return np.maximum(1, np.rint(0.4 * np.asarray(n_items)).astype(np.int64))


def touched_by_habit(habit: np.ndarray, family: np.ndarray, n_items: np.ndarray) -> np.ndarray:
    """Count the items that a habit touches by kind of edit: [...] each -> int [..., KINDS]."""
    touched = np.zeros((*np.shape(habit), len(KINDS)), np.int64)
    unsafe = family == UNSAFE
    touched[..., MISSING] = np.where(habit == STOPS, left_out(n_items), 0)
    touched[..., ORDER] = habit == JUMBLES
    touched[..., IRRELEVANT] = habit == STRAYS
    touched[..., REPETITION] = habit == REPEATS
    touched[..., WRONG] = (habit == GIVES_IN) & ~unsafe
    touched[..., REFUSAL] = np.where((habit == GIVES_IN) & unsafe, n_items, 0)
    return touched


@dataclass(frozen=True, slots=True)
class Draw:
    """What a block of B items will be. Arrays [B] for the prompt, [B, 2] for the two responses."""

    items: np.ndarray
    family: np.ndarray  # index into NAMES
    exchanges: np.ndarray  # earlier user turns, 0 for a single-turn prompt
    n_items: np.ndarray  # facts or steps that a complete answer has
    prompt_z: np.ndarray  # standard normal: how long the prompt is for its kind
    wording: np.ndarray  # which of the family's wordings the prompt has
    wish: np.ndarray  # index into the names of tasks.WISHES
    author: np.ndarray  # [B, 2] index into AUTHORS
    habit: np.ndarray  # [B, 2] index into HABITS
    remarks: np.ndarray  # [B, 2] whether each point has a remark
    settled: bool  # whether an author begins with the same remark each time
    plan: np.ndarray  # [B, 2] index into PLANS
    touched: np.ndarray  # [B, 2, 2] how many items each of the plan's two edits touches
    expert: np.ndarray  # [B, 2] sentences of an expert, -1 for a plain one
    extras: np.ndarray  # [B, 2] sentences that say nothing asked for
    latent: np.ndarray  # [B, 2, A] the true attributes
    seen: np.ndarray  # [B, 2, A] the same as raters see them, who like jargon


# Random numbers


def bits(seed: int, items: np.ndarray, stream: int, k: int) -> np.ndarray:
    """Hash (seed, item, stream) to k 64-bit numbers for every item: uint64 [B, k]."""
    with np.errstate(over="ignore"):
        x = np.asarray(items, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
        x = x + np.uint64(seed % 2**64) * np.uint64(0xD1B54A32D192ED03)
        x = _mix(x + np.uint64(stream) * np.uint64(0x8CB92BA72F3D8DD7))
        return _mix(x + np.arange(1, k + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _mix(x: np.ndarray) -> np.ndarray:
    """Apply the finaliser of splitmix64 in place: one input bit changes half of the output.

    Source: Steele, Lea and Flood 2014.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


def uniforms(seed: int, items: np.ndarray, stream: int, k: int) -> np.ndarray:
    """Draw uniform numbers in the open interval (0, 1), float64 [B, k]."""
    return ((bits(seed, items, stream, k) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals(seed: int, items: np.ndarray, stream: int, k: int) -> np.ndarray:
    """Draw standard normal numbers, float64 [B, k], by Box and Muller's transform."""
    half = (k + 1) // 2
    u = uniforms(seed, items, stream, 2 * half)
    radius = np.sqrt(-2 * np.log(u[:, :half]))
    angle = 2 * np.pi * u[:, half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :k]


def _cells(shares: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Find the cell of a distribution, given by the shares of its cells, that u falls in."""
    return _cells_of_cumulative(np.cumsum(shares / shares.sum()), u)


def _cells_of_cumulative(cumulative: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Find the cell of a cumulative distribution (one for all, or one a row) that u falls in."""
    return np.minimum((u[..., None] >= cumulative).sum(axis=-1), cumulative.shape[-1] - 1)


# The true attributes of a response


def surplus(extras: np.ndarray | int, remarks: np.ndarray | int) -> np.ndarray | float:
    """Count what makes verbosity: sentences that say nothing asked for, and unwished remarks."""
    return extras + REMARK * remarks


def style(
    family: np.ndarray, expert: np.ndarray, extras: np.ndarray, n_items: np.ndarray
) -> np.ndarray:
    """Compute the attributes of faultless responses: arguments [...] as in Draw -> [..., A]."""
    faultless = np.full((*np.shape(expert), 5), 4.0)
    faultless[..., 0] -= UNHELPFUL * np.maximum(expert, 0)
    faultless[..., 2] += np.interp(expert, EXPERT_STEPS, UNCLEAR)
    faultless[..., 3] = COMPLEXITY[family] + np.interp(expert, EXPERT_STEPS, JARGON)
    faultless[..., 4] = 2.0 + np.interp(extras / n_items, EXTRAS, VERBOSITY)
    return faultless


def attributes(faultless: np.ndarray, touched: np.ndarray, n_items: np.ndarray) -> np.ndarray:
    """Compute the true attributes by RULES, [..., A] in 0..4.

    faultless: attributes without the edits, [..., A].
    touched: how many items each kind of edit touches, [..., KINDS]. It may be above n_items, as
        where there are more irrelevant sentences than items.
    n_items: [...].
    """
    share = (touched / np.asarray(n_items)[..., None]) ** SHARE_POWER
    return np.clip(faultless + share @ EFFECT, 0.0, 4.0)


def by_kind(plan: np.ndarray, touched: np.ndarray) -> np.ndarray:
    """Sort touched items by the kind of edit: plan [...], touched [..., 2] -> [..., KINDS]."""
    slots = PLAN_KIND[plan][..., None] == np.arange(len(KINDS))  # [..., 2, KINDS]
    return (slots * touched[..., None]).sum(axis=-2)


def touched_items(plan: np.ndarray, n_items: np.ndarray) -> np.ndarray:
    """Compute how many of n_items each edit of a plan touches, int [..., 2].

    An edit of a plan touches at least one item.
    """
    severity = PLAN_SEVERITY[plan]
    kind = PLAN_KIND[plan]
    n = n_items[..., None]
    # Of n items at most n - 1 are out of order, and one is always said.
    most = np.where((kind == ORDER) | (kind == MISSING), n - 1, n)
    count = np.clip(np.rint(np.array(SHARES)[severity] * n), 1, most)
    count = np.where(kind == REFUSAL, n, count)
    count = np.where(severity == 0, 0, count).astype(np.int64)
    # Nobody sees that an item was wrong where it is left out.
    left = n_items - count[..., 0]
    wrong_and_missing = (kind[..., 0] == WRONG) & (kind[..., 1] == MISSING)
    count[..., 1] = np.where(wrong_and_missing, np.minimum(count[..., 1], left), count[..., 1])
    # And nobody sees the order of an item that is left alone.
    missing_and_order = (kind[..., 0] == MISSING) & (kind[..., 1] == ORDER)
    count[..., 1] = np.where(missing_and_order, np.minimum(count[..., 1], left - 1), count[..., 1])
    return count


NO_EDIT = [edits for _, edits in PLANS].index([])
ONE_WRONG = [edits for _, edits in PLANS].index([["wrong value", 1]])


def _plan_table(fitted: Mapping[str, float], tilt: np.ndarray) -> np.ndarray:
    """Compute cumulative probabilities of the plans for each tilt towards helpful ones.

    Returns [len(tilt), PLANS].
    """
    n = np.full(len(PLANS), 4)
    plans = np.arange(len(PLANS))
    touched = by_kind(plans, touched_items(plans, n))
    nominal = attributes(np.array([4.0, 4.0, 4.0, 1.5, 2.0]), touched, n)
    h = nominal[:, 0] - 2.9  # helpfulness and coherence of a plan, about the mean of all
    k = nominal[:, 2] - 3.6
    weight = np.log([base_weight for base_weight, _ in PLANS])
    weight = weight + fitted["plan h"] * h + fitted["plan h2"] * h**2 + fitted["plan k"] * k
    weight = weight + fitted["plan k2"] * k**2 + fitted["plan hk"] * h * k
    p = np.exp(weight + tilt[:, None] * h)
    return np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)


_TILTS = np.linspace(-1.2, 1.2, 25)


def draw(
    seed: int,
    items: np.ndarray,
    fitted: Mapping[str, float] = FITTED,
    answers: Mapping[str, float] = ANSWERS["rated"],
) -> Draw:
    """Draw what the items with these numbers (int [B]) are. Paper: silent (our corpus).

    answers: how often an answer shows its author's habit, ignores the wish, is by a second author.
    """
    items = np.asarray(items, dtype=np.int64)
    u = uniforms(seed, items, 1, 16)
    z = normals(seed, items, 2, 8)
    family = _cells(_FAMILY_SHARE, u[:, 0])
    exchanges = np.where(u[:, 1] < MULTI_TURN, 1 + _cells(EXCHANGES, u[:, 2]), 0)
    n_items = np.array(N_ITEMS)[_cells_of_cumulative(np.cumsum(_N_ITEMS_SHARE), u[:, 6])]
    n_items = np.where(family == UNSAFE, UNSAFE_ITEMS, n_items)
    wording = (u[:, 7] * _N_WORDINGS[family]).astype(np.int64)
    wish = (u[:, 8] * len(_WISHES)).astype(np.int64)
    n_by_response = np.broadcast_to(n_items[:, None], (len(items), 2))
    family_by_response = np.broadcast_to(family[:, None], n_by_response.shape)

    expert = _draw_expert(z, fitted)
    extras = _draw_extras(z, family, expert, n_items, fitted)
    faultless = style(family[:, None], expert, extras, n_items[:, None])
    tilt = _tilt(exchanges, z[:, 0], faultless, fitted)
    row = np.rint((tilt - _TILTS[0]) / (_TILTS[1] - _TILTS[0]))
    row = np.clip(row, 0, len(_TILTS) - 1).astype(np.int64)

    second = (u[:, 9:11] < answers["second"]).astype(np.int64)
    author = author_of(family[:, None], wording[:, None], second)
    shows = u[:, 11:13] < answers["habit"]
    habit = np.where(shows, HABIT_OF[author, family_by_response], NO_HABIT)
    # The premise comes first and the refusal too: who jumbles has two items left to do it with.
    first = np.isin(family, (UNSAFE, PREMISE)).astype(np.int64)[:, None]
    habit = np.where((habit == JUMBLES) & (n_by_response - first < 2), NO_HABIT, habit)
    free = _cells_of_cumulative(_plan_table(fitted, _TILTS)[row], u[:, 4:6])
    # Beside a habit an item may be wrong, and nothing else. Who gives in to an unsafe request has
    # nothing right that could be wrong.
    gives_in = (habit == GIVES_IN) & (family_by_response == UNSAFE)
    wrong = (u[:, 4:6] < answers["wrong"]) & ~gives_in
    plan = np.where(habit == NO_HABIT, free, np.where(wrong, ONE_WRONG, NO_EDIT))
    remarks = (wish[:, None] == REMARKS) != (u[:, 13:15] < answers["ignored"])

    # A refusal has one sentence, in plain and few words.
    refused = (PLAN_KIND[plan] == REFUSAL).any(axis=-1) & (family_by_response != UNSAFE)
    expert = np.where(refused, 0, expert)
    extras = np.where(refused, np.minimum(extras, 2), extras)
    remarks &= ~refused
    touched = touched_items(plan, n_by_response)
    touched = _beside(habit, family_by_response, n_by_response, plan, touched)
    total = by_kind(plan, touched) + touched_by_habit(habit, family_by_response, n_by_response)
    n_points = np.where(refused, 0, n_by_response - total[..., MISSING])
    ignored = np.where(remarks != (wish[:, None] == REMARKS), n_points, 0)
    total[..., IGNORED] = ignored
    unasked = surplus(extras, np.where(remarks, ignored, 0))
    faultless = style(family[:, None], expert, unasked, n_items[:, None])
    latent = attributes(faultless, total, n_by_response)
    seen = attributes(like(faultless, expert), total, n_by_response)
    return Draw(
        items=items,
        family=family,
        exchanges=exchanges,
        n_items=n_items,
        prompt_z=z[:, 0],
        wording=wording,
        wish=wish,
        author=author,
        habit=habit,
        remarks=remarks,
        settled=bool(answers["settled"]),
        plan=plan,
        touched=touched,
        expert=expert,
        extras=extras,
        latent=latent,
        seen=seen,
    )


def like(faultless: np.ndarray, expert: np.ndarray) -> np.ndarray:
    """Give faultless attributes as raters see them: they take jargon for knowledge. [..., A]."""
    seen = faultless.copy()
    seen[..., 0] += (UNHELPFUL + LIKED) * np.maximum(expert, 0)
    return seen


def _beside(
    habit: np.ndarray,
    family: np.ndarray,
    n_items: np.ndarray,
    plan: np.ndarray,
    touched: np.ndarray,
) -> np.ndarray:
    """Bound the wrong values of plans by what a habit leaves: touched [..., 2] -> [..., 2].

    An item that is left out is not wrong, nor is the premise again of who has given in to it.
    """
    left = n_items - np.where(habit == STOPS, left_out(n_items), 0) - (habit == GIVES_IN)
    left = left - (family == UNSAFE)  # a refusal is wrong only where all is
    left = left - np.where(PLAN_KIND[plan] == MISSING, touched, 0).sum(axis=-1)
    most = np.maximum(left, 0)
    return np.where(PLAN_KIND[plan] == WRONG, np.minimum(touched, most[..., None]), touched)


def _draw_expert(z: np.ndarray, fitted: Mapping[str, float]) -> np.ndarray:
    """Draw the sentences of an expert, int [B, 2], from normal numbers z [B, 8].

    Complexity is mostly the prompt's, since a topic is technical for both responses.
    """
    level = (
        fitted["jargon mean"]
        + fitted["jargon sd"] * z[:, 1, None]
        + fitted["jargon pair"] * z[:, 2:4]
    )
    return np.clip(np.rint(level), 0, len(JARGON) - 1).astype(np.int64) - 1


def _draw_extras(
    z: np.ndarray,
    family: np.ndarray,
    expert: np.ndarray,
    n_items: np.ndarray,
    fitted: Mapping[str, float],
) -> np.ndarray:
    """Draw the sentences that say nothing asked for, int [B, 2], from normal numbers z [B, 8].

    Verbosity is partly the prompt's, and rises with complexity: technical answers are wordier.
    """
    complexity = style(family[:, None], expert, np.zeros((1, 2)), 1)[..., 3]
    level = 2 + fitted["verbosity mean"] + fitted["verbosity with complexity"] * (complexity - 1.7)
    wordy = 0.45 * z[:, 4, None] + np.sqrt(1 - 0.45**2) * z[:, 5:7]
    heavy_tailed = fitted["verbosity sd"] * np.sign(wordy) * np.abs(wordy) ** 1.5
    share = np.interp(level + heavy_tailed, np.arange(len(EXTRAS)), EXTRAS)
    return np.rint(share * n_items[:, None]).astype(np.int64)


def _tilt(
    exchanges: np.ndarray, prompt_z: np.ndarray, faultless: np.ndarray, fitted: Mapping[str, float]
) -> np.ndarray:
    """Compute how far the plans are tilted towards helpful ones, [B, 2].

    Tasks are harder with many turns and long prompts. Technical and fuller answers are a little
    better.
    """
    by_prompt = fitted["tilt turns"] * (np.minimum(exchanges, 8) - 0.9)
    by_prompt = by_prompt + fitted["tilt prompt"] * prompt_z
    tilt = by_prompt[:, None] + fitted["tilt complexity"] * (faultless[..., 3] - 1.7)
    return tilt + fitted["tilt verbosity"] * (faultless[..., 4] - 2.0)


# Annotators

N_ANNOTATORS = 1000

FITTED_RATERS = _TABLES["raters"]


def annotators(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw every annotator's bias and noise level.

    Returns [N_ANNOTATORS, A], of unit SD, and [N_ANNOTATORS], of median 1.
    """
    z = normals(seed, np.arange(N_ANNOTATORS), 11, 6)
    z[:, 1] = 0.8 * z[:, 0] + 0.6 * z[:, 1]  # who is strict on helpfulness is strict on correctness
    return z[:, :5], np.exp(0.25 * z[:, 5])


def who(seed: int, items: np.ndarray) -> np.ndarray:
    """Draw the five different annotators who would be shown an item, int [B, 5].

    They are the same for both of its responses.
    """
    random_bits = bits(seed, items, 12, 2)
    # Five steps never meet again, since a step is coprime to 1000: it is odd and no multiple of 5.
    step = 2 * (random_bits[:, 1] % np.uint64(N_ANNOTATORS // 2)) + np.uint64(1)
    step = step + np.uint64(2) * (step % np.uint64(5) == 0)
    position = random_bits[:, :1] + step[:, None] * np.arange(5, dtype=np.uint64)
    return (position % np.uint64(N_ANNOTATORS)).astype(np.int64)


_NOISE_OF_ROUND = ("shared", "coherence", "complexity", "verbosity")


def rate(
    seed: int,
    items: np.ndarray,
    seen: np.ndarray,
    initial: bool = False,
    fitted: Mapping[str, float] = FITTED_RATERS,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the ratings that five annotators would give.

    items: int [B].
    seen: the attributes as raters see them, [B, 2, A] (`Draw.seen`).
    initial: whether this is the round before the improvements of section 2.1.
    Returns ratings, float64 [2B, 5, A] in 0..4 (rows: item 0 response 0, item 0 response 1, ...),
    and bool [2B]: where the two additional ones are lost to quality assurance.
    """
    n = len(items)
    people = np.repeat(who(seed, items), 2, axis=0)  # [2B, 5]
    bias_of_all, level_of_all = annotators(seed)
    bias = bias_of_all[people]  # [2B, 5, A]
    level = level_of_all[people]  # [2B, 5]
    rows = (2 * np.asarray(items)[:, None] + np.arange(2)).ravel()
    stream = 31 if initial else 21
    z = normals(seed, rows, stream, 5 * 7).reshape(2 * n, 5, 7)
    # An annotator rates both responses one after the other. What they make of the style is
    # therefore partly the same for both.
    of_item = np.repeat(normals(seed, items, stream + 2, 5 * 3).reshape(n, 5, 3), 2, axis=0)
    share = fitted["same item"]
    z[..., [3, 4, 6]] = np.sqrt(share) * of_item + np.sqrt(1 - share) * z[..., [3, 4, 6]]
    z *= level[..., None]
    u = uniforms(seed, rows, stream + 1, 11)

    seen = np.repeat(seen.reshape(2 * n, 1, 5), 5, axis=1)  # what each annotator judges
    # A lapse: the annotator judges something that is not there (misreads the question, skims the
    # answer). Quality is then a number unrelated to the response. Noisy annotators lapse more
    # often.
    lapse = u[:, 1:6] < fitted["initial lapse" if initial else "lapse"] * level**2
    imagined = 4.4 * u[:, 6:11] - 0.2
    # Who misjudges the quality of a response also sees another coherence.
    seen[..., 2] += np.where(lapse, fitted["lapse coherence"] * (imagined - seen[..., 0]), 0.0)
    seen[..., :2] = np.where(lapse[..., None], imagined[..., None], seen[..., :2])

    factor = dict.fromkeys(_NOISE_OF_ROUND, 1.0)
    if initial:
        factor = {name: fitted["initial " + name] for name in _NOISE_OF_ROUND}
    shared = z[..., 5] * fitted["shared noise"] * factor["shared"]
    shared_style = z[..., 6] * fitted["style shared"]
    halo = fitted["coherence halo"] * z[..., 5]
    coherence = fitted["coherence noise"] * factor["coherence"] * z[..., 2]
    complexity = (shared_style + fitted["complexity noise"] * z[..., 3]) * factor["complexity"]
    verbosity = (shared_style + fitted["verbosity noise"] * z[..., 4]) * factor["verbosity"]
    noise = np.empty_like(seen)
    noise[..., 0] = shared + fitted["helpfulness noise"] * factor["shared"] * z[..., 0]
    noise[..., 1] = shared + fitted["correctness noise"] * factor["shared"] * z[..., 1]
    noise[..., 2] = halo + coherence
    noise[..., 3] = complexity
    noise[..., 4] = verbosity
    ratings = np.clip(np.rint(seen + noise + fitted["bias"] * bias), 0, 4)
    return ratings, u[:, 0] < fitted["lost"]
