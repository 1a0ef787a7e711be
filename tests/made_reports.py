"""Complete reports made by hand, and the three kinds of source that decide what a number in them is worth."""

import hashlib
import json

PAPERS = {"name": "nvidia/HelpSteer2", "generated": False, "of_paper": True}
OTHER = {"name": "Open Assistant", "generated": False, "of_paper": False}
MADE = {"name": "small world (generated)", "generated": True, "of_paper": False}


def digest_of(text):
    """The digest of a file with this text, as a manifest has it."""
    return hashlib.sha256(text.encode()).hexdigest()


def write(root, tier, notebook, sources, files, **more):
    """A report under `root` with these files (a text, or a frame for a csv) and a manifest; returns
    its folder.

    more: what else its manifest says, as commit="abc".
    """
    folder, artefacts = root / tier / notebook, {}
    folder.mkdir(parents=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else content.to_csv(index=False)
        (folder / name).write_text(text)
        artefacts[name] = {"sha256": digest_of(text), "caption": f"Caption of {name}: 5 %."}
    manifest = {
        "sources": sources,
        "generated": any(s["generated"] for s in sources),
        "artefacts": artefacts,
    } | more
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
