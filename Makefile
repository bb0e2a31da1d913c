# Run `make` for the list of targets. `make demo` and `make test` install
# PostgreSQL on a fresh Debian or Ubuntu machine; both use DATABASE_URL and
# NATS_URL when they are set.

GO       ?= go
BIN      := bin
COMMANDS := $(notdir $(wildcard cmd/*))
WITH_PG  := $(GO) run ./pkg/postgres/postgrestest/withpostgres

.DEFAULT_GOAL := help
.PHONY: $(COMMANDS) $(shell awk -F: '/^[a-z-]+:/ { print $$1 }' $(firstword $(MAKEFILE_LIST)))

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-16s %s\n", $$1, $$2 }'

build: ensure-go $(COMMANDS) ## build every command into bin/

build-failpoints: ensure-go ## programs that tests can break at named places, into bin/failpoints/
	$(GO) build -trimpath -tags failpoints -o $(BIN)/failpoints/ ./cmd/ingest ./cmd/processor ./cmd/sweeper ./cmd/umavez

$(COMMANDS): ensure-go
	$(GO) build -trimpath -o $(BIN)/$@ ./cmd/$@

demo: ensure-go ensure-postgres ## everything on this machine: a storm of webhooks and a checked report
	$(GO) build -trimpath -o $(BIN)/umavez ./cmd/umavez
	./$(BIN)/umavez demo

chaos: ensure-go ensure-postgres build-failpoints ## break everything under load for CHAOS_MINUTES (10), CHAOS_SEED (1), and look for harm
	$(GO) build -trimpath -tags failpoints -o $(BIN)/failpoints/chaos ./pkg/chaostest/chaos
	./$(BIN)/failpoints/chaos campaign --minutes $(or $(CHAOS_MINUTES),10) --seed $(or $(CHAOS_SEED),1) $(CHAOS_FLAGS)

recovery: ensure-go ensure-postgres build-failpoints ## time new events after each kind of fault; RECOVERY_ROUNDS (2), some 30 minutes
	$(GO) build -trimpath -tags failpoints -o $(BIN)/failpoints/chaos ./pkg/chaostest/chaos
	./$(BIN)/failpoints/chaos recovery --rounds $(or $(RECOVERY_ROUNDS),2) $(RECOVERY_FLAGS)
	./$(BIN)/failpoints/chaos prefetch $(PREFETCH_FLAGS)

overload: ensure-go ensure-postgres ## offer ten times the peak for OVERLOAD_MINUTES (5), and look at what is kept; some 3 minutes more
	$(GO) build -trimpath -o $(BIN)/ ./cmd/umavez ./cmd/sweeper
	$(GO) build -trimpath -o $(BIN)/chaos ./pkg/chaostest/chaos
	./$(BIN)/chaos overload --programs $(BIN) --minutes $(or $(OVERLOAD_MINUTES),5) $(OVERLOAD_FLAGS)

test: ensure-go ensure-postgres ensure-pgbouncer lint ## every test, on real PostgreSQL and JetStream
	$(WITH_PG) scripts/test.sh

test-short: ensure-go ensure-postgres ensure-pgbouncer ## the quick tests, without the race detector
	$(WITH_PG) $(GO) test -short -timeout 5m ./...

failpoints: ensure-go ensure-postgres ## every fault at every point, on real processes, about 10 minutes; ONLY=regexp narrows it
	CAMPAIGN=$(or $(CAMPAIGN),singles) $(WITH_PG) scripts/failpoints.sh

failpoint-pairs: ensure-go ensure-postgres ## nightly: a crash at one point and another while that is repaired; SHARD=i/n, BOUND=1h
	CAMPAIGN=pairs $(WITH_PG) scripts/failpoints.sh

mutants: ensure-go ensure-postgres ## break umavez on purpose, many times, and demand that a test notices; MUTANT=name or SHARD=1/4 narrow it
	$(WITH_PG) $(GO) run ./pkg/mutants/kill -go '$(GO)' -mutant '$(MUTANT)' -shard '$(SHARD)'

schedules: ensure-go ## 100,000 schedules in virtual time; SCHEDULES=n and SEED=n choose others
	SCHEDULES=$(or $(SCHEDULES),100000) SCHEDULE_SEED=$(or $(SEED),1) GOGC=400 $(GO) test ./pkg/virtual -run '^TestSchedules$$' -count 1 -timeout 60m -v

powercut: ensure-go ensure-postgres ensure-fuse ## take the power from PostgreSQL and from the broker under load; POWERCUTS=n cuts of each (200), POWERCUT_SEED=n
	$(GO) run ./pkg/powercut/powercuts

fuzz: ensure-go ## every fuzz target; FUZZ_SECONDS=n for each
	scripts/fuzz.sh

bench: ensure-go ensure-postgres ## every benchmark; BENCH=name and COUNT=n narrow it
	$(WITH_PG) $(GO) test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -count $(or $(COUNT),1) ./...

biglists: ensure-go ensure-postgres ## the lists of on-call over BIGLISTS_ROWS (1000000) events, each below 300 ms
	BIGLISTS_ROWS=$(or $(BIGLISTS_ROWS),1000000) $(GO) test -run 'Case_F11' -count 1 -v -timeout 60m ./pkg/postgres

bloat: ensure-go ensure-postgres ## what a snapshot held open for BLOAT_EVENTS (900000) events costs
	BLOAT_EVENTS=$(or $(BLOAT_EVENTS),900000) $(GO) test -run 'Case_F9' -count 1 -v -timeout 60m ./pkg/postgres

lint: ensure-go vet ## what must be clean before a change goes in
	@unformatted="$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

vet: ensure-go
	$(GO) vet ./...
	$(GO) vet -tags failpoints ./...

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

ensure-pgbouncer:
	@scripts/ensure-pgbouncer.sh

ensure-fuse:
	@scripts/ensure-fuse.sh
