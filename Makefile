# Everything runs in .venv, which each target makes or extends as it needs. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
NPM := npm install --no-save --no-package-lock --no-audit --no-fund --loglevel=error
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.SILENT:
.PHONY: help demo test test-lowest docs bench power experiments fuzz notebooks readme clean katex

help:  ## list the targets
	sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.base  ## install the package and show it at work
	echo "demo: kms demo"
	$(BIN)/kms demo

test: $(VENV)/.dev katex  ## run the notebooks' tests and the tests in tests/
	echo "test: notebooks, library, README and site"
	$(BIN)/python -m pytest

test-lowest: $(LOWEST)/.dev  ## run the same tests, but the site's, with the oldest packages that settings.ini allows
	echo "test-lowest: notebooks and library with the oldest packages"
	PATH="$(CURDIR)/$(LOWEST)/bin:$$PATH" $(LOWEST)/bin/python -m pytest --ignore=tests/test_docs.py

docs: $(VENV)/.dev katex  ## build the site into _docs/
	echo "docs: building _docs/"
	$(BIN)/python tools/build_docs.py

bench: $(VENV)/.base  ## time the solvers against each other
	echo "bench: solvers of kms_distance"
	$(BIN)/python bench/bench_solvers.py

power: $(VENV)/.dev  ## measure level and power of the tests; goes on where it was stopped
	echo "power: level and power, stored in bench/power_results.csv"
	$(BIN)/python bench/power.py

experiments: $(VENV)/.dev  ## compute what is missing of the paper's figures and tables
	echo "experiments: figures and tables, stored in bench/experiments/"
	$(BIN)/python bench/experiments.py

fuzz: $(VENV)/.dev  ## property tests with many more examples (SEED=0)
	echo "fuzz: property tests"
	PYTHONPATH=.:tests $(BIN)/python -m pytest -q -p strategies tests/test_properties.py --hypothesis-profile=fuzz --hypothesis-seed=$(or $(SEED),0)

notebooks: $(VENV)/.dev  ## export the library, run every notebook and store its outputs
	echo "notebooks: export, run, clean"
	$(BIN)/nbdev_export
	$(BIN)/python tools/run_nbs.py
	$(BIN)/nbdev_clean

readme: $(VENV)/.dev  ## write README.md from nbs/index.ipynb
	$(BIN)/python tools/build_readme.py

clean:  ## remove what the other targets made
	echo "clean: .venv, node_modules, built files and caches"
	rm -rf $(VENV) $(LOWEST) node_modules _proc _docs build dist *.egg-info .pytest_cache kms_demo.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- how the environment is made: a stamp per set of packages, older than settings.ini when that has changed

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	echo "install: new environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: settings.ini setup.py pyproject.toml | $(BIN)/python
	echo "install: kms_nb and what it needs (a minute or two)"
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	touch $@

$(VENV)/.dev: settings.ini setup.py pyproject.toml | $(BIN)/python
	echo "install: kms_nb with its development tools (a few minutes)"
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable ".[dev]"
	touch $(VENV)/.base $@

# The oldest: pip itself only finds the newest, so tools/lowest.py turns the lower bounds into constraints; wheels only, or a bound is wrong.
$(LOWEST)/.dev: settings.ini setup.py pyproject.toml tools/lowest.py
	echo "install: kms_nb with the oldest packages it allows, in $(LOWEST) (a few minutes)"
	python$$(sed -n 's/^min_python = //p' settings.ini) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python tools/lowest.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install -qq --disable-pip-version-check --only-binary :all: -c $(LOWEST)/lowest.txt --editable ".[dev]"
	touch $@

# The site's formulas: KaTeX from npm where there is one; tools/build_docs.py looks for a system copy otherwise.
katex: node_modules/.stamp
node_modules/.stamp: package.json
	if command -v npm >/dev/null; then \
	  echo "install: KaTeX for the site"; \
	  if $(NPM) >/dev/null; then touch $@; else echo "install: npm gave no KaTeX; the site uses a system copy or the network"; fi; \
	fi
