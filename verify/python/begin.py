"""Starts the client from its own folder, which is searched first meanwhile. Python puts this folder in front itself,
but not with -I or -P. The program finds the folders that it finds without the client."""

import os
import sys

if sys.version_info < (3, 9):
    sys.exit("shardproof run takes Python 3.9 or later, and this is %d.%d" % sys.version_info[:2])
_FOLDER = os.path.dirname(os.path.realpath(__file__))
if sys.path[:1] != [_FOLDER]:
    sys.path.insert(0, _FOLDER)

from shardproof.start import main  # noqa: E402

sys.path.remove(_FOLDER)
main()
