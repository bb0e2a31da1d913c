# Run `make` for the list of targets. `make demo` and `make test` install
# PostgreSQL on a fresh Debian or Ubuntu machine; both use DATABASE_URL and
# NATS_URL when they are set.

GO       ?= go
BIN      := bin
COMMANDS := $(notdir $(wildcard cmd/*))
WITH_PG  := $(GO) run ./pkg/postgres/postgrestest/withpostgres

.DEFAULT_GOAL := help
.PHONY: help build test test-short schedules fuzz bench lint fmt vet verify demo clean ensure-go ensure-postgres $(COMMANDS)

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-12s %s\n", $$1, $$2 }'

build: ensure-go $(COMMANDS) ## build every command into bin/

$(COMMANDS): ensure-go
	$(GO) build -trimpath -o $(BIN)/$@ ./cmd/$@

demo: ensure-go ensure-postgres ## everything on this machine: a storm of webhooks and a checked report
	$(GO) build -trimpath -o $(BIN)/umavez ./cmd/umavez
	./$(BIN)/umavez demo

test: ensure-go ensure-postgres lint ## every test, on real PostgreSQL and JetStream
	$(WITH_PG) scripts/test.sh

test-short: ensure-go ensure-postgres ## the quick tests, without the race detector
	$(WITH_PG) $(GO) test -short -timeout 5m ./...

schedules: ensure-go ## 100,000 schedules in virtual time; SCHEDULES=n and SEED=n choose others
	SCHEDULES=$(or $(SCHEDULES),100000) SCHEDULE_SEED=$(or $(SEED),1) GOGC=400 $(GO) test ./pkg/virtual -run '^TestSchedules$$' -count 1 -timeout 60m -v

fuzz: ensure-go ## every fuzz target; FUZZ_SECONDS=n for each
	scripts/fuzz.sh

bench: ensure-go ensure-postgres ## every benchmark; BENCH=name and COUNT=n narrow it
	$(WITH_PG) $(GO) test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),1) ./...

lint: ensure-go vet ## what must be clean before a change goes in
	@unformatted="$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

vet: ensure-go
	$(GO) vet ./...

fmt: ensure-go ## format the code
	gofmt -w $$($(GO) list -f '{{.Dir}}' ./...)

verify: ensure-go ## check every invariant on the database that DATABASE_URL names
	$(GO) run ./cmd/umavez verify

clean: ## remove bin/ and the local clusters of tests and demo
	rm -rf $(BIN) .umavez

ensure-go:
	@GO='$(GO)' scripts/ensure-go.sh

ensure-postgres:
	@scripts/ensure-postgres.sh
