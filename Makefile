# The targets are listed by `make help`. A Python of your choice, for a .venv that is not there yet or no longer fits:
# make PYTHON3=/path/to/python3.12 run

.DEFAULT_GOAL := help
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
PEERS := .venv-peers
SCALE := quick
BUDGET := 9
DEVICE := cuda
WORKERS := $(shell env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 1)
# True of a Python that can make the environment, and of the environment's own
FITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

.PHONY: help install run figures reproduce status certify mutants torture peers matrix bench bench-peers gpu-plan gpu test test-quick clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(INSTALLED) ## make .venv and install the package in it (targets that need it do that, too)

run: $(INSTALLED) ## sample a ResNet-20 on handwritten digits with exact acceptance, about 2 minutes
	$(PYTHON) run.py experiment=digits

figures: $(INSTALLED) ## draw every figure whose summary table is there (FIGURE=ggmc_fig1: one, and no page)
	$(PYTHON) scripts/draw.py $(FIGURE)

reproduce: $(INSTALLED) ## run every experiment and draw: make reproduce SCALE=quick (or paper) WORKERS=2
	$(PYTHON) scripts/workers.py --cpus $(WORKERS) scale=$(SCALE); ended=$$?; \
	if [ $$ended -le 1 ]; then $(PYTHON) scripts/draw.py || ended=1; fi; exit $$ended

status: $(INSTALLED) ## how the experiments stand, on all machines that share this folder: make status SCALE=quick
	@$(PYTHON) scripts/status.py scale=$(SCALE)

certify: $(INSTALLED) ## check every sampler's acceptance probability: results/certificate.md, 3 to 21 minutes
	$(PYTHON) -m sgmcmc.certify

mutants: $(INSTALLED) ## break the library line by line and see a test fail each time
	$(PYTHON) scripts/mutants.py

torture: $(INSTALLED) ## kill, break and misuse runs and grids, and see that nothing is lost: results/torture.md
	$(PYTHON) scripts/torture --side $(WORKERS) --write results

peers: $(INSTALLED) $(PEERS)/.installed ## compare with BlackJAX's samplers: results/peers.csv, about 90 seconds
	$(PEERS)/bin/python scripts/peers.py theirs results/runs/peers.json
	$(PYTHON) scripts/peers.py ours results/runs/peers.json

matrix: $(INSTALLED) ## run all but the slow tests with the lowest and the newest versions allowed, Python 3.11 to 3.13
	$(PYTHON) scripts/matrix.py

bench: $(INSTALLED) ## how fast, beside peers and the limit: benchmarks/table.md, about ten minutes
	$(PYTHON) benchmarks/bench.py

bench-peers: $(PEERS)/.installed ## install the peers that `make bench` and `make peers` compare with (BlackJAX, numba)

gpu-plan: $(INSTALLED) ## write what `make gpu` runs, in which order (FIRST=amagold_table2): results/state/plan.json
	$(PYTHON) scripts/gpu.py plan $(if $(FIRST),--first $(FIRST))

gpu: ## advance the papers' networks on a GPU for BUDGET=9 minutes, SIDE=6 at a time, without Hydra, Jug or a network; DEVICE=cpu: miniature; CHECKS=0: chains alone
	$(or $(wildcard $(PYTHON)),$(PYTHON3),python3) scripts/gpu.py run --budget $(BUDGET) --device $(DEVICE) $(if $(SIDE),--side $(SIDE)) $(if $(MINIATURE),--miniature) $(if $(filter 0,$(CHECKS)),--unchecked) $(if $(OUT),--out '$(OUT)')

test: $(INSTALLED) ## run the linter and all tests
	$(PYTHON) -m ruff check .
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-quick: $(INSTALLED) ## run the tests that are quick, of each thing some, in two minutes
	$(PYTHON) -m pytest -n $(WORKERS) --dist loadfile -m "not slow and not thorough"

clean: ## remove caches and build leftovers; .venv, data and results stay
	rm -rf build dist .pytest_cache .hypothesis .ruff_cache
	find . -path ./$(VENV) -prune -o -path ./$(PEERS) -prune -o -path ./.venv-matrix -prune -o -type d \( -name __pycache__ -o -name '*.egg-info' \) -exec rm -rf {} +

# Again only when what is to be installed has changed; the stamp comes last, so that a broken-off installation goes on.
$(INSTALLED): pyproject.toml constraints.txt
	@if ! $(PYTHON) -c '$(FITS)' 2>/dev/null; then \
	  found=; \
	  for python in $(or $(PYTHON3),python3 python3.11 python3.12 python3.13); do \
	    if "$$python" -c '$(FITS)' 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "make: no Python 3.11, 3.12 or 3.13 with its venv module was found ($(or $(PYTHON3),python3): $$($(or $(PYTHON3),python3) -V 2>/dev/null || echo none)):" \
	      "install one (on Debian and Ubuntu with python3-venv), or name it with make PYTHON3=/path/to/python3.12" >&2; \
	    exit 1; \
	  fi; \
	  echo "$$found -m venv --clear $(VENV)"; \
	  "$$found" -m venv --clear $(VENV) || exit 1; \
	fi
	@echo "installing into $(VENV): a few minutes, and about 6 GB where torch brings CUDA's libraries"
	@$(PYTHON) -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

# BlackJAX needs JAX, which nothing else here does: an environment of its own, for comparisons alone.
$(PEERS)/.installed: | $(INSTALLED)
	$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install -q --disable-pip-version-check blackjax==1.7.1 numba==0.68.0
	@touch $@
