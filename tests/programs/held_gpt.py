"""Runs a training over Megatron's own loop under `shardproof run`, and writes what each rank computes, so that our model
can be held against it (held.py).

    held_gpt.py FOLDER f64|f32 PROGRAM [OPTION...]

PROGRAM is a file beside this one: pretrain.py or mistakes.py. FOLDER gets the values of each rank
(verify/python/shardproof/recorded.py), among them the samples, and Megatron's arguments.
"""

import os
import runpy
import sys

import shardproof
import torch
from shardproof import exact, recorded, told

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    folder, floats, program, *options = sys.argv[1:]
    exact.drop_nothing()
    if floats == "f64":
        exact.install()
    shardproof._keep_values(recorded.begin(folder).keep, True)
    sys.argv = [program, *options]
    sys.path[0] = HERE
    runpy.run_path(os.path.join(HERE, program), run_name="__main__")
    if os.environ["RANK"] == "0":
        import pretrain

        samples = [pretrain.Samples()[number] for number in range(len(pretrain.Samples()))]
        shardproof.publish("samples", torch.stack([torch.cat([x["tokens"], x["labels"][-1:]]) for x in samples]))
        with open(os.path.join(folder, "arguments.json"), "w", encoding="utf-8") as file:
            file.write(told.arguments() or "")


if __name__ == "__main__":
    main()
