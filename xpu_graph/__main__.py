"""See ``cli.py``."""

import sys

from xpu_graph.cli import main

sys.exit(main())
