# tests.mk - how everything is built that only tests need, and the targets that run it (tests/README.md).

# tests/unit/<room>/test_<room>_<what>.c is linked with that room and those below it.
UNIT := $(patsubst %.c,$(B)/tests/%,$(notdir $(wildcard tests/unit/*/test_*.c)))
UNIT := $(filter-out $(if $(CUDA_SO),,%_cudnn %_gpu_real),$(UNIT))
# A test's own code needs no speed, but for the kernels' references in double: -O1 compiles it in half the time.
# There gcc knows less of bounds and values, as under sanitizers.
QUICK := $(if $(SAN),,-O1 -Wno-format-truncation -Wno-maybe-uninitialized -Wno-nonnull)
define unit
$(B)/tests/test_$(1)_%: tests/unit/$(1)/test_$(1)_%.c $(call libs,$(1))
	$$(call step,TEST  $$@)
	$(Q)$(CC) $(CPPFLAGS) $$(foreach r,$$(USES_$(1)),$$(FLAGS_$$(r))) $(CFLAGS) $(if $(filter kernels,$(1)),,$(QUICK)) \
	    -MMD -MP $$(LDFLAGS) $$(filter %.c %.o,$$^) $(call links,$(1)) -lcmocka -o $$@
endef
$(foreach r,$(ROOMS) gateway,$(eval $(call unit,$(r))))
# That of libwiremill is linked with its files, and plays the engine.
$(B)/tests/test_ops_library: $(LIBRARY_SRC:%.c=$(B)/obj/%.o)
$(B)/tests/test_ops_library: LDFLAGS += -Wl,--wrap=wm_device_score
# gcc 12 for AArch64 fails on a vector of strict_arithmetic.h.
$(B)/tests/test_kernels_strict $(B)/tests/test_kernels_opencl: LDFLAGS += -fno-tree-vectorize
$(B)/tests/test_broker_journal: LDFLAGS += -Wl,--wrap=realloc
$(B)/tests/test_gateway_infer: LDFLAGS += -Wl,--wrap=wm_models_need
# With the thread sanitizer only those run that have threads.
UNIT_THREADS := %client %library %reactor %hostile %worker %device %sparse %sparse_engine %hands %together %stream \
    %cuda_module %trial
UNIT_RUN     := $(if $(filter thread,$(SAN)),$(filter $(UNIT_THREADS),$(UNIT)),$(UNIT))

# Stand-ins for hardware. That of AMX, on tiles in memory, is linked by unit tests and preloaded by whole campaigns.
$(B)/obj/tests/%.o: tests/%.c
	$(call step,CC    $<)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) $(MATH) -fvisibility=hidden -MMD -MP -c $< -o $@
TWIN := $(B)/obj/tests/standin/wm_sparse_amx_twin.o
$(TWIN): MATH := -fno-trapping-math
$(addprefix $(B)/tests/test_kernels_,sparse sparse_engine trial): $(TWIN)
$(B)/tests/wm_amx_twin.so: $(TWIN)
	$(call step,LINK  $@)
	$(Q)$(CC) $(LDFLAGS) -shared $< -o $@ -lm
STANDINS := $(B)/tests/wm_amx_twin.so $(B)/tests/wm_cuda_standin.so

# Oracles for the golden tests; nothing of wiremill itself needs Python.
VENV := build/venv
$(VENV)/.made: tests/requirements.txt
	@echo "  VENV  $(VENV)"
	$(Q)rm -rf $(VENV) && python3 -m venv $(VENV) && $(VENV)/bin/python -m pip -q install -r $< && touch $@

# The simulator: the real core, journal and ledger in virtual time; the end of a process is caught.
SIM := $(B)/tests/sim
SIM_WRAPS := _exit wm_journal_append wm_journal_sync wm_journal_read wm_ledger_apply wm_core_durable \
             wm_core_disk_full wm_core_dispatch_copies wm_core_needs_tick wm_core_budget_forget_need \
             wm_core_batch_take_payload wm_ledger_catch_up rename
$(B)/obj/tests/sim/%.o: tests/sim/%.c
	$(call step,CC    $<)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_broker) $(FLAGS_schema) $(CFLAGS) -MMD -MP -c $< -o $@
$(SIM): $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/sim/*.c)) $(call libs,broker)
	$(call step,LINK  $@)
	$(Q)$(CC) $(LDFLAGS) $(SIM_WRAPS:%=-Wl,--wrap=%) $(filter %.o,$^) $(call links,broker) -o $@

# An engine for tests that dies on chosen hits, a shared object in the place of OpenVINO's.
KILLER := $(B)/tests/wm_killer.so
$(KILLER): tests/fault/killer.c $(call libs,kernels)
	$(call step,LINK  $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -shared $< -o $@ -Wl,--exclude-libs,ALL $(call links,kernels)

# Programs and shims of tests/fault: a link that misbehaves, calls that fail.
FAULT := $(patsubst tests/fault/%.c,$(B)/tests/fault/%,$(filter-out %_shim.c %killer.c,$(wildcard tests/fault/*.c))) \
         $(patsubst tests/fault/%.c,$(B)/tests/fault/%.so,$(wildcard tests/fault/*_shim.c))
$(B)/tests/fault/hostile $(B)/tests/fault/environment: $(B)/tests/fault/%: tests/fault/%.c $(call libs,broker)
	$(call step,TEST  $@)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_broker) $(CFLAGS) $(LDFLAGS) $< $(call links,broker) -o $@
$(B)/tests/fault/%: tests/fault/%.c
	$(call step,TEST  $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $< -o $@
$(B)/tests/fault/%.so: tests/fault/%.c
	$(call step,TEST  $@)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -fsanitize%,$(CFLAGS)) -shared $< -o $@ -ldl

# Fuzz targets (tests/fuzz/README.md). Each is linked with the room whose decoder it tries.
FUZZ_ROOM_batch    := schema
FUZZ_ROOM_core     := broker
FUZZ_ROOM_endpoint := schema
FUZZ_ROOM_frames   := producer
FUZZ_ROOM_graphdef := kernels
FUZZ_ROOM_h1       := schema
FUZZ_ROOM_h5       := producer
FUZZ_ROOM_infer    := gateway
FUZZ_ROOM_join     := schema
FUZZ_ROOM_msg      := schema
FUZZ_ROOM_npy      := producer
FUZZ_ROOM_onnx     := kernels
FUZZ_ROOM_record   := broker
FUZZ_ROOM_status   := ops
FUZZ_ROOM_tables   := producer
FUZZ_ROOM_text     := producer
FUZZ_ROOM_waves    := producer
FUZZ_ROOM_wmm      := kernels
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
# With LIBFUZZER=1 the targets have libFuzzer's loop (clang), else the driver's own.
FUZZ_FLAGS := -Wno-unused-function $(if $(LIBFUZZER),-DWM_LIBFUZZER -fsanitize=fuzzer)
define fuzz
$(B)/tests/fuzz/$(1): tests/fuzz/fuzz_$(1).c tests/fuzz/fuzz.c $(call libs,$(FUZZ_ROOM_$(1)))
	$$(call step,FUZZ  $$@)
	$(Q)$(CC) $(CPPFLAGS) $(foreach r,$(USES_$(FUZZ_ROOM_$(1))),$(FLAGS_$(r))) $(CFLAGS) $(QUICK) $(FUZZ_FLAGS) \
	    -MMD -MP $(LDFLAGS) $$(filter %.c,$$^) $(call links,$(FUZZ_ROOM_$(1))) -lcmocka -o $$@
endef
$(foreach t,$(FUZZ:$(B)/tests/fuzz/%=%),$(eval $(call fuzz,$(t))))

# Programs that measure the inside of one room.
BENCH := $(addprefix $(B)/bench/,sparse_bench core_bench broker_bench lib_bench gateway_bench slices_bench)
define bench
$(B)/bench/$(2): tests/bench/$(2).c $(call libs,$(1))
	$$(call step,BENCH $$@)
	$(Q)$(CC) $(CPPFLAGS) $$(foreach r,$$(USES_$(1)),$$(FLAGS_$$(r))) $(CFLAGS) -MMD -MP $(LDFLAGS) $$< \
	    $(call links,$(1)) -o $$@
endef
$(eval $(call bench,kernels,sparse_bench))
$(eval $(call bench,kernels,slices_bench))
$(eval $(call bench,broker,core_bench))
$(eval $(call bench,broker,broker_bench))
$(eval $(call bench,gateway,gateway_bench))
$(B)/bench/lib_bench: tests/bench/lib_bench.c $(call libs,kernels) $(B)/lib/libwiremill.so
	$(call step,BENCH $@)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -MMD -MP $(LDFLAGS) $< $(call links,kernels) \
	    -L$(B)/lib -lwiremill "-Wl,-rpath,$(abspath $(B)/lib)" -o $@

# What campaigns under test need beside wiremill's programs; what all tests need.
NEEDED_fault  := $(KILLER) $(FAULT)
NEEDED_e2e    := $(NEEDED_fault) $(VENV)/.made $(B)/gpu/gpu_pipeline $(B)/tests/gpu_networks $(STANDINS) \
    $(B)/bundle/wiremill/bin/wiremill $(B)/bench/broker_bench $(if $(wildcard build/arm64-root/.made),arm64-some)
NEEDED_golden := $(VENV)/.made $(STANDINS) $(WHEEL) $(if $(CUDA_SO),$(B)/tests/any_run)
NEEDED_bench  := $(BENCH) $(B)/tests/fault/hostile $(VENV)/.made
NEEDED        := $(UNIT) $(SIM) $(FUZZ) $(NEEDED_e2e) $(NEEDED_golden)
# `command -v` of several names succeeds when one of them is there.
has            = (for c in $(1); do command -v $$c >/dev/null || exit 1; done)
prove          = WM_BUILD=$(B) prove --timer -v $(if $(T),tests/$(1)/$(T)*.t,tests/$(1))

.PHONY: fuzz fuzz-build test unit e2e golden fault sim sim-cuts sim-proof mutants check proof proof-again soak san \
    tsan sanitized bench
##@ test
ifeq ($(ARCH),arm64)
test:
	+@$(MAKE) --no-print-directory ARCH= B=build/release test-arm64
else
test: about-test deps deps-slurm deps-opencl
test: ## everything in minutes: unit, simulated and whole campaigns, golden, faults; installs what is missing
	-@$(MAKE) --no-print-directory deps-manual
	-@$(call has,xrootd xrdcp curl h5clear) || $(MAKE) --no-print-directory deps PACKAGES='$(ELSEWHERE)'
	@$(AGAIN) check
	@echo "make test: all passed (build $(B)); make lint, san, tsan and proof check more"
endif
tested: all $(NEEDED)
# Whole runs leave stamps, which a part of the unit tests does not earn.
$(if $(and $(T),$(filter check test proof proof-again soak,$(MAKECMDGOALS))),$(error T= picks tests of unit, e2e, \
    golden, fault and fuzz: type `make e2e T=$(T)`))
check: tested deps-farm deps-root
	+@WM_BUILD=$(B) tests/proof.sh test
proof-again: export FORGET := 1
proof-again: proof ## make proof with all its parts, whatever is green
proof: deps-slurm deps-sge deps-browser deps-gateway deps-mutants deps-opencl deps-torch deps-sklearn all $(NEEDED) \
    deps-farm deps-root-old $(if $(filter x86_64,$(MACHINE)),arm64-proof)
proof: ## every promise tried at length (hours; JOBS=n); goes on where it was stopped; ends with a table
	+@WM_BUILD=$(B) tests/proof.sh proof
soak: all $(NEEDED) ## the same for days
	+@WM_BUILD=$(B) tests/proof.sh soak
PICKED := $(filter $(B)/tests/test_$(T)%,$(UNIT_RUN))
unit: $(PICKED) all ## build and run the unit tests (T=prefix picks some, here and below)
	@printf '%s\n' $(PICKED) | WM_BUILD=$(B) xargs -P $(JOBS) -I{} tests/unit/run.sh {}
e2e: all $(NEEDED_e2e) ## whole campaigns: killed and resumed, refused, started by hand
	@$(call prove,e2e)
golden: all $(NEEDED_golden) ## patches and scores against NumPy and ONNX Runtime
	@$(call prove,golden)
fault: all $(NEEDED_fault) ## campaigns with failing processes, disks, links and peers
	@$(call prove,fault)
sim: $(SIM) ## 300 simulated campaigns (SEEDS=n) and as many brokers for clients; SEED=n prints the events of one
	@$(SIM) $(if $(SEED),--seed $(SEED),--seeds 1 $(or $(SEEDS),300))
	@$(if $(SEED),,$(SIM) --clients --seeds 1 $(or $(SEEDS),300))
sim-cuts: $(SIM) ## 2,000 simulated power cuts (CUTS=n), and a check that lost data would be noticed
	@$(SIM) --cuts $(or $(CUTS),2000)
sim-proof: $(SIM) ## the simulator must catch every bug planted in it
	@$(SIM) --bugs
# `make` installs the parser before, so that its absence is a reason and no failure.
mutants: deps-mutants all $(UNIT) $(SIM)
mutants: ## change N=60 places of the sources, one at a time, and show which no test notices (SEED=, T=path, JOBS=n)
	@[ -e $(VENV)/.mutants ] || { echo "mutants: skipped: tree-sitter is not in $(VENV) (make deps-mutants)"; exit 0; }; \
	    WM_BUILD=$(B) JOBS=$(JOBS) $(VENV)/bin/python tests/mutants.py draw "$(N)" "$(SEED)" "$(T)"
# Clang's libFuzzer where it is installed or can be, else the targets' own loop with gcc's sanitizers.
SECONDS_EACH ?= 20
fuzz: ## decoders against hostile inputs, minutes in all (SECONDS_EACH=20 for each target, T=name: one)
	-@command -v clang >/dev/null || $(MAKE) --no-print-directory deps PACKAGES='clang libclang-rt-dev'
	@if command -v clang >/dev/null; then \
	    $(AGAIN) LIBFUZZER=1 CC='$(CLANG)' SAN=address,undefined,fuzzer-no-link B=build/fuzz fuzz-build && \
	    WM_BUILD=build/fuzz tests/fuzz/run.sh libfuzzer $(SECONDS_EACH) $(T); \
	else \
	    echo "no clang: the targets' own loop, with gcc's sanitizers"; \
	    $(AGAIN) SAN=address,undefined B=build/address-undefined fuzz-build && \
	    WM_BUILD=build/address-undefined tests/fuzz/run.sh loop $$((1000 * $(SECONDS_EACH))) $(T); fi
CLANG ?= clang
fuzz-build: $(FUZZ)
# Sanitizers build beside the release and run the unit tests and one whole campaign.
san: ## unit tests and a campaign with the address and undefined-behaviour sanitizers
	@$(AGAIN) SAN=address,undefined B=build/address-undefined sanitized
tsan: ## unit tests with threads and a campaign with the thread sanitizer
	@$(AGAIN) SAN=thread B=build/thread sanitized
# Reports on processes of a campaign go to $(REPORTS): its tests do not read all of their messages and exit codes.
REPORTS = $(abspath $(B))/reports
campaign = WM_BUILD=$(B) ASAN_OPTIONS=log_path=$(REPORTS)/asan UBSAN_OPTIONS=$$UBSAN_OPTIONS:log_path=$(REPORTS)/ubsan \
    TSAN_OPTIONS=$$TSAN_OPTIONS:log_path=$(REPORTS)/tsan $(1) prove --timer -v $(2)
sanitized: export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp
sanitized: export UBSAN_OPTIONS := halt_on_error=1:print_stacktrace=1
sanitized: all $(UNIT_RUN) $(if $(filter thread,$(SAN)),,$(FUZZ))
	@$(MAKE) --no-print-directory unit
	@[ "$(SAN)" = thread ] || WM_BUILD=$(B) tests/fuzz/run.sh loop 2000
	@rm -rf $(REPORTS) && mkdir -p $(REPORTS)
	@$(call campaign,WM_QUICK=1,tests/e2e/run.t)
	@$(call campaign,SAN=$(SAN),tests/e2e/lib.t)
	@! cat $(REPORTS)/* 2>/dev/null || { echo "these reports lie in $(REPORTS)"; exit 1; }

##@ measure
bench: all $(NEEDED_bench) ## engines, pipeline, broker beside others (ONLY=pipeline: a part)
	@WM_BUILD=$(B) PYTHONPATH=$(OPENVINO) $(VENV)/bin/python tests/bench/bench.py $(ONLY)

# ---- what tests need of other packages -----------------------------------------------------------
# Prometheus' programs without its service: Debian's package is unpacked, not installed.
PROMETHEUS := build/prometheus
$(PROMETHEUS)/.made:
	$(Q)mkdir -p $(@D); echo "  APT   prometheus, to $(@D)"
	$(Q)cd $(@D) && apt-get -o APT::Sandbox::User=root -q download prometheus >/dev/null && \
	    dpkg -x prometheus_*.deb . && rm prometheus_*.deb && touch .made
# The parsers of other batch systems, Parsl and Prometheus: tests without them are skipped.
.PHONY: deps-farm
deps-farm: $(VENV)/.made
	-@$(call has,prometheus promtool) || $(MAKE) --no-print-directory $(PROMETHEUS)/.made
	-@[ $(VENV)/.farm -nt tests/requirements-farm.txt ] || { echo "  PIP   $$(paste -sd' ' tests/requirements-farm.txt)"; \
	    $(VENV)/bin/python -m pip -q install -r tests/requirements-farm.txt && touch $(VENV)/.farm; }
# OpenCL on the CPU, its loader, and the headers that a driver of the tests is compiled with.
.PHONY: deps-opencl
deps-opencl:
	-@[ -e /usr/include/CL/cl_icd.h ] && [ -e /etc/OpenCL/vendors/pocl.icd ] || \
	    $(MAKE) --no-print-directory deps PACKAGES='pocl-opencl-icd ocl-icd-libopencl1 opencl-c-headers'
# uproot writes the ROOT files of tests/e2e/convert.t.
.PHONY: deps-root
deps-root: $(VENV)/.made
	-@[ $(VENV)/.root -nt tests/requirements-root.txt ] || { echo "  PIP   $$(paste -sd' ' tests/requirements-root.txt)"; \
	    $(VENV)/bin/python -m pip -q install -r tests/requirements-root.txt && touch $(VENV)/.root; }
# Earlier versions of it, each in a Python of its own, that read those files: build/venv-root-4.3, ...
EARLIER := $(patsubst tests/requirements-%.txt,build/venv-%,$(wildcard tests/requirements-root-*.txt))
.PHONY: deps-root-old
deps-root-old: deps-root
	-@$(foreach v,$(EARLIER),[ $v/.made -nt $(v:build/venv-%=tests/requirements-%.txt) ] || { \
	    echo "  PIP   $(v:build/venv-%=tests/requirements-%.txt)"; rm -rf $v; python3 -m venv $v && $v/bin/python -m pip \
	    -q install -r $(v:build/venv-%=tests/requirements-%.txt) && touch $v/.made; };)
# PyTorch for Debian's Python, 1 GB: tests/e2e/pluginpython.t without it tries engines in Python only.
.PHONY: deps-torch
deps-torch:
	-@/usr/bin/python3 -c 'import torch, numpy' 2>/dev/null || $(MAKE) --no-print-directory deps PACKAGES=python3-torch
# scikit-learn, whose random forest is another of that test's engines.
.PHONY: deps-sklearn
deps-sklearn: $(VENV)/.made
	-@[ $(VENV)/.sklearn -nt tests/requirements-sklearn.txt ] || { \
	    echo "  PIP   $$(paste -sd' ' tests/requirements-sklearn.txt)"; \
	    $(VENV)/bin/python -m pip -q install -r tests/requirements-sklearn.txt && touch $(VENV)/.sklearn; }
# The parser of tests/mutants.py.
.PHONY: deps-mutants
deps-mutants: $(VENV)/.made
	-@[ $(VENV)/.mutants -nt tests/requirements-mutants.txt ] || { echo \
	    "  PIP   $$(paste -sd' ' tests/requirements-mutants.txt)"; \
	    $(VENV)/bin/python -m pip -q install -r tests/requirements-mutants.txt && touch $(VENV)/.mutants; }
.PHONY: deps-peer
deps-peer: ## MLServer, a peer of the gateway: make bench ONLY=gateway measures it where it is installed
	@[ build/venv-peer/.made -nt tests/requirements-peer.txt ] || { echo "  PIP   tests/requirements-peer.txt"; \
	    rm -rf build/venv-peer; python3 -m venv build/venv-peer && build/venv-peer/bin/python -m pip -q install \
	    -r tests/requirements-peer.txt && touch build/venv-peer/.made; }
# The clients of Triton that tests/e2e/triton.t runs, each version in a Python of its own: build/venv-gateway, -2.48,
# ...
CLIENTS := $(patsubst tests/requirements-%.txt,build/venv-%,$(wildcard tests/requirements-gateway*.txt))
.PHONY: deps-gateway
deps-gateway:
	-@$(call has,h2load) && [ -e /usr/lib/x86_64-linux-gnu/libb64.so.0d ] || \
	    $(MAKE) --no-print-directory deps PACKAGES='nghttp2-client libb64-0d'
	-@$(foreach v,$(CLIENTS),[ $v/.made -nt $(v:build/venv-%=tests/requirements-%.txt) ] || { \
	    echo "  PIP   $(v:build/venv-%=tests/requirements-%.txt)"; rm -rf $v; python3 -m venv $v && $v/bin/python -m pip \
	    -q install \
	    --no-deps --require-hashes -r $(v:build/venv-%=tests/requirements-%.txt) && touch $v/.made; };)
# tests/fault/sge.t runs a Grid Engine of its own; nothing else needs it.
.PHONY: deps-sge
deps-sge:
	-@[ -x /usr/lib/gridengine/sge_qmaster ] || \
	    $(MAKE) --no-print-directory deps PACKAGES='gridengine-master gridengine-exec gridengine-client iproute2'
# tests/fault/slurm.t runs a Slurm of its own; nothing else needs it.
deps-slurm:
	-@command -v slurmctld >/dev/null || [ -x /usr/sbin/slurmctld ] || \
	    $(MAKE) --no-print-directory deps PACKAGES='slurm-wlm munge'

# tests/e2e/servepage.t and servelist.t open pages of wiremill serve in a Chromium, 100 MB; only in make proof.
.PHONY: deps-browser
deps-browser:
	-@command -v chromium >/dev/null || $(MAKE) --no-print-directory deps PACKAGES=chromium

# AArch64 on this machine: a cross compiler, Debian's libraries and kernel for it in a folder, and qemu.
ARM64      := build/arm64
ARM64_MAKE  = $(MAKE) --no-print-directory ARCH=arm64 B=$(ARM64) SAN=
ARM64_SOME := $(addprefix $(ARM64)/tests/test_,schema_batch kernels_strict kernels_image broker_core)
.PHONY: deps-arm64 arm64 arm64-some arm64-tests test-arm64
deps-arm64:
	@$(MAKE) --no-print-directory deps PACKAGES='gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
	    qemu-user-static qemu-system-arm proot cpio'
	@[ -e $(ARM64_ROOT)/boot/vmlinuz ] || { echo "  APT   arm64, to $(ARM64_ROOT)"; bash tests/arm64.sh $(ARM64_ROOT) \
	    $(filter lib%-dev zlib1g-dev,$(PACKAGES)) libc6-dev; }
arm64: deps-arm64 ## build for AArch64 on this machine, to build/arm64 (without CUDA)
	+@$(ARM64_MAKE) -j$(JOBS) all
# What tests/e2e/arm64.t tries in make test, where AArch64 is set up; in make proof all.
arm64-some: $(if $(filter proof proof-again arm64-tests test-arm64,$(MAKECMDGOALS)),deps-arm64)
	+@$(ARM64_MAKE) $(ARM64)/bin/wiremill $(ARM64)/bin/wiremill-worker $(ARM64_SOME)
# With the bundle, and the tests that need a whole machine.
arm64-proof: deps-arm64 arm64-some
	+@$(ARM64_MAKE) -j$(JOBS) all bundle $(ARM64)/tests/fault/confine_shim.so \
	    $(addprefix $(ARM64)/tests/test_,broker_listener broker_memory schema_file_opener)
arm64-tests: arm64-proof
	+@$(ARM64_MAKE) -j$(JOBS) $(patsubst $(B)/%,$(ARM64)/%,$(filter-out %_cudnn %_gpu_real,$(filter \
	    $(B)/tests/test_schema_% $(B)/tests/test_broker_% $(B)/tests/test_kernels_%,$(UNIT))))
test-arm64: all arm64-tests ## unit tests for AArch64 by qemu, and a campaign with a worker of each machine
	@WM_ARM64=all WM_SIZE=proof WM_BUILD=$(B) prove --timer -v tests/e2e/arm64.t
