# The commands of this project. Each does the set-up that is missing, builds what it needs, and does its job.
# The build itself is CMake's: see CMakePresets.json.
PRESET ?= release
PREFIX ?= /usr/local
BUILD := build/$(PRESET)
CASE := examples/cases/int4_small.safetensors

# Where scripts/setup.sh unpacks NVIDIA's compiler library if the machine has none.
ifneq ($(wildcard .deps/nvrtc),)
export CUBIT_NVRTC_DIR ?= $(CURDIR)/.deps/nvrtc
endif
ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
# What one clone has compiled another in a different folder need not.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
endif

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16
	@echo "  PRESET=release|debug|asan|tsan|clang|nightly selects the build; debug compiles each file by itself, for edits"

.PHONY: setup
setup: ## install what this machine lacks: packages, and NVRTC into .deps/
	@scripts/setup.sh

# The first `make run` builds the tool, libcubit and the CPU device alone (preset run). Once build/release holds the tool,
# as it does after `make test`, `make run` keeps that tool up to date instead. A PRESET that the caller names wins.
RUN_PRESET = $(if $(filter command environment,$(word 1,$(origin PRESET))),$(PRESET),$(if $(wildcard build/release/tools/cubit),release,run))

# Set-up may bring NVRTC's folder, or ccache, after the lines above were read: hence a second make.
.PHONY: run test test-all test-sample build
run: ## build and run the main job on the shipped case
	@scripts/setup.sh --run
	@$(MAKE) --no-print-directory run-after-setup PRESET=$(RUN_PRESET) TARGETS=cubit_tool
test: setup ## build everything and run the tests that a contributor runs: minutes
	@$(MAKE) --no-print-directory test-after-setup TIER=fast
test-all: setup ## build everything and run every test: half an hour
	@$(MAKE) --no-print-directory test-after-setup TIER=all
test-sample: setup ## run the part of the slow tests that SAMPLE, a commit hash (HEAD), chooses
	@$(MAKE) --no-print-directory test-after-setup TIER=sample
build: setup ## build everything
	@$(MAKE) --no-print-directory build-after-setup

.PHONY: build-after-setup
build-after-setup:
	@test -f $(BUILD)/build.ninja || cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET) $(if $(TARGETS),--target $(TARGETS))

# A result that cannot be computed is no success: it is asked for only where a device is. (Expanded after the build.)
RESULT = $(if $(wildcard $(BUILD)/capi/libcubit_cpu.so)$(shell $(BUILD)/tools/cubit devices --json | grep '"architecture"'),--output build/out.safetensors --check)

.PHONY: run-after-setup
run-after-setup: build-after-setup
	@$(if $(RESULT),,echo 'no GPU and no CPU device here: the kernels are compiled and reported; nothing is computed or checked')
	$(BUILD)/tools/cubit run gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 \
	  --input $(CASE) $(RESULT)

.PHONY: test-after-setup
test-after-setup: build-after-setup
	@CUBIT_EXPECT_NVRTC=1 scripts/test.sh $(PRESET) $(TIER) $(SAMPLE)

.PHONY: sanitize-gpu
sanitize-gpu: build ## memcheck and racecheck over the GPU tests; needs a GPU and compute-sanitizer
	@scripts/sanitize_gpu.sh $(PRESET) || { code=$$?; [ $$code = 77 ] || exit $$code; }

.PHONY: install
install: setup ## install under PREFIX (/usr/local): headers, library, tool, find_package(cubit)
	@$(MAKE) --no-print-directory build-after-setup PRESET=package
	cmake --install build/package --prefix $(PREFIX)

.PHONY: package
package: setup ## make Debian packages of the library, the tool and the headers in build/package
	@$(MAKE) --no-print-directory build-after-setup PRESET=package
	cd build/package && cpack -G DEB

.PHONY: format
format: ## rewrite every C++ and CUDA file in the project's format
	@scripts/format.sh

.PHONY: tidy
tidy: setup ## clang-tidy on the host code, warnings as errors
	@scripts/tidy.sh

.PHONY: clean
clean: ## remove the builds; keeps .deps/
	rm -rf build
