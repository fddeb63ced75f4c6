# make book   set up .venv, run one kernel live on this machine, render the book
# make test   set up .venv, run every check
# make test-all  that, and the checks of the exercises on every executor of this machine
# make lab    open chapters and exercises in JupyterLab
# make clean  remove what these made
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install -qq --disable-pip-version-check -e

.PHONY: book test test-all lab clean

book: .venv/book.stamp
	$(BIN)/python -m tinyton tour
	$(BIN)/jupyter-book build -W -n --keep-going .
	@echo
	@echo "The book is rendered. Open it:  file://$(CURDIR)/_build/html/index.html"
	@echo "Run the chapters yourself:      make lab"
	@echo "What this machine can run:      $(BIN)/python -m tinyton doctor"

# One pytest run holds everything that is checked, so its closing line is the verdict. A notebook's cells share a
# kernel, so a module's tests stay on one worker (loadscope). A worker that dies ends the run.
test: .venv/test.stamp
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check .
	$(BIN)/pytest -q -n 2 --max-worker-restart=0 --dist loadscope --nbval --nbval-current-env --nbval-cell-timeout=120 --cuda-text

test-all: test
	for name in $$($(BIN)/python -c 'from tinyton import backends as b; print(*(n for n in b.ORDER if not b.reason(n)))'); do \
		echo "The exercises on $$name"; \
		TINYTON_BACKEND=$$name $(BIN)/pytest -q -n 2 tests/test_exercises.py || exit 1; \
	done

lab: .venv/book.stamp
	$(BIN)/jupyter lab

clean:
	rm -rf .venv _build build *.egg-info .pytest_cache .ruff_cache .hypothesis

.venv/bin/pip:
	$(PYTHON) -m venv .venv

# PyCUDA is built from source and is optional: where that fails, `python -m tinyton doctor` says what is missing.
.venv/book.stamp: pyproject.toml | .venv/bin/pip
	@echo "Setting up .venv: a minute or two the first time"
	$(INSTALL) '.[book,opencl]'
	@if command -v nvidia-smi >/dev/null && command -v nvcc >/dev/null; then \
		echo "NVIDIA driver and nvcc found: building PyCUDA (a minute or two)"; \
		$(INSTALL) '.[cuda]' || \
		echo "PyCUDA did not build; the book runs without it. See: $(BIN)/python -m tinyton doctor"; \
	fi
	@touch $@

.venv/test.stamp: .venv/book.stamp
	$(INSTALL) '.[book,opencl,test,nvcc,nvrtc]'
	@touch $@
