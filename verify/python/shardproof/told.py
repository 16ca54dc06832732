"""What a program over Megatron tells of itself: the arguments of its training, as they are after Megatron's parser.

Shapes  the text is a document of a run (verify/run_arguments/run_document.h) of the kind "log". Dtypes that exact.py
        has made f64 are left out, because what they were is not known.
"""

import json
import os
import sys
from typing import Any, Dict, List, Optional

_MODULES = ("megatron.training.global_vars", "megatron.global_vars")  # of which the second is older
_MOST_CHARACTERS = 1000  # of a value that is told
_IN_F64 = "torch.float64"
_MOST_TEXT = 500_000  # characters of the document, of which a frame has room for twice as many bytes


def _words(value: Any) -> List[str]:
    """Returns a value as the words of an argument."""
    return [str(part) for part in value] if isinstance(value, (list, tuple)) else [str(value)]


def _document(values: Dict[str, Any]) -> str:
    known = sorted((name, value) for name, value in values.items() if str(value) != _IN_F64)
    arguments = [{"name": name, "values": _words(value)} for name, value in known]
    short = [one for one in arguments if sum(map(len, one["values"])) <= _MOST_CHARACTERS]
    world = {"ranks": int(os.environ["WORLD_SIZE"]), "from": "the ranks of this run"}
    return json.dumps({"shardproof_run": 1, "kind": "log", "name": "the program", "arguments": short, "world": world})


def arguments() -> Optional[str]:
    """Returns the arguments of Megatron's training, if the program has parsed them and they can be written."""
    parsed = [getattr(sys.modules.get(name), "_GLOBAL_ARGS", None) for name in _MODULES]
    try:
        text = next((_document(vars(values)) for values in parsed if values is not None), "")
    except Exception:  # of a value of the program's own
        return None
    return text if 0 < len(text) <= _MOST_TEXT else None
