# make help lists the targets. Everything here also works when typed by hand.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Built from a copy without history too, where Go could not stamp a version.
GO_BUILD := go build -buildvcs=auto

# What a skip is a failure for. To test without, say make test REQUIRE=
REQUIRE := postgres,bubblewrap,forkserver,nats,docker,numpy,mcp,wasm
FUZZTIME := 5s
# How many guests of every end run before what is left of them is looked for.
LEAK_JOBS := 1000

# Sees to a Docker Engine and names it for the rest of a recipe.
WITH_ENGINE = host=$$(dev/dockerd.sh start); export "$$host";
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

.PHONY: setup
setup: ## install what is missing of the system, after saying so
	@dev/setup.sh

.PHONY: setup-test
setup-test:
	@dev/setup.sh test

.PHONY: build
build: ## build the commands into bin/
	@mkdir -p bin
	$(GO_BUILD) -o bin/ ./cmd/...

.PHONY: demo
demo: setup build ## watch seven jobs go through a whole Airlock on this machine
	@go run ./dev/demo

.PHONY: test
test: setup-test check wasm-beside test-go test-compose k8s-check grafana-check containment-vm-short ## run everything; CI runs this

# Python for WebAssembly takes minutes where no cache has it, much of it waiting
# for a mirror and for configure, so that it is built beside what can do without.
.PHONY: wasm-beside
wasm-beside:
	@case ,$(REQUIRE), in *,wasm,*) dev/wasm.sh & wasm=$$! ;; *) wasm= ;; esac; \
	code=0; $(MAKE) --no-print-directory crosscheck fuzz-short demo || code=$$?; \
	[ -z "$$wasm" ] || wait "$$wasm" || code=$$?; \
	exit $$code

# Those that make containers have the machine for themselves.
.PHONY: test-go
test-go:
	[[ ,$(REQUIRE), != *,mcp,* ]] || dev/mcp.sh >/dev/null; \
	$(WITH_ENGINE) dev/images.sh nats postgres runner >/dev/null; \
	alone='/(backends/(docker|wasm)|integration)$$'; export AIRLOCK_REQUIRE=$(REQUIRE); \
	go test -race -timeout 20m $$(go list ./... | grep -Ev "$$alone"); \
	go test -race -p 1 -parallel 4 -timeout 20m -skip '^TestComposeDeployment$$' $$(go list ./... | grep -E "$$alone")

