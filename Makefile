# Thin wrappers, so that nobody has to know more than `make demo`. ARGS is passed on: make demo ARGS="--devices 1000".
# As root or with CI set a missing PostgreSQL, Redis (for the tests), C compiler or make is installed; else the line to run is
# printed.

.PHONY: help demo test check

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST)

demo: ## Both services, a private PostgreSQL and a push provider on this machine: a broadcast from start to end
	@.ci/postgres BONGSU_DATABASE_URL
	cargo demo $(ARGS)

test: ## Every test of the workspace
	@.ci/postgres BONGSU_TEST_DATABASE_URL
	@.ci/redis
	cargo test --workspace $(ARGS)

check: ## What CI runs
	.ci/run $(ARGS)
