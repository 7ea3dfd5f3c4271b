# Makefile - everything wiremill does from a clean clone: `make run`, `make test`, `make help`.
#
# Output goes to $(B), one folder per variant, so that sanitizer builds never mix with others.
# Every room is a static library; a program is its room's main.c plus the libraries below it.
# `make help` lists the targets whose line ends in a ## comment, under the ##@ headings.

comma   := ,
VARIANT := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)
B       ?= build/$(VARIANT)
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
SHELL   := /bin/bash
# A recipe's first line: makes the target's folder and prints what is done (V=1 prints the commands instead).
step     = @mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  $(1)"

PKG       = $(shell pkg-config $(1) $(2) 2>/dev/null)
MSGPACK  := $(if $(shell pkg-config --exists msgpack-c 2>/dev/null && echo y),msgpack-c,msgpack)

OPT      := $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN),-O3)
# Sanitizers hide from gcc what bounds or sets a value.
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wvla $(if $(filter gpu-check,$(MAKECMDGOALS)),,-Werror) \
            $(if $(SAN),-Wno-format-truncation -Wno-conversion -Wno-nonnull -Wno-maybe-uninitialized)
# make fuzz: the sources are written against gcc's warnings, and clang 14 does not know the names of AMX.
WARN     := $(if $(LIBFUZZER),-w,$(WARN))
CPPFLAGS := -I. -I$(B)/gen -D_GNU_SOURCE $(if $(LIBFUZZER),'-D__builtin_cpu_supports(name)=0')
CFLAGS   := -std=c11 -g $(OPT) $(WARN) -fPIC -pthread
LDFLAGS  := $(if $(SAN),-fsanitize=$(SAN)) -pthread -rdynamic

# ---- rooms -------------------------------------------------------------------------------------
ROOMS := schema kernels broker producer gpuworker ops
# Folders that belong to a library, a program or a shared object of their own.
APART_kernels  := openvino onnxruntime cuda cudnn gpu
APART_producer := net serving gateway
APART_ops      := lib
sources = $(filter-out %/main.c $(APART_$(1):%=$(1)/%/%.c),$(wildcard $(1)/*.c $(1)/*/*.c))
objects = $(patsubst %.c,$(B)/obj/%.o,$(call sources,$(1)))
library = $(B)/lib/lib$(1).$(if $(SHARED),so,a)
# With SHARED=1 a changed file needs no test to be linked again (tests/mutants.py).
archive = $(if $(SHARED),$(CC) -shared -Xlinker -soname=$(@F) $^ -o $@,ar rcs $@ $^)

# What each room's libraries come from (pkg-config names); a room may use what is listed here only.
PKG_schema    := $(MSGPACK) libczmq libzmq libzstd libdeflate libxxhash libsodium libcrypto jansson
PKG_kernels   := yaml-0.1 libprotobuf-c libsodium libcrypto libxxhash
PKG_broker    := libczmq libzmq sqlite3 libxxhash libsodium libcrypto jansson
PKG_producer  := libczmq libzmq hdf5 zlib libdeflate libxxhash libsodium yaml-0.1
PKG_gpuworker := libczmq libzmq libsodium
PKG_ops       := libczmq libzmq jansson libsodium hdf5 libdeflate
LIBS_producer := -lbz2# Debian has no pkg-config file of it
PKG_gateway   := libnghttp2 libssl libcrypto zlib jansson

# Libraries a room's program links, in order (the arrows of the architecture, checked by make lint).
USES_schema    := schema
USES_kernels   := kernels schema
USES_broker    := broker schema
USES_producer  := producer kernels schema
USES_gateway   := gateway producer kernels schema
USES_gpuworker := gpuworker kernels schema
USES_ops       := ops kernels schema

$(foreach r,$(ROOMS),$(eval FLAGS_$(r) := $(call PKG,--cflags,$(PKG_$(r)))))
libs = $(foreach r,$(USES_$(1)),$(call library,$(r)))
links = -Wl,--as-needed,--start-group $(call libs,$(1)) -Wl,--end-group \
        $(call PKG,--libs,$(sort $(foreach r,$(USES_$(1)),$(PKG_$(r))))) $(foreach r,$(USES_$(1)),$(LIBS_$(r))) -lm -ldl

PROGRAM_broker    := wiremill-broker
PROGRAM_producer  := wiremill-producer
PROGRAM_gpuworker := wiremill-worker
PROGRAM_ops       := wiremill
WITH_PROGRAM := broker producer gpuworker ops
PROGRAMS     := $(foreach r,$(WITH_PROGRAM),$(B)/bin/$(PROGRAM_$(r))) $(B)/bin/wiremill-serve $(B)/bin/wiremill-gateway
MODEL        := $(B)/share/wiremill/synthetic.onnx

# General engines, in shared objects of their own; make OPENVINO=none or ONNXRUNTIME=none leaves one out.
GENERAL := $(if $(filter none,$(OPENVINO)),,openvino) $(if $(filter none,$(ONNXRUNTIME)),,onnxruntime)

