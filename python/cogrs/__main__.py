"""`python -m cogrs` is the command `cogrs`."""

import sys

from cogrs.cli import main

if __name__ == "__main__":
    sys.exit(main())
