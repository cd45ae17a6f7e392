"""Tables of the note of 2020 on Langevin dynamics and acceptance."""

TABLES: dict = {}
