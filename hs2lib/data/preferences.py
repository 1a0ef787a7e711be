"""Your own preferences: pairs of a better and a worse response, to train on.

The one place at which a training reads `hs2lib.data.pairs`, so that whatever that reads is trained
on too.
"""

from pathlib import Path

from hs2lib.data.load import Loaded, own_file, provenance
from hs2lib.data.pairs import load_pairs


def load(path: str | Path, folder: str | Path | None = None, *, strict: bool = True) -> Loaded:
    """The pairs of a file as groups of two responses, the better one first.

    The preference is minus the strength: -1 where the file has none. It stands in a column
    that says which response is better and by how much, or beside chosen and rejected in a column of
    `hs2lib.data.pairs.MARGINS`.

    Paper: silent (section 3 compares with HH-RLHF, whose rows are such pairs).

    Args:
        path: a file of any format that `hs2lib.data.pairs` reads.
        folder: where it is looked for too, by default HS2_DATA_DIR.
        strict: whether faulty rows raise one error. Else they are set aside.

    Raises:
        hs2lib.data.rows.DataError: as `hs2lib.data.pairs.load_pairs`.
        ValueError: there is no path.
    """
    if not path:
        raise ValueError("your own preferences need path=, the JSONL, CSV or Parquet file to read")
    pairs = load_pairs("folder", folder=folder, path=path, strict=strict, margins=True)
    file, _ = own_file(path, folder)
    return Loaded(
        list(pairs.pairs),
        provenance("your own preferences", file),
        False,
        list(pairs.set_aside),
        own=True,
        read=pairs.read,
    )
