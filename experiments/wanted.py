"""The papers' networks, whose chains at paper scale take a GPU, in the order in which they are wanted (`make gpu`)."""

RATES = ("1e-4", "1e-3", "1e-6", "1e-2")
UNCOMPILED = "compile=false"  # graphs replay the steps of so small a net as fast without it
FIGURE = [[f"sampler={sampler}", f"lr={rate}"] for sampler in ("ggmc", "hmc") for rate in RATES]
# Each setting once before any is repeated.
SEEDS = [[f"point={point}", f"seed={seed}"] for seed in range(5) for point in range(8)]
# The order of wanting: (experiment, words, the runs of its grid or others that are wanted of it).
WANTED = [
    ("ggmc_fig1", (), FIGURE),
    ("finding_cycles", (), None),
    ("amagold_table2", (UNCOMPILED,), SEEDS),
    ("ggmc_fig1_as_run", (), FIGURE),
    ("ggmc_fig1_averaged", (), FIGURE),
    ("ggmc_discarded", (), None),
    ("finding_corrected", (), None),
]
