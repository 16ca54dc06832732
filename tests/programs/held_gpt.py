"""mistakes.py, which also writes what its ranks compute and call, so that our model can be held against it (held.py). It runs
under `shardproof run --layouts`, which starts many trainings fast.

    held_gpt.py [OPTION...] [--mistake NAME] [--held FOLDER --floats f64|f32]

FOLDER gets the values of each rank (verify/python/shardproof/recorded.py), among them the samples; its calls; and
Megatron's arguments. Without FOLDER, as in the reference of that run, there is nothing to train.
"""

import argparse
import json
import os
import sys
from typing import Any, Callable, Dict, List

import torch
from shardproof import exact, publish, recorded, told, values
from shardproof.link import Link


class Calls:
    """The calls that a rank makes, as it asks for them (sim/guest/guest_request.h)."""

    def __init__(self) -> None:
        ranks = list(range(int(os.environ["WORLD_SIZE"])))
        self._groups: Dict[int, Dict[str, Any]] = {0: {"name": "world", "members": ranks}}
        self.made: List[Any] = []

    def install(self) -> None:
        write, ask = Link._write, Link.ask

        def writing(link: Link, request: Dict[str, Any]) -> int:
            for call in {"call": [request], "batch": request.get("calls", ())}.get(request["do"], ()):
                self._note(call, request)
            return write(link, request)

        def asking(link: Link, request: Dict[str, Any]) -> Dict[str, Any]:
            answer = ask(link, request)
            if request["do"] == "new_group" and answer["group"] is not None:
                self._groups[answer["group"]] = request
            return answer

        setattr(Link, "_write", writing)
        setattr(Link, "ask", asking)

    def _note(self, call: Dict[str, Any], request: Dict[str, Any]) -> None:
        group, operation = self._groups[request["group"]], call["operation"]
        given, taken = call.get("input"), call.get("output")
        tensor = taken if operation in ("reduce_scatter", "scatter") else given
        dtype, _, count = tensor or taken or given or ("", 0, 0)
        if operation == "all_to_all":
            count //= len(group["members"])
        peer = group["members"][call["peer"]] if "peer" in call else -1
        function, file, _ = request["site"]
        where = f"{os.path.splitext(os.path.basename(file))[0]}.{function}"
        self.made.append([operation, group["members"], peer, count, dtype, where, group["name"]])


def keep_in(file: recorded.File) -> None:
    """Has what is published written into a file, too."""
    of_client: Callable[..., None] = values.publish

    def published(keep: values.Keep, *value: Any, **named: Any) -> None:
        of_client(keep, *value, **named)
        of_client(file.keep, *value, **named)

    setattr(values, "publish", published)


def write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for option in ("--held", "--floats"):
        parser.add_argument(option)
    given, sys.argv[1:] = parser.parse_known_args()
    if given.held is None:
        return publish("nothing", 0)
    import mistakes  # which may import Megatron, and that is changed before

    if given.floats == "f64":
        exact.install()
    keep_in(recorded.begin(given.held))
    calls = Calls()
    calls.install()
    mistakes.main()
    write(given.held, f"calls-{os.environ['RANK']}.json", json.dumps(calls.made))
    if os.environ["RANK"] == "0":
        import pretrain

        samples = [pretrain.Samples()[number] for number in range(len(pretrain.Samples()))]
        publish("samples", torch.stack([torch.cat([x["tokens"], x["labels"][-1:]]) for x in samples]))
        write(given.held, "arguments.json", told.arguments() or "")
    return None


if __name__ == "__main__":
    main()
