"""From the configuration groups in conf/ to runs, and from runs to the papers' tables."""
