"""Compares layouts of tiny_gpt.py with one rank over releases of megatron-core, and makes the page of the manual.

    releases.py [--only WORD] SHARDPROOF PYTHON FOLDER [RELEASE...]     writes FOLDER/results.json, and the page
    releases.py --page FOLDER                                           writes the page from what is there

Each release is installed from PyPI into FOLDER/RELEASE, unless it is there. With --only, the models whose name has the
word are run. What FOLDER/results.json has is not run again. The page goes to standard output. A field of a table is one run:
`PYTHONPATH=FOLDER/RELEASE shardproof run --layouts LAYOUT -- python tiny_gpt.py OPTIONS`.
Errors  a release that PyPI does not have, does not import, or does not run on one rank, is told in its column.
"""

import argparse
import json
import os
import subprocess
import sys
import textwrap
from typing import Any, Dict, List, NamedTuple, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "verify", "python"))

from shardproof import sentences  # noqa: E402

RELEASES = "0.12.3 0.13.1 0.14.0 0.15.3 0.16.1 0.17.1 0.18.2 0.19.2".split()
LONGEST = 1800  # seconds of one run; chosen
WIDTH = 108  # of a line of the page
HOLDS = "holds"
RESULTS = "results.json"  # in the folder


class Set(NamedTuple):
    """Layouts of a model."""

    name: str
    options: str
    layouts: Tuple[str, ...]


EXPERTS = "--experts 4 --config moe_router_load_balancing_type="
SETS = (
    Set("dense layers", "", ("tp2", "tp2 sp", "pp2", "pp2 vpp2", "dp2", "dp2 zero", "tp2 sp pp2 zero")),
    Set(
        "experts with an auxiliary loss",
        EXPERTS + "aux_loss --config moe_aux_loss_coeff=0.1",
        ("tp2 sp", "tp2 sp etp1", "ep2", "ep2 --dispatcher alltoall", "dp2", "tp2 sp ep2 etp1 zero"),
    ),
    Set(
        "experts with an auxiliary loss, and a loss by token",
        EXPERTS + "aux_loss --config moe_aux_loss_coeff=0.1 --config calculate_per_token_loss=True",
        ("tp2 sp", "ep2", "dp2"),
    ),
    Set(
        "experts with a global auxiliary loss",
        EXPERTS + "global_aux_loss --config moe_aux_loss_coeff=0.1",
        ("tp2 sp", "ep2", "dp2"),
    ),
    Set(
        "further predictions",
        "--config mtp_num_layers=1 --config mtp_loss_scaling_factor=0.1",
        ("tp2", "tp2 sp", "pp2", "dp2 zero"),
    ),
    Set("a learnt softmax", "--config softmax_type=learnable", ("tp2", "pp2", "dp2 zero")),
)


def installed(python: str, folder: str, release: str) -> str:
    """Installs a release, and returns its folder."""
    target = os.path.join(folder, release)
    if not os.path.isdir(os.path.join(target, "megatron", "core")):
        pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", target]
        subprocess.run([*pip, f"megatron-core=={release}"], check=False)
    return target


