# `make` runs the tests of three minutes, and gets a fresh machine ready for them first.

.POSIX:
.PHONY: test test-all acl servers test-servers test-386 plain check chaos prove seeded soak fuzz interop browser setup lint-local lint tidy tidy-check bench compare release release-check demo cover fmt help

BENCHTIME = 1x
FUZZTIME = 2000x
INTEROP ?= all
MIN ?= 60

# Everything in fake time, every script and what every primitive promises on a real
# server, and the command.
test:
	@sh scripts/setup short
	@sh scripts/test -short

# All tests of all modules, and a minute of random work under faults. Each is run even
# if another finds something; any makes this fail.
test-all: setup
	@status=0; \
	$(MAKE) -s lint-local || status=1; \
	sh scripts/test || status=1; \
	$(MAKE) -s check || status=1; \
	exit $$status

# Every fuzz target in turn. Their seeds are part of make test.
fuzz:
	@sh scripts/fuzz $(FUZZTIME)

# The tests that use real servers, with the rights of docs/security.md only.
acl:
	@sh scripts/acl

# Each server that people run, into .cache/servers; and what depends on it, on each.
servers:
	@sh scripts/servers $(SERVERS)

test-servers:
	@sh scripts/test-servers $(SERVERS)

# The library's tests on real servers, where an int has 32 bits.
test-386:
	@sh scripts/test-386

# Random work under faults, every call checked: a minute, 15 minutes, all that
# docs/evidence shows, and for as long as you like.
check:
	@sh scripts/chaos -race chaos check
	@sh scripts/chaos -race matrix -fast

# Random work without any fault: at the end nothing may be left in Redis.
plain:
	@sh scripts/chaos chaos plain -runs 10

chaos:
	@sh scripts/chaos chaos soak -minutes 15

prove:
	@sh scripts/chaos chaos prove -write ../docs/evidence/campaign.md
	@sh scripts/chaos matrix -write ../docs/evidence/matrix.md

# Bugs put into the library one by one: does the suite notice each?
seeded:
	@sh scripts/chaos seeded -write ../docs/evidence/seeded.md

soak:
	@sh scripts/chaos chaos soak -minutes $(MIN)

interop:
	@sh scripts/setup interop
	@cd interop && INTEROP=$(INTEROP) go test -race -count=1 -timeout 60m .

# The pages of package ui in Chromium.
browser:
	@sh scripts/setup browser
	@cd ui/browser && go test -count=1 .

setup:
	@sh scripts/setup

lint-local:
	@files=$$(gofmt -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not gofmt'ed:"; echo "$$files"; exit 1; fi
	@sh scripts/modules go vet ./...

lint:
	@sh scripts/golangci run

tidy:
	@sh scripts/tidy

tidy-check:
	@sh scripts/tidy -check

bench: setup
	@cd bench && go test -vet=off -run '^$$' -bench . -benchtime=$(BENCHTIME) -timeout 20m ./...
	@cd bench && go run ./cmd/compare -quick

# Everything, in earnest: for a quiet machine; half an hour or so.
compare: setup
	@cd bench && go run ./cmd/compare -json compare.json -write ../docs/performance.md

# VERSION=v0.1.0, in a clone that is then to be looked at; PUSH=1 pushes it.
release:
	@PUSH=$(PUSH) bash scripts/release $(VERSION)

# .goreleaser.yaml, as its own program sees it, which is built for that: a few minutes.
release-check:
	@GOWORK=off go run github.com/goreleaser/goreleaser/v2@v2.15.1 check

demo:
	@go run ./cmd/latchkey demo

cover: setup
	@go test -timeout 20m -coverpkg=./... -coverprofile=coverage.out ./...
	@go tool cover -func=coverage.out | tail -n 1
	@echo "go tool cover -html=coverage.out shows the lines"

fmt:
	@sh scripts/golangci fmt

help:
	@echo "make             the same as make test"
	@echo "make test        the tests of three minutes; installs redis-server if it can"
	@echo "make test-all    all tests of all modules, with the race detector: faults, clusters, Sentinels, chaos"
	@echo "make acl         the tests that use real servers, with the least rights of docs/security.md"
	@echo "make servers     the servers of make test-servers, into .cache/servers; installs nothing; SERVERS=redis-6.2 for one"
	@echo "make test-servers  what depends on the server, on each: Redis 6.2 to 8.2, Valkey 8 to 9.1; SERVERS=valkey-9.1 for one"
	@echo "make test-386    the library's tests on real servers, compiled for GOARCH=386"
	@echo "make check       a minute of random work under faults, every call checked (part of make test-all)"
	@echo "make plain       random work without faults, a minute: what is left in Redis?"
	@echo "make chaos       the same for 15 minutes"
	@echo "make prove       the campaigns, figures and matrix, into docs/evidence"
	@echo "make seeded      bugs put into the library one by one, into docs/evidence: is each noticed?"
	@echo "make soak        the same as make chaos for MIN=60 minutes"
	@echo "make interop     with real Redisson: needs a JDK and Maven, and installs them if it can; INTEROP=3.52.0 for one release"
	@echo "make browser     the pages of package ui in Chromium: needs it and npm, and installs them if it can"
	@echo "make fuzz        every fuzz target for 2,000 inputs; FUZZTIME=10m for longer"
	@echo "make lint-local  gofmt and go vet (part of make test-all)"
	@echo "make lint        golangci-lint; builds it the first time"
	@echo "make tidy        go mod tidy for every module, nested ones too"
	@echo "make tidy-check  make tidy would change nothing"
	@echo "make bench       every benchmark and comparison once; BENCHTIME=1s for figures"
	@echo "make compare     latchkey against floors and peers, into docs/performance.md; for a quiet machine"
	@echo "make release     VERSION=v0.1.0: all of a release but the push, in a clone; PUSH=1 pushes it"
	@echo "make release-check  is .goreleaser.yaml what goreleaser understands?"
	@echo "make demo        the demo, on an embedded server"
	@echo "make cover       test coverage of the library, into coverage.out"
	@echo "make fmt         format all code"
