"""What is said of a program that has run on layouts: a line for each layout, from the document of the run.

Shapes  a document is what `shardproof run --layouts --format json` writes (verify/run/layouts_report.h).
"""

import json
from typing import Any, Dict, List


def _finding(finding: Dict[str, Any]) -> str:
    """Returns what was found."""
    return f"{finding['code']}: {finding['sentence']}"


def _calls(findings: List[Dict[str, Any]]) -> List[str]:
    """Returns a line for each call that the first finding is about. Of what was raised, the sentence has the line."""
    of_calls = [finding["calls"] for finding in findings[:1] if finding["code"] != "guest_raised"]
    return [
        f"  rank {call['rank']} {call['state']} {call['operation']} at '{call['site']}' ({call['file']}:{call['line']})"
        for call in (of_calls[0] if of_calls else ())
        if "site" in call
    ]


def _wrong_values(layout: Dict[str, Any]) -> List[str]:
    """Returns what a layout computes wrong, first the value that is wrong first."""
    said = [layout["incomparable"]] if layout["incomparable"] else []
    for wrong in layout["wrong"]:
        ranks = ", ".join(map(str, wrong["ranks"]))
        where = f" on ranks {ranks}" if len(wrong["ranks"]) > 1 else f" on rank {ranks}" if ranks else ""
        said.append(f"{wrong['value']}{where}: {wrong['what']}")
    return said


def _said_of(layout: Dict[str, Any]) -> str:
    """Returns what was found of a layout, which of its values is wrong first, or that it holds."""
    said = [_finding(finding) for finding in layout["findings"]] or _wrong_values(layout)
    more = f", and {len(said) - 1} more" if len(said) > 1 else ""
    return f"{layout['name']}: " + (said[0] + more if said else f"{layout['values']} values hold")


def of_layouts(document: Dict[str, Any]) -> List[str]:
    """Returns what is said of the layouts; those that hold come last."""
    lines = []
    for finding in document["findings"]:
        lines += [f"reference: {_finding(finding)}", *_calls([finding])]
    for layout in sorted(document["layouts"], key=lambda layout: str(layout["verdict"]) == "holds"):
        lines += [_said_of(layout), *_calls(layout["findings"])]
    return lines + ([f"left out: {', '.join(document['left_out'])}"] if document["left_out"] else [])


def of_failure(code: int, written: str, errors: str) -> str:
    """Returns what is said of a run that has ended with another exit code than 0, by what it has written."""
    try:
        document = json.loads(written)
    except ValueError:
        return f"shardproof has ended with exit code {code}\n{errors}"
    if "error" in document:
        refusal = document["error"]
        return f"refused: {refusal['option']}: {refusal['numbers']}\nrule: {refusal['rule']}\ntry: {refusal['hint']}"
    said = of_layouts(document)
    if document["verdict"] == "nothing compared":
        said = ["nothing compared: the test makes no step of an optimizer, and does not call shardproof.publish()"]
    return "\n".join([*said, f"reproduce: {document['reproduce']}"])