.PHONY: check
check: ## formatting and vet
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go' -not -path './.git/*')); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w these: $$unformatted" >&2; exit 1; fi
	go vet ./...

.PHONY: crosscheck
crosscheck: ## build and vet for every system
	@dev/crosscheck.sh

.PHONY: fuzz
fuzz: ## run each fuzz target for a minute
	@dev/fuzz.sh 60s

.PHONY: fuzz-short
fuzz-short:
	@dev/fuzz.sh $(FUZZTIME)

.PHONY: dockerd
dockerd: ## see to a Docker Engine, and say where it is
	@dev/dockerd.sh start

.PHONY: runner-image
runner-image: ## make the guests' image, without a registry from this host's Python
	@dev/runner-image.sh plain auto

.PHONY: runner-image-data
runner-image-data: ## the same with numpy and pandas
	@dev/runner-image.sh data auto

.PHONY: runner-image-host
runner-image-host: ## the same from this host's Python or Debian's packages in any case
	@dev/runner-image.sh plain host

.PHONY: test-docker
test-docker: ## run what needs a Docker Engine, on one seen to here
	@$(WITH_ENGINE) dev/runner-image.sh; \
	AIRLOCK_REQUIRE=docker go test -race -parallel 4 -timeout 12m ./backends/docker

.PHONY: test-compose
test-compose: ## run a batch through docker-compose.yml and kill a worker in it
	@$(WITH_ENGINE) \
	AIRLOCK_REQUIRE=docker go test -timeout 20m -run 'Compose|Secrets' ./integration

.PHONY: k8s-check
k8s-check: ## hold dev/k8s against the Kubernetes schema and our own rules
	cd dev/k8s/validate && go vet . && go test .

.PHONY: grafana-check
grafana-check: ## evaluate every query of dev/grafana over a worker's and a gateway's metrics
	@set -eu; scrapes=$$(mktemp -d); trap 'rm -rf "$$scrapes"' EXIT; \
	AIRLOCK_KEEP_SCRAPES="$$scrapes" go test -count 1 -run TestEachMetricIsThereAndMoves ./cmd/worker; \
	cd dev/grafana/check && go vet . && AIRLOCK_SCRAPES="$$scrapes" go test -count 1 .

.PHONY: images
images: ## pull or make the images that a deployment starts from
	@$(WITH_ENGINE) dev/images.sh all runner worker

.PHONY: secrets
secrets: ## make the deployment's passwords in ./secrets
	@dev/secrets.sh

.PHONY: wasm
wasm: ## build the Python for WebAssembly into bin/wasm, in 4 minutes; nothing when it is current
	@dev/wasm.sh

.PHONY: wine-check
wine-check: ## run the wasm backend's tests for Windows under Wine, which it installs, saying so
	@dev/wine.sh

.PHONY: compose-config
compose-config: ## have Compose check docker-compose.yml
	@dev/compose.sh --profile submit config -q

.PHONY: compose-up
compose-up: ## start a whole Airlock in containers, and send a job through it
	@dev/compose-up.sh

.PHONY: compose-down
compose-down: ## stop it; V=-v removes its data too
	@$(WITH_ENGINE) dev/compose.sh --profile submit --profile gateway down --remove-orphans $(V)

# What decides where faults fall; a failing run is repeated with its own.
SEED := $(shell date +%s)

.PHONY: faults
faults: setup-test ## break every part at every step of an attempt, in 10 minutes; SEED=… repeats a run
	@AIRLOCK_REQUIRE=postgres,bubblewrap go test -count=1 -v -timeout 10m -run '^TestFaults$$' ./integration/faults \
		-args -full -seed $(SEED) | { grep -v '^=== ' || true; }

.PHONY: plans
plans: setup-test ## check the plans of history queries on five million rows, in 8 minutes with 8 GB of disk
	@AIRLOCK_REQUIRE=postgres go test -count=1 -v -timeout 30m -run '^TestHistoryPlans$$' ./store -args -full

.PHONY: containment
containment: setup-test wasm ## act out every misbehaviour on every backend here, and write what was held
	@$(WITH_ENGINE) dev/runner-image.sh >/dev/null; \
	dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	AIRLOCK_CONTAINMENT=$$dir AIRLOCK_REQUIRE=bubblewrap,forkserver,docker,wasm go test -count=1 -timeout 15m -run TestConformance \
		./backends/forkserver ./backends/bubblewrap ./backends/docker ./backends/wasm ./backends/local -leak-jobs $(LEAK_JOBS); \
	go run ./dev/containment -from "$$dir" -write

.PHONY: containment-vm
containment-vm: setup-test ## the same for bubblewrap and forkserver, on a stock kernel in an emulated machine
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	dev/vm.sh -o "$$dir" bubblewrap forkserver; \
	go run ./dev/containment -from "$$dir" -write

# The walls and limits that differ most between kernels.
.PHONY: containment-vm-short
containment-vm-short:
	@dev/vm.sh -r 'TestConformance/stories/(wall|memory|process|posture)' bubblewrap forkserver

# Such as -quick, -only 'bubblewrap/.*/2slots', -parts control,floors, -million
BENCH_FLAGS :=
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

.PHONY: bench
bench: setup build ## measure this machine in 25 minutes, BENCH_FLAGS=-quick in 2; figures go to bench/
	@go run ./integration/bench -bin bin $(BENCH_FLAGS)

.PHONY: bench-page
bench-page: setup build ## the same, and make the tables of PERFORMANCE.md of it
	@go run ./integration/bench -bin bin -json bench/reference.json -write PERFORMANCE.md $(BENCH_FLAGS)

.PHONY: bench-compare
bench-compare: ## compare two runs: OLD=bench/a.json NEW=bench/b.json
	@: "$${OLD:?names the figures of the run before, such as bench/reference.json}" "$${NEW:?names those of the run after}"; \
	go run $(BENCHSTAT) "$${OLD%.*}.txt" "$${NEW%.*}.txt"

.PHONY: lint
lint: check ## staticcheck, and go.mod as go mod tidy would have it
	go run $(STATICCHECK) ./...
	go mod tidy -diff

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