.DEFAULT_GOAL := all
.PHONY: all
##@ build and run
all: $(PROGRAMS) $(GENERAL:%=$(B)/lib/wm_%.so) $(B)/lib/libwiremill.so $(MODEL) ## build everything

# What --model synthetic names: programs find it beside their folder (wm_setup_model_path).
$(MODEL): ops/train/emtrkmichel.onnx
	$(Q)mkdir -p $(@D) && cp $< $@

define room
$(call library,$(1)): $(call objects,$(1))
	$(Q)mkdir -p $$(@D); rm -f $$@; $$(archive)
$(B)/obj/$(1)/%.o: $(1)/%.c
	$$(call step,CC    $$<)
	$(Q)$(CC) $$(CPPFLAGS) $$(FLAGS_$(1)) $(CFLAGS) $$(ISA) $$(MATH) -MMD -MP -c $$< -o $$@
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))

define program
$(B)/bin/$(PROGRAM_$(1)): $(B)/obj/$(1)/main.o $(call libs,$(1))
	$$(call step,LINK  $$@)
	$(Q)$(CC) $(LDFLAGS) $$< $(call links,$(1)) -o $$@
endef
$(foreach r,$(WITH_PROGRAM),$(eval $(call program,$(r))))
# A program of its own: what listens to a network has no other verb.
$(B)/bin/wiremill-serve: $(B)/obj/ops/serve/main.o $(call libs,ops)
	$(call step,LINK  $@)
	$(Q)$(CC) $(LDFLAGS) $< $(call links,ops) -o $@

