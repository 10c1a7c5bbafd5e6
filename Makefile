# Python and make are all that is needed: everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

.PHONY: demo test lint clean
demo: $(INSTALLED)
	$(BIN)/python -m spacy ctxvec demo --model projects/en_ctxvec_sm/pipeline --output demo.html

test: $(INSTALLED)
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# torch first and by itself: the versions in constraints.txt name its CPU build where there is one,
# and nothing installed later may replace it by a larger one.
$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet --quiet torch -c constraints.txt
	$(BIN)/python -m pip install --quiet --quiet --editable ".[test]" -c constraints.txt
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info demo.html
