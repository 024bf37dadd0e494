"""`python -m rote` is `rote`."""

from rote.cli.main import main

main()