def run(shardproof: str, python: str, target: str, of: Set) -> Dict[str, str]:
    """Returns what is said of each layout: "holds", or what is wrong."""
    if not os.path.isdir(target):
        return {name: "refused: this Python installs no such release" for name in of.layouts}
    program = os.path.join(HERE, "tiny_gpt.py")
    layouts = ["--layouts", "; ".join(of.layouts), "--format", "json"]
    done = subprocess.run(
        [shardproof, "run", "--no-gpu", *layouts, "--", python, program, *of.options.split()],
        env={**os.environ, "PYTHONPATH": target, "PYTHONDONTWRITEBYTECODE": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = {"findings": [{"code": "no result", "sentence": done.stderr[-200:]}]}
    return verdicts(document, of.layouts)


def verdicts(document: Dict[str, Any], names: Tuple[str, ...]) -> Dict[str, str]:
    """Returns what the document of a run says of each layout."""
    if "error" in document or document["findings"] or not document.get("layouts"):
        first = (document.get("findings") or [{"sentence": "nothing is compared"}])[0]["sentence"]
        said = document["error"]["numbers"] if "error" in document else first
        return {name: "one rank does not run: " + said for name in names}
    lines = [line.partition(": ") for line in sentences.of_layouts(document)]
    said_of = {name: said for name, _, said in lines}
    found = {}
    for layout in document["layouts"]:
        name = str(layout["name"])
        kind = "refused: " if layout["findings"] else "wrong: "
        found[name] = HOLDS if layout["verdict"] == HOLDS else kind + said_of[name]
    return found


def cell(said: str, notes: Dict[str, int]) -> str:
    """Returns what stands in a table; what is not right has the number of a note."""
    if said in ("", HOLDS):
        return said or "-"
    kind = said.partition(": ")[0]
    return f"{'refused' if kind != 'wrong' else 'WRONG'} {notes.setdefault(said, len(notes) + 1)}"


def page(results: Dict[str, Dict[str, Dict[str, str]]], torch: str) -> str:
    releases = [release for release in RELEASES if release in results] + sorted(set(results) - set(RELEASES))
    notes: Dict[str, int] = {}
    text = [
        "# Layouts over releases of Megatron\n",
        f"Made by [releases.py](../../tests/programs/releases.py), with torch {torch} and without a GPU or Transformer",
        "Engine. A layout holds if it computes what one rank computes, in f64. A number is that of a note below. A dash",
        "was not run. For one field of a table:\n",
        "```",
        "pip install --no-deps --target RELEASE megatron-core==RELEASE",
        "PYTHONPATH=RELEASE ./shardproof run --layouts 'LAYOUT' -- python tests/programs/tiny_gpt.py OPTIONS",
        "```",
    ]
    for of in SETS:
        if not any(of.name in results[release] for release in releases):
            continue
        text.append(f"\n## {of.name[0].upper() + of.name[1:]}\n")
        if of.options:
            words = textwrap.wrap(of.options, WIDTH - 2, break_on_hyphens=False)
            text += ["OPTIONS:\n", "```", " \\\n".join(words), "```\n"]
        text.append(f"| layout | {' | '.join(releases)} |\n|---|{'---|' * len(releases)}")
        for name in of.layouts:
            cells = [cell(results[release].get(of.name, {}).get(name, ""), notes) for release in releases]
            text.append(f"| {name} | {' | '.join(cells)} |")
    text.append("\n## Notes\n")
    for said, number in notes.items():
        text += textwrap.wrap(f"{number}. {said}", WIDTH, subsequent_indent="   ", break_long_words=False)
    return "\n".join(text) + "\n"


def kept_in(path: str) -> Dict[str, Any]:
    if not os.path.exists(path):
        return {"torch": "", "results": {}}
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))


def run_all(given: argparse.Namespace) -> None:
    """Runs the models on all layouts, and writes what was found after each."""
    folder = os.path.abspath(given.folder)
    path = os.path.join(folder, RESULTS)
    os.makedirs(folder, exist_ok=True)
    kept = kept_in(path)
    asked = [given.python, "-c", "import torch; print(torch.__version__.partition('+')[0])"]
    kept["torch"] = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    for release in given.releases or RELEASES:
        target = installed(given.python, folder, release)
        of_release = kept["results"].setdefault(release, {})
        for of in SETS:
            if given.only in of.name and of.name not in of_release:
                of_release[of.name] = run(given.shardproof, given.python, target, of)
                print(f"{release}, {of.name}: {of_release[of.name]}", file=sys.stderr, flush=True)
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(kept, file, indent=1)


def main() -> int:
    parser = argparse.ArgumentParser()
    if sys.argv[1] != "--page":
        parser.add_argument("--only", default="")
        for name in ("shardproof", "python", "folder"):
            parser.add_argument(name)
        parser.add_argument("releases", nargs="*")
        run_all(parser.parse_args())
    else:
        parser.add_argument("--page", dest="folder")
    kept = kept_in(os.path.join(parser.parse_args().folder, RESULTS))
    print(page(kept["results"], kept["torch"]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
