"""Starts the client from its own folder, so that no folder of the user is searched before the program's own."""

import sys

from shardproof.start import main

sys.exit(main())