# So is the gateway, whose folders are a library beside the room's: no other program loads nghttp2 or OpenSSL's TLS.
$(call library,gateway): $(patsubst %.c,$(B)/obj/%.o,$(filter-out %/main.c,$(wildcard $(APART_producer:%=producer/%/*.c))))
	$(Q)mkdir -p $(@D); rm -f $@; $(archive)
$(B)/bin/wiremill-gateway: $(B)/obj/producer/gateway/main.o $(call libs,gateway)
	$(call step,LINK  $@)
	$(Q)$(CC) $(LDFLAGS) $< $(call links,gateway) -o $@

# Code for one instruction set lies in files that are named after it; which kernel runs is chosen at run time.
# Nothing reads floating-point exception flags. Without them gcc turns loops that select into vectors.
$(B)/obj/kernels/sparse/wm_sparse_%.o: MATH := -fno-trapping-math
ISA_AVX2   := -mavx2 -mfma
ISA_AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
$(B)/obj/kernels/%_avx2.o:    ISA := $(ISA_AVX2)
$(B)/obj/kernels/%_avxvnni.o: ISA := $(ISA_AVX2) -mavxvnni
$(B)/obj/kernels/%_avx512.o:  ISA := $(ISA_AVX512) -mprefer-vector-width=512
$(B)/obj/kernels/%_vnni.o:    ISA := $(ISA_AVX512) -mavx512vnni -mprefer-vector-width=512
$(B)/obj/kernels/%_bf16.o:    ISA := $(ISA_AVX512) -mavx512bf16
$(B)/obj/kernels/%_amx.o:     ISA := $(ISA_AVX512) -mavx512bf16 -mamx-tile -mamx-bf16

# onnx.proto of Debian's libonnx-dev, with the fields of functions that it may be too old for, and our own of TensorFlow's
# frozen graphs, compiled by protobuf-c.
PROTO := onnx/onnx kernels/onnx/graphdef
$(B)/gen/onnx/onnx.pb-c.c: /usr/include/onnx/onnx.proto Makefile
	@mkdir -p $(@D); echo "  PROTO $<"
	$(Q)awk 'FNR == NR { known = known || /attribute_proto/; next } \
	    /^message/ { is_node = / NodeProto/; is_function = / FunctionProto/ } \
	    /^}/ && is_node && !known { print "  optional string overload = 8;" } \
	    /^}/ && is_function && !known { print "  repeated AttributeProto attribute_proto = 11;"; \
	        print "  optional string overload = 13;" } /^}/ { is_node = is_function = 0 } { print }' $< $< >$(@D)/onnx.proto
	$(Q)protoc-c --proto_path=$(B)/gen --c_out=$(B)/gen onnx/onnx.proto
$(B)/gen/kernels/onnx/graphdef.pb-c.c: kernels/onnx/graphdef.proto
	@mkdir -p $(@D); echo "  PROTO $<"
	$(Q)protoc-c --c_out=$(B)/gen $<
$(PROTO:%=$(B)/obj/%.pb-c.o): $(B)/obj/%.o: $(B)/gen/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) -std=c11 -g $(OPT) -fPIC -w -c $< -o $@
$(filter-out %/wm_driver.o,$(call objects,kernels)): | $(PROTO:%=$(B)/gen/%.pb-c.c) # that one is gpu_check's, too, which needs none
$(call library,kernels): $(PROTO:%=$(B)/obj/%.pb-c.o)

# Texts that are compiled in, as C strings: the ledger's schema, the page of wiremill serve.
as_string = $(Q)mkdir -p $(@D); sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< >$@
$(B)/gen/%.inc: schema/%
	$(as_string)
$(B)/gen/%.inc: ops/serve/%
	$(as_string)
$(B)/obj/broker/disk/wm_ledger.o: $(B)/gen/ledger.sql.inc
$(B)/obj/ops/serve/wm_live.o: $(B)/gen/page.css.inc $(B)/gen/page.js.inc

# ---- the general engines -----------------------------------------------------------------------
# OpenVINO's and ONNX Runtime's wheels, unpacked; a shared object of ours links each and is opened at run time. Where a
# wheel can be neither found nor fetched, everything else is built.
# fetch: its name and version, its sha256, MB, and which of its files (none: all).
define fetch
	@echo "  FETCH $(1) ($(3) MB, from PyPI)"
	$(Q)rm -rf $(@D) $(@D).tmp; mkdir -p $(@D).tmp
	$(Q)echo '$(1) --hash=sha256:$(2)' >$(@D).tmp/wheel.txt
	$(Q)python3 -m pip -q download --no-deps --only-binary=:all: --python-version 3.11 \
	    --platform manylinux_2_28_x86_64 --require-hashes -r $(@D).tmp/wheel.txt -d $(@D).tmp && \
	    unzip -qo $(@D).tmp/*.whl $(4) -d $(@D).tmp && rm $(@D).tmp/*.whl && mv $(@D).tmp $(@D) && touch $@ || rm -rf $(@D).tmp
endef
OPENVINO_VERSION := 2026.4.1
OPENVINO         ?= build/openvino-$(OPENVINO_VERSION)
OPENVINO_WHEEL_SHA256 := 2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf
OPENVINO_FETCHED      := build/openvino-$(OPENVINO_VERSION)
$(OPENVINO_FETCHED)/.unpacked:
	$(call fetch,openvino==$(OPENVINO_VERSION),$(OPENVINO_WHEEL_SHA256),59)
ONNXRUNTIME_VERSION := 1.32.0
ONNXRUNTIME         ?= build/onnxruntime-$(ONNXRUNTIME_VERSION)
ONNXRUNTIME_WHEEL_SHA256 := 5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d
ONNXRUNTIME_FETCHED      := build/onnxruntime-$(ONNXRUNTIME_VERSION)
ONNXRUNTIME_FILES        := onnxruntime/LICENSE onnxruntime/ThirdPartyNotices.txt \
    onnxruntime/capi/libonnxruntime.so.$(ONNXRUNTIME_VERSION)
$(ONNXRUNTIME_FETCHED)/.unpacked:
	$(call fetch,onnxruntime==$(ONNXRUNTIME_VERSION),$(ONNXRUNTIME_WHEEL_SHA256),28,$(ONNXRUNTIME_FILES))
# What a wheel of wiremill advises to install.
%/wm_engines.o: CPPFLAGS += -DWM_OPENVINO_VERSION='"$(OPENVINO_VERSION)"' -DWM_ONNXRUNTIME_VERSION='"$(ONNXRUNTIME_VERSION)"'
# Its TBB opens a library with RTLD_DEEPBIND, which sanitizers refuse, unless this variable tells TBB of them.
export TBB_ENABLE_SANITIZERS := 1
# Tests call ONNX Runtime in Python, which sends telemetry without this.
export ORT_DISABLE_TELEMETRY := 1
# Libraries that are not built here synchronise where the thread sanitizer cannot see it.
export TSAN_OPTIONS ?= ignore_noninstrumented_modules=1
# The shared object contains what it needs of kernels and schema, and exports one symbol. OpenVINO's libraries
# lie in openvino/ beside it: a link here, copies where `make install` puts them.
OPENVINO_SRC := $(wildcard kernels/openvino/wm_openvino*.c)
OPENVINO_ABI := 2641
LIBRARIES_openvino := $(patsubst %,libopenvino%.so.$(OPENVINO_ABI),_c _onnx_frontend _tensorflow_frontend) \
    libopenvino.so.$(OPENVINO_ABI) libopenvino_intel_cpu_plugin.so libtbb.so.12 libtbbmalloc.so.2 \
    libtbbbind_2_5.so.3 libhwloc.so.15
OPENVINO_H   := openvino/include/openvino/c/openvino.h
$(B)/lib/wm_openvino.so: $(OPENVINO_SRC) $(call libs,kernels) | \
    $(if $(wildcard $(OPENVINO)/$(OPENVINO_H)),,$(filter $(OPENVINO)/%,$(OPENVINO_FETCHED)/.unpacked))
	@mkdir -p $(@D) $(B)/obj; echo "  LINK  $@"
	$(Q)[ -e $(OPENVINO)/$(OPENVINO_H) ] || { echo "WITHOUT OpenVINO, the first general engine: it is not in" \
	    "$(OPENVINO). Type make where PyPI can be reached, or unzip the wheel of openvino $(OPENVINO_VERSION)" \
	    "and type make OPENVINO=ITS_FOLDER. Until then ONNX Runtime alone scores general models."; exit 0; }; \
	ln -sfn "$(abspath $(OPENVINO))/openvino/libs" $(@D)/openvino && \
	$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -isystem $(OPENVINO)/openvino/include \
	    -MMD -MP -MF $(B)/obj/wm_openvino.d -MT $@ -shared $(OPENVINO_SRC) -o $@ \
	    -L$(OPENVINO)/openvino/libs -l:libopenvino_c.so.$(OPENVINO_ABI) \
	    -Wl,-rpath,'$$ORIGIN/openvino' -Wl,--as-needed,--exclude-libs,ALL $(call links,kernels)

# The same with ONNX Runtime, of which only one library is linked, under the name that is written in it.
ONNXRUNTIME_SRC := $(wildcard kernels/onnxruntime/*.c)
LIBRARIES_onnxruntime := libonnxruntime.so.1
ONNXRUNTIME_SO   = $(ONNXRUNTIME)/$(lastword $(ONNXRUNTIME_FILES))
$(B)/lib/wm_onnxruntime.so: $(ONNXRUNTIME_SRC) $(call libs,kernels) | \
    $(if $(wildcard $(ONNXRUNTIME_SO)),,$(filter $(ONNXRUNTIME)/%,$(ONNXRUNTIME_FETCHED)/.unpacked))
	@mkdir -p $(@D)/onnxruntime $(B)/obj; echo "  LINK  $@"
	$(Q)[ -e $(ONNXRUNTIME_SO) ] || { echo "WITHOUT ONNX Runtime, the second general engine: it is not in" \
	    "$(ONNXRUNTIME). Type make where PyPI can be reached, or unzip the wheel of onnxruntime $(ONNXRUNTIME_VERSION)" \
	    "and type make ONNXRUNTIME=ITS_FOLDER. Until then no second engine checks an import."; exit 0; }; \
	ln -sfn "$(abspath $(ONNXRUNTIME_SO))" $(@D)/onnxruntime/$(LIBRARIES_onnxruntime) && \
	$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -MMD -MP -MF $(B)/obj/wm_onnxruntime.d -MT $@ -shared $(ONNXRUNTIME_SRC) -o $@ \
	    -L$(@D)/onnxruntime -l:$(LIBRARIES_onnxruntime) \
	    -Wl,-rpath,'$$ORIGIN/onnxruntime' -Wl,--as-needed,--exclude-libs,ALL $(call links,kernels)

# ---- the library -------------------------------------------------------------------------------
# libwiremill (ops/lib/): contains what it needs of ops, kernels and schema; exports what its map lists. In a bundle
# or a wheel the libraries that it links lie in wiremill/ beside it, without those of the C library.
LIBRARY_SRC := $(wildcard ops/lib/*.c)
LIBRARY_MAP := ops/lib/libwiremill.map
VERSION     := $(shell sed -n 's/^.define WM_VERSION "\(.*\)"/\1/p' schema/wm_limits.h)
# Its name states the oldest C library that it works with (tests/golden/python.t checks that).
WHEEL       := $(B)/wheel/wiremill-$(VERSION)-py3-none-manylinux_2_34_x86_64.whl
$(B)/lib/libwiremill.so.1: $(LIBRARY_SRC:%.c=$(B)/obj/%.o) $(call libs,ops) $(LIBRARY_MAP)
	$(call step,LINK  $@)
	$(Q)$(CC) $(filter-out -rdynamic,$(LDFLAGS)) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(LIBRARY_MAP) \
	    -Wl,-z,defs,-z,nodelete,--exclude-libs,ALL,-rpath,'$$ORIGIN/wiremill' $(filter %.o,$^) $(call links,ops) -o $@
$(B)/lib/libwiremill.so: $(B)/lib/libwiremill.so.1
	$(Q)ln -sfn $(<F) $@

# The CUDA engine, what runs it without a GPU, and what only a GPU can show.
include kernels/cuda/cuda.mk

# ---- tests -------------------------------------------------------------------------------------
# tests/unit/<room>/test_<room>_<what>.c is linked with that room and those below it.
UNIT := $(patsubst %.c,$(B)/tests/%,$(notdir $(wildcard tests/unit/*/test_*.c)))
UNIT := $(filter-out $(if $(CUDA_SO),,%_cudnn %_gpu_real),$(UNIT))
define unit
$(B)/tests/test_$(1)_%: tests/unit/$(1)/test_$(1)_%.c $(call libs,$(1))
	$$(call step,TEST  $$@)
	$(Q)$(CC) $(CPPFLAGS) $$(foreach r,$$(USES_$(1)),$$(FLAGS_$$(r))) $(CFLAGS) -MMD -MP $$(LDFLAGS) \
	    $$(filter %.c %.o,$$^) $(call links,$(1)) -lcmocka -o $$@
endef
$(foreach r,$(ROOMS) gateway,$(eval $(call unit,$(r))))
# That of libwiremill is linked with its files, and plays the engine.
$(B)/tests/test_ops_library: $(LIBRARY_SRC:%.c=$(B)/obj/%.o)
$(B)/tests/test_ops_library: LDFLAGS += -Wl,--wrap=wm_device_score
$(B)/tests/test_gateway_infer: LDFLAGS += -Wl,--wrap=wm_models_need
# With the thread sanitizer only those run that have threads.
UNIT_THREADS := %client %library %reactor %hostile %worker %device %sparse %sparse_engine %hands %together %stream %cuda_module %trial
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
	$(Q)$(CC) $(CPPFLAGS) $(foreach r,$(USES_$(FUZZ_ROOM_$(1))),$(FLAGS_$(r))) $(CFLAGS) $(FUZZ_FLAGS) -MMD -MP $(LDFLAGS) \
	    $$(filter %.c,$$^) $(call links,$(FUZZ_ROOM_$(1))) -lcmocka -o $$@
endef
$(foreach t,$(FUZZ:$(B)/tests/fuzz/%=%),$(eval $(call fuzz,$(t))))

# Programs that measure the inside of one room.
BENCH := $(B)/bench/sparse_bench $(B)/bench/core_bench $(B)/bench/lib_bench $(B)/bench/gateway_bench
define bench
$(B)/bench/$(2): tests/bench/$(2).c $(call libs,$(1))
	$$(call step,BENCH $$@)
	$(Q)$(CC) $(CPPFLAGS) $$(foreach r,$$(USES_$(1)),$$(FLAGS_$$(r))) $(CFLAGS) -MMD -MP $(LDFLAGS) $$< \
	    $(call links,$(1)) -o $$@
endef
$(eval $(call bench,kernels,sparse_bench))
$(eval $(call bench,broker,core_bench))
$(eval $(call bench,gateway,gateway_bench))
$(B)/bench/lib_bench: tests/bench/lib_bench.c $(call libs,kernels) $(B)/lib/libwiremill.so
	$(call step,BENCH $@)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -MMD -MP $(LDFLAGS) $< $(call links,kernels) \
	    -L$(B)/lib -lwiremill "-Wl,-rpath,$(abspath $(B)/lib)" -o $@

# What campaigns under test need beside wiremill's programs; what all tests need.
NEEDED_fault  := $(KILLER) $(FAULT)
NEEDED_e2e    := $(NEEDED_fault) $(VENV)/.made $(B)/gpu/gpu_pipeline $(B)/tests/gpu_networks $(STANDINS) $(B)/bundle/wiremill/bin/wiremill
NEEDED_golden := $(VENV)/.made $(STANDINS) $(WHEEL) $(if $(CUDA_SO),$(B)/tests/any_run)
NEEDED_bench  := $(BENCH) $(B)/tests/fault/hostile $(VENV)/.made
NEEDED        := $(UNIT) $(SIM) $(FUZZ) $(NEEDED_e2e) $(NEEDED_golden)
# `command -v` of several names succeeds when one of them is there.
has            = (for c in $(1); do command -v $$c >/dev/null || exit 1; done)
prove          = WM_BUILD=$(B) prove --timer -v $(if $(T),tests/$(1)/$(T)*.t,tests/$(1))

.PHONY: fuzz fuzz-build test unit e2e golden fault sim sim-cuts sim-proof mutants check proof proof-again soak san tsan sanitized bench
##@ test
test: about-test deps deps-slurm ## everything in minutes: unit, simulated and whole campaigns, golden, faults; installs what is missing
	-@$(call has,xrootd xrdcp curl h5clear) || $(MAKE) --no-print-directory deps PACKAGES='$(ELSEWHERE)'
	@$(AGAIN) check
	@echo "make test: all passed (build $(B)); make lint, san, tsan and proof check more"
check: all $(NEEDED) deps-farm
	+@WM_BUILD=$(B) tests/proof.sh test
proof-again: export FORGET := 1
proof-again: proof ## make proof with all its parts, whatever is green
proof: deps-slurm deps-sge deps-browser deps-gateway deps-mutants all $(NEEDED) deps-farm ## every promise tried at length (an hour; JOBS=n tests at a time); goes on where it was stopped; ends with a table
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
mutants: deps-mutants all $(UNIT) $(SIM) ## change N=60 places of the sources, one at a time, and show which no test notices (SEED=, T=path, JOBS=n)
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

# ---- build and run -----------------------------------------------------------------------------
# deps first, then a make of its own: pkg-config is asked when a Makefile is parsed.
JOBS     ?= $(shell nproc)
AGAIN     = $(MAKE) --no-print-directory -j$(JOBS)
PACKAGES := build-essential pkg-config libczmq-dev libzmq3-dev libmsgpack-dev libsqlite3-dev \
            libhdf5-dev zlib1g-dev libbz2-dev libdeflate-dev libzstd-dev libxxhash-dev libsodium-dev libssl-dev libprotobuf-c-dev \
            protobuf-c-compiler libonnx-dev libyaml-dev libjansson-dev libnghttp2-dev libcmocka-dev \
            python3-pip python3-venv unzip perl ca-certificates
# Remote inputs, and what messages about HDF5 files tell to type: tests without them are skipped.
ELSEWHERE := xrootd-server xrootd-client curl hdf5-tools
# Before they begin, run and test print how long they take and what they install.
HERE        = this machine has $(shell nproc)
fetches     = $(if $(filter none,$(1))$(wildcard $(1)),,echo "  it fetches $(2) ($(3) MB, from PyPI) to build/";)
FETCHES     = $(if $(filter 1,$(CUDA)),$(call fetches,$(NVRTC),NVRTC $(NVRTC_VERSION),93))$(call \
    fetches,$(OPENVINO),OpenVINO $(OPENVINO_VERSION),59)$(call fetches,$(ONNXRUNTIME),ONNX Runtime $(ONNXRUNTIME_VERSION),28)
DEBIAN      = echo "  it installs Debian packages that are missing, as root or by sudo (make deps does only that)"
.PHONY: about-run about-test deps-slurm
about-run:
	@echo "make run: builds wiremill, makes events, scores them with a trained model: $(if \
	    $(wildcard $(B)/bin/wiremill),half a minute,about 2 minutes) on 2 cores ($(HERE))$(if \
	    $(wildcard $(B)/bin/wiremill),,, without what is fetched)"
	@$(FETCHES) $(DEBIAN)
about-test:
	@echo "make test: builds and tries everything: about 15 minutes on 2 cores ($(HERE))"
	@$(FETCHES) $(DEBIAN)
	@[ -e $(VENV)/.made ] || echo "  it installs $(shell sed 's/==.*//' tests/requirements.txt | paste -sd' ' | \
	    sed 's/ /, /g') for Python to $(VENV) (from PyPI)"

.PHONY: deps run demo lint format install clean help
##@ build and run
deps: ## install the Debian packages that are missing (as root, or by sudo without a password)
	@missing=; for p in $(PACKAGES); do \
	    dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || missing+=" $$p"; done; \
	[ -n "$$missing" ] || exit 0; \
	line="apt-get update -q && apt-get -o DPkg::Lock::Timeout=600 install -qy --no-install-recommends$$missing"; \
	if [ "$$(id -u)" = 0 ]; then root=; elif sudo -n true 2>/dev/null; then root='sudo -n'; \
	else echo "packages are missing and this user may not install them; type"; echo "  sudo sh -c '$$line'"; exit 1; fi; \
	echo "  APT  $$missing"; $$root sh -c "export DEBIAN_FRONTEND=noninteractive; $$line" >/dev/null

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
# The parser of tests/mutants.py.
.PHONY: deps-mutants
deps-mutants: $(VENV)/.made
	-@[ $(VENV)/.mutants -nt tests/requirements-mutants.txt ] || { echo "  PIP   $$(paste -sd' ' tests/requirements-mutants.txt)"; \
	    $(VENV)/bin/python -m pip -q install -r tests/requirements-mutants.txt && touch $(VENV)/.mutants; }
.PHONY: deps-peer
deps-peer: ## MLServer, a peer of the gateway: make bench ONLY=gateway measures it where it is installed
	@[ build/venv-peer/.made -nt tests/requirements-peer.txt ] || { echo "  PIP   tests/requirements-peer.txt"; \
	    rm -rf build/venv-peer; python3 -m venv build/venv-peer && build/venv-peer/bin/python -m pip -q install \
	    -r tests/requirements-peer.txt && touch build/venv-peer/.made; }
# The clients of Triton that tests/e2e/triton.t runs, each version in a Python of its own: build/venv-gateway, -2.48, ...
CLIENTS := $(patsubst tests/requirements-%.txt,build/venv-%,$(wildcard tests/requirements-gateway*.txt))
.PHONY: deps-gateway
deps-gateway:
	-@$(call has,h2load) && [ -e /usr/lib/x86_64-linux-gnu/libb64.so.0d ] || \
	    $(MAKE) --no-print-directory deps PACKAGES='nghttp2-client libb64-0d'
	-@$(foreach v,$(CLIENTS),[ $v/.made -nt $(v:build/venv-%=tests/requirements-%.txt) ] || { \
	    echo "  PIP   $(v:build/venv-%=tests/requirements-%.txt)"; rm -rf $v; python3 -m venv $v && $v/bin/python -m pip -q install \
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

# tests/e2e/servepage.t opens the page of wiremill serve in a Chromium, 100 MB; only make proof does.
.PHONY: deps-browser
deps-browser:
	-@command -v chromium >/dev/null || $(MAKE) --no-print-directory deps PACKAGES=chromium

run: about-run deps ## install what is missing, build, make events, score them, compare with the truth
	@$(AGAIN) all
	@$(AGAIN) demo

# The demonstration starts fresh each time: only its events are kept. The model is that of ops/train.
DEMO := build/demo
$(DEMO)/events-%.h5: | $(B)/bin/wiremill $(B)/bin/wiremill-producer
	@mkdir -p $(@D); echo "  SYNTH $@"
	$(Q)$(B)/bin/wiremill synth --events 2 --seed $* --run $* --output $@
demo: all $(DEMO)/events-1.h5 $(DEMO)/events-2.h5
	@rm -rf $(DEMO)/out $(DEMO)/out.wiremill $(DEMO)/event.html $(DEMO)/report.html
	$(B)/bin/wiremill run --model synthetic --input '$(DEMO)/events-*.h5' --output $(DEMO)/out
	@echo; $(B)/bin/wiremill truth $(DEMO)/events-[12].h5 $(DEMO)/out/*.scores.h5
	@echo; echo "engines: exact-sparse CPU and reference; for any other model $(if \
	    $(wildcard $(B)/lib/wm_openvino.so),OpenVINO,no OpenVINO) and $(if \
	    $(wildcard $(B)/lib/wm_onnxruntime.so),ONNX Runtime,no ONNX Runtime); $(if \
	    $(CUDA_SO),CUDA (--engine cuda; see make gpu-check),no CUDA engine: no headers of CUDA with cuDNN)"
	@$(B)/bin/wiremill show $(DEMO)/out/events-1.scores.h5 --output $(DEMO)/event.html && \
	    echo && echo "open in a browser: $(abspath $(DEMO))/event.html (planes of one event: hits by score, and by truth)"
	@$(B)/bin/wiremill report $(DEMO)/out --pictures 1 --output $(DEMO)/report.html && \
	    echo "                   $(abspath $(DEMO))/report.html (the campaign on one page)"

# The model again, from nothing, with tests' Python; it replaces the stored one only by hand (ops/train/README.md).
.PHONY: train
train: all $(VENV)/.made ## train the demonstration's model again on synthetic events, to build/train (minutes)
	$(VENV)/bin/python ops/train/train.py --bin $(B)/bin

PREFIX ?= /usr/local
install: all ## programs to $(PREFIX)/bin, engines and the libraries they need to $(PREFIX)/lib
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib
	install $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	$(if $(CUDA_SO),install $(CUDA_SO) $(DESTDIR)$(PREFIX)/lib)
install: $(GENERAL:%=install-%)
.PHONY: install-openvino install-onnxruntime
install-openvino install-onnxruntime: install-%: all
	[ ! -e $(B)/lib/wm_$*.so ] || { install -d $(DESTDIR)$(PREFIX)/lib/$* && \
	    install $(LIBRARIES_$*:%=$(B)/lib/$*/%) $(DESTDIR)$(PREFIX)/lib/$* && \
	    install $(B)/lib/wm_$*.so $(DESTDIR)$(PREFIX)/lib; }

# The programs print their man pages and bash completion themselves, from the tables of their options.
DOC     := $(B)/doc
MANDIR  := share/man/man1
BASHDIR := share/bash-completion/completions
UNITDIR := lib/systemd/system
UNITS   := wiremill-broker@.service wiremill-worker@.service \
                 wiremill-gateway@.service wiremill-gateway-grpc.socket wiremill-gateway-http.socket
DATADIR := share/wiremill
DATA    := ops/serve/grafana.json ops/serve/alerts.yml $(MODEL)
install: install-lib install-doc install-units install-data
.PHONY: doc install-lib install-doc install-units install-data uninstall
install-lib: $(B)/lib/libwiremill.so
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 ops/lib/wiremill.h $(DESTDIR)$(PREFIX)/include
	install $(B)/lib/libwiremill.so.1 $(DESTDIR)$(PREFIX)/lib
	ln -sfn libwiremill.so.1 $(DESTDIR)$(PREFIX)/lib/libwiremill.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' ops/lib/wiremill.pc >$(DESTDIR)$(PREFIX)/lib/pkgconfig/wiremill.pc
doc: $(DOC)/.made ## man pages and bash completion, to $(B)/doc
$(DOC)/.made: $(PROGRAMS)
	$(Q)rm -rf $(DOC) && mkdir -p $(DOC)/man1 $(DOC)/bash
	$(Q){ $(B)/bin/wiremill --print-pages && $(B)/bin/wiremill-worker --print-pages; } | while read -r page program verb; do \
	    $(B)/bin/$$program --print-man $$verb >$(DOC)/man1/$$page.1 || exit 1; done
	$(Q)for program in $(PROGRAMS); do $$program --print-completion || exit 1; done >$(DOC)/bash/wiremill
	$(Q)touch $@
install-doc: doc
	install -d $(DESTDIR)$(PREFIX)/$(MANDIR) $(DESTDIR)$(PREFIX)/$(BASHDIR)
	install -m 644 $(DOC)/man1/*.1 $(DESTDIR)$(PREFIX)/$(MANDIR)
	install -m 644 $(DOC)/bash/wiremill $(DESTDIR)$(PREFIX)/$(BASHDIR)
	for program in $(filter-out wiremill,$(notdir $(PROGRAMS))); do \
	    ln -sf wiremill $(DESTDIR)$(PREFIX)/$(BASHDIR)/$$program; done
install-units:
	install -d $(DESTDIR)$(PREFIX)/$(UNITDIR)
	for unit in $(UNITS); do \
	    sed 's|@PREFIX@|$(PREFIX)|' ops/systemd/$$unit >$(DESTDIR)$(PREFIX)/$(UNITDIR)/$$unit || exit 1; done
install-data:
	install -d $(DESTDIR)$(PREFIX)/$(DATADIR)
	install -m 644 $(DATA) $(DESTDIR)$(PREFIX)/$(DATADIR)
uninstall: ## remove what install put there (the same DESTDIR and PREFIX)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(notdir $(PROGRAMS)))
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/lib/,wm_cuda.so $(foreach e,openvino onnxruntime,wm_$e.so $(LIBRARIES_$e:%=$e/%)))
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,lib/libwiremill.so lib/libwiremill.so.1 lib/pkgconfig/wiremill.pc include/wiremill.h)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/$(UNITDIR)/,$(UNITS)) $(addprefix $(DESTDIR)$(PREFIX)/$(DATADIR)/,$(notdir $(DATA)))
	rm -f $(DESTDIR)$(PREFIX)/$(MANDIR)/wiremill.1 $(DESTDIR)$(PREFIX)/$(MANDIR)/wiremill-*.1
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/$(BASHDIR)/,$(notdir $(PROGRAMS)))
	-rmdir $(addprefix $(DESTDIR)$(PREFIX)/,lib/openvino lib/onnxruntime $(DATADIR)) 2>/dev/null

# A folder that runs from any path, without root and without a library of the host (ops/bundle/bundle.sh).
BUNDLE := $(B)/bundle
.PHONY: bundle
bundle: $(BUNDLE)/wiremill.tar.gz ## wiremill with its own libraries, for CVMFS and containers, to $(B)/bundle
	@echo "$(BUNDLE)/wiremill: $$(du -sh $(BUNDLE)/wiremill | cut -f1); packed, $<: $$(du -h $< | cut -f1)"
$(BUNDLE)/wiremill.tar.gz: $(BUNDLE)/wiremill/bin/wiremill
	$(Q)tar -C $(BUNDLE) --sort=name --owner=0 --group=0 --numeric-owner -cf - wiremill | gzip -1 >$@.part && mv $@.part $@
$(BUNDLE)/launch: ops/bundle/launch.c
	$(call step,LINK  $@)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -Os $(WARN) -static -s $< -o $@
$(BUNDLE)/wiremill/bin/wiremill: ops/bundle/bundle.sh $(BUNDLE)/launch $(PROGRAMS) $(DOC)/.made $(B)/lib/libwiremill.so.1 $(MODEL) $(CUDA_SO) \
    $(GENERAL:%=$(B)/lib/wm_%.so)
	$(call step,BUNDLE $(BUNDLE)/wiremill)
	$(Q)rm -rf $(BUNDLE)/installed && $(MAKE) --no-print-directory -s install DESTDIR= PREFIX="$(abspath $(BUNDLE)/installed)"
	$(Q)ops/bundle/bundle.sh $(B) $(BUNDLE)/installed $(BUNDLE)/launch $(BUNDLE)/wiremill || { rm -rf $(BUNDLE)/wiremill; exit 1; }
	$(Q)rm -rf $(BUNDLE)/installed
# The Python package of ops/python with the bundle's libwiremill: pip installs it without a compiler.
.PHONY: wheel
wheel: $(WHEEL) ## the Python package, for pip, to $(B)/wheel
	@echo "pip install $(WHEEL)"
$(WHEEL): ops/python/build_wheel.py $(wildcard ops/python/wiremill/*) $(BUNDLE)/wiremill/bin/wiremill
	$(call step,WHEEL $@)
	$(Q)python3 $< $(BUNDLE)/wiremill $(VERSION) $@
clean: ## remove what was built (not what was fetched)
	rm -rf build/release build/address-undefined build/thread build/fuzz $(DEMO)

##@ before a commit
lint: ## the house rules that a machine can check
	@tests/lint.sh
format: ## clang-format on all of ours
	$(Q)find $(ROOMS) tests -name '*.[ch]' -print0 | xargs -0 clang-format -i

# The targets of another makefile than this one need a GPU.
help: ## this list
	@awk -F ':.*## ' 'FNR == 1 { group = NR == 1 ? "" : "on a GPU" } \
	    /^##@ / { group = substr ($$0, 5) } \
	    /^[a-z0-9-]+:.*## / { if (!(group in lines)) groups[++n] = group; \
	        lines[group] = lines[group] sprintf ("  make %-9s %s\n", $$1, $$2) } \
	    END { for (i = 1; i <= n; i++) printf "%s\n%s\n", groups[i], lines[groups[i]] }' \
	    $(filter-out %.d,$(MAKEFILE_LIST))
	@echo "variables: B=folder V=1 SAN=... T=prefix JOBS=n OPENVINO=dir ONNXRUNTIME=dir PREFIX=dir"

DEPENDENCIES := $(shell find $(B) -name '*.d' 2>/dev/null)
-include $(DEPENDENCIES)
# An object without its list of headers (a build folder that was copied in part) is made again.
.PHONY: again
$(filter-out %.pb-c.o $(DEPENDENCIES:.d=.o),$(shell find $(B)/obj -name '*.o' 2>/dev/null)): again
