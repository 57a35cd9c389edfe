"""`python -m narrows.cli`."""

from narrows.cli import main

main()
