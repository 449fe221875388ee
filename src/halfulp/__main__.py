"""``python -m halfulp`` is ``halfulp``."""

from halfulp.cli import main

main()
