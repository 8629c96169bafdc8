# Everything that CI does can be done here. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

BUF := go tool -modfile=tools/go.mod buf
# What the race detector watches: the core, and what runs beside etcd on the in-memory one. Nothing
# here links the embedded server, which alone takes two minutes to compile under -race. Node first: it takes longest.
RACE := ./node/... ./scheduler/... ./store/... ./election/...
# What it leaves out, since it would cost more than all else and runs in `make test`: the scenarios, and hours in
# which little happens.
RACE_SKIP := ^TestSA[0-9]|^TestANightThatIsExcluded|^TestHistoryThatIsNotCompacted|^TestAutoCompactionOfAnHour
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)

.PHONY: help
help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "  %-16s %s\n", $$1, $$2 }'

.PHONY: build
build: ## build bin/quorumcron, stamped with version and commit
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o bin/quorumcron ./cmd/quorumcron

.PHONY: test
test: ## run all tests, those with real processes too
	go test -p 1 -timeout 30m ./...

.PHONY: quick
quick: ## run the tests that take seconds, those that kill whole clusters left out
	go test -short ./...

.PHONY: check
check: fmt vet arch proto race sabotage-quick ## everything that must hold before a commit, besides the tests

.PHONY: fmt
fmt: ## are all Go files formatted?
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [[ -n $$unformatted ]]; then printf 'not formatted, run gofmt -w on:\n%s\n' "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet ./...

.PHONY: arch
arch: ## the rules of the house: imports, purity, documentation, lengths
	go test ./internal/archtest

.PHONY: race
race: ## the core, store, election and the node's bubbles under the race detector
	go test -race -short -timeout 15m -skip '$(RACE_SKIP)' $(RACE)

.PHONY: proto
proto: ## lint and format of the .proto files, compatibility, and is the generated code theirs?
	$(BUF) lint
	$(BUF) format -d --exit-code
	@$(MAKE) --no-print-directory breaking
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(BUF) generate -o "$$fresh"; \
	diff -r --exclude='*.proto' "$$fresh/proto" proto || { echo 'generated code differs: run make generate'; exit 1; }

# Compared is the last release, or for work on a branch what it branched from; before either exists
# there is nobody to break.
.PHONY: breaking
breaking:
	@base=$$(git describe --tags --abbrev=0 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null || true); \
	if [[ -z $$base || $$(git rev-parse "$$base^{commit}") == $$(git rev-parse HEAD) ]] || ! git cat-file -e "$$base:proto" 2>/dev/null; then \
		echo 'buf breaking: no earlier version to compare with'; exit 0; \
	fi; \
	old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
	git archive "$$base" buf.yaml proto | tar -x -C "$$old"; \
	$(BUF) breaking --against "$$old"

.PHONY: generate
generate: ## rebuild the Go code of the .proto files
	$(BUF) generate

.PHONY: sim-week
sim-week: ## simulate a week of 5 members, 1,000 jobs and about 500 faults; SEED=n for another one
	go test -v -count 1 -timeout 15m -run ThousandJobs ./scheduler/sim -week -seed $(or $(SEED),1)

# Flags of the mixed run, see chaos-tests/README.md: SEED, FAULTS (names with commas), KEEP (a folder).
MIXED = go test -v -count 1 -timeout 100h -run 'MixedFaults$$' ./chaos-tests -seed $(or $(SEED),1) $(and $(FAULTS),-faults $(FAULTS)) $(and $(KEEP),-keep $(abspath $(KEEP)))

.PHONY: chaos
chaos: ## break a real cluster for ten minutes, judge it, print the report; SEED=n for other faults
	$(MIXED) -duration 10m

.PHONY: chaos-long
chaos-long: ## the same for as long as wanted: DURATION=2h SEED=n FAULTS=node-kill,no-space KEEP=folder
	$(MIXED) -duration $(or $(DURATION),1h)

.PHONY: chaos-all
chaos-all: ## every test that breaks real processes
	go test -v -count 1 -timeout 20m ./chaos-tests/...

.PHONY: sabotage
sabotage: ## take out one protection after the other: does a test notice each?
	go run ./chaos-tests/sabotage

.PHONY: sabotage-quick
sabotage-quick: ## the same without real processes, in less than a minute; part of check
	go run ./chaos-tests/sabotage -quick

.PHONY: proof
proof: ## search every state of the model of the protocol, the large worlds too (minutes)
	go run ./chaos-tests/model

.PHONY: clean
clean: ## remove what build makes
	rm -rf bin
