.PHONY: check format

check: ## exactly what CI runs, in the environment that is active
	bash .ci/check

format:
	ruff check --fix .
	ruff format .
