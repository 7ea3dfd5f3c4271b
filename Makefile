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
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wvla $(if $(filter gpu-check,$(MAKECMDGOALS)),,-Werror) \
            $(if $(SAN),-Wno-format-truncation -Wno-conversion) # sanitizers hide from gcc what bounds a value
CPPFLAGS := -I. -I$(B)/gen -D_GNU_SOURCE
CFLAGS   := -std=c11 -g $(OPT) $(WARN) -fPIC -pthread
LDFLAGS  := $(if $(SAN),-fsanitize=$(SAN)) -pthread -rdynamic

# ---- rooms -------------------------------------------------------------------------------------
ROOMS := schema kernels broker producer gpuworker ops
PARTS_schema  := base
PARTS_kernels := import sparse# openvino and cuda are shared objects of their own
PARTS_ops     := bench
sources = $(filter-out $(1)/main.c,$(wildcard $(1)/*.c $(PARTS_$(1):%=$(1)/%/*.c)))
objects = $(patsubst %.c,$(B)/obj/%.o,$(call sources,$(1)))
library = $(B)/lib/lib$(1).a

# What each room's libraries come from (pkg-config names); a room may use what is listed here only.
PKG_schema    := $(MSGPACK) libczmq libzmq libzstd libxxhash libsodium libcrypto
PKG_kernels   := yaml-0.1 libprotobuf-c libsodium libcrypto libxxhash
PKG_broker    := libczmq libzmq sqlite3 libxxhash libsodium libcrypto jansson
PKG_producer  := libczmq libzmq hdf5 libxxhash libsodium yaml-0.1
PKG_gpuworker := libczmq libzmq libsodium
PKG_ops       := libczmq libzmq jansson libsodium hdf5

# Libraries a room's program links, in order (the arrows of the architecture, checked by make lint).
USES_schema    := schema
USES_kernels   := kernels schema
USES_broker    := broker schema
USES_producer  := producer kernels schema
USES_gpuworker := gpuworker kernels schema
USES_ops       := ops kernels schema

$(foreach r,$(ROOMS),$(eval FLAGS_$(r) := $(call PKG,--cflags,$(PKG_$(r)))))
libs = $(foreach r,$(USES_$(1)),$(call library,$(r))) 
links = -Wl,--as-needed,--start-group $(call libs,$(1)) -Wl,--end-group \
        $(call PKG,--libs,$(sort $(foreach r,$(USES_$(1)),$(PKG_$(r))))) -lm -ldl

PROGRAM_broker    := wiremill-broker
PROGRAM_producer  := wiremill-producer
PROGRAM_gpuworker := wiremill-worker
PROGRAM_ops       := wiremill
PROGRAMS := $(foreach r,broker producer gpuworker ops,$(if $(wildcard $(r)/main.c),$(B)/bin/$(PROGRAM_$(r))))

.DEFAULT_GOAL := all
.PHONY: all
##@ build and run
all: $(PROGRAMS) $(if $(wildcard kernels/openvino/wm_openvino.c),$(B)/lib/wm_openvino.so) ## build everything

define room
$(call library,$(1)): $(call objects,$(1))
	$(Q)mkdir -p $$(@D); rm -f $$@; ar rcs $$@ $$^
$(B)/obj/$(1)/%.o: $(1)/%.c
	$$(call step,CC    $$<)
	$(Q)$(CC) $(CPPFLAGS) $$(FLAGS_$(1)) $(CFLAGS) $$(ISA) $$(MATH) -MMD -MP -c $$< -o $$@
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))

define program
$(B)/bin/$(PROGRAM_$(1)): $(B)/obj/$(1)/main.o $(call libs,$(1))
	$$(call step,LINK  $$@)
	$(Q)$(CC) $(LDFLAGS) $$< $(call links,$(1)) -o $$@
endef
$(foreach r,broker producer gpuworker ops,$(eval $(call program,$(r))))

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

# onnx.proto of Debian's libonnx-dev, and our own of TensorFlow's frozen graphs, compiled by protobuf-c.
PROTO := onnx/onnx kernels/import/graphdef
$(B)/gen/onnx/onnx.pb-c.c: /usr/include/onnx/onnx.proto
	@mkdir -p $(@D); echo "  PROTO $<"
	$(Q)protoc-c --proto_path=/usr/include --c_out=$(B)/gen onnx/onnx.proto
$(B)/gen/kernels/import/graphdef.pb-c.c: kernels/import/graphdef.proto
	@mkdir -p $(@D); echo "  PROTO $<"
	$(Q)protoc-c --c_out=$(B)/gen $<
$(PROTO:%=$(B)/obj/%.pb-c.o): $(B)/obj/%.o: $(B)/gen/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) -std=c11 -g $(OPT) -fPIC -w -c $< -o $@
$(call objects,kernels): | $(PROTO:%=$(B)/gen/%.pb-c.c)
$(call library,kernels): $(PROTO:%=$(B)/obj/%.pb-c.o)

# The ledger's schema, as a C string.
$(B)/gen/ledger.sql.inc: schema/ledger.sql
	$(Q)mkdir -p $(@D); sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< >$@
$(B)/obj/broker/wm_ledger.o: $(B)/gen/ledger.sql.inc

# ---- the general engine ------------------------------------------------------------------------
# OpenVINO's wheel, unpacked, and a shared object of ours that links it and is opened at run time. Where the wheel can be
# neither found nor fetched, everything else is built, and a model that needs OpenVINO is refused with the advice below.
OPENVINO_VERSION := 2026.4.1
OPENVINO         ?= build/openvino-$(OPENVINO_VERSION)
OPENVINO_WHEEL_SHA256 := 2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf
OPENVINO_FETCHED      := build/openvino-$(OPENVINO_VERSION)
$(OPENVINO_FETCHED)/.unpacked:
	@echo "  FETCH OpenVINO $(OPENVINO_VERSION) (59 MB, from PyPI)"
	$(Q)rm -rf $(@D) $(@D).tmp; mkdir -p $(@D).tmp
	$(Q)echo 'openvino==$(OPENVINO_VERSION) --hash=sha256:$(OPENVINO_WHEEL_SHA256)' >$(@D).tmp/wheel.txt
	$(Q)python3 -m pip -q download --no-deps --only-binary=:all: --python-version 3.11 \
	    --platform manylinux_2_28_x86_64 --require-hashes -r $(@D).tmp/wheel.txt -d $(@D).tmp && \
	    unzip -qo $(@D).tmp/*.whl -d $(@D).tmp && rm $(@D).tmp/*.whl && mv $(@D).tmp $(@D) && touch $@ || rm -rf $(@D).tmp
# Its TBB opens a library with RTLD_DEEPBIND, which sanitizers refuse, unless this variable tells TBB of them.
export TBB_ENABLE_SANITIZERS := 1
# Libraries that are not built here synchronise where the thread sanitizer cannot see it.
export TSAN_OPTIONS ?= ignore_noninstrumented_modules=1
# The shared object contains what it needs of kernels and schema, and exports one symbol. OpenVINO's libraries
# lie in openvino/ beside it: a link here, copies where `make install` puts them.
OPENVINO_SRC := $(wildcard kernels/openvino/wm_openvino*.c)
OPENVINO_ABI := 2641
OPENVINO_LIB := $(patsubst %,libopenvino%.so.$(OPENVINO_ABI),_c _onnx_frontend _tensorflow_frontend) \
    libopenvino.so.$(OPENVINO_ABI) libopenvino_intel_cpu_plugin.so libtbb.so.12 libtbbmalloc.so.2 \
    libtbbbind_2_5.so.3 libhwloc.so.15
OPENVINO_H   := openvino/include/openvino/c/openvino.h
$(B)/lib/wm_openvino.so: $(OPENVINO_SRC) $(call libs,kernels) | \
    $(if $(wildcard $(OPENVINO)/$(OPENVINO_H)),,$(filter $(OPENVINO)/%,$(OPENVINO_FETCHED)/.unpacked))
	@mkdir -p $(@D) $(B)/obj; echo "  LINK  $@"
	$(Q)[ -e $(OPENVINO)/$(OPENVINO_H) ] || { echo "WITHOUT the general engine: there is no OpenVINO in" \
	    "$(OPENVINO). Type make where PyPI can be reached, or unzip the wheel of openvino $(OPENVINO_VERSION)" \
	    "and type make OPENVINO=ITS_FOLDER. Until then models outside the EmTrkMichelId family are refused."; exit 0; }; \
	ln -sfn $(abspath $(OPENVINO))/openvino/libs $(@D)/openvino && \
	$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -isystem $(OPENVINO)/openvino/include -MMD -MP -MF $(B)/obj/wm_openvino.d \
	    -MT $@ -shared $(OPENVINO_SRC) -o $@ -L$(OPENVINO)/openvino/libs -l:libopenvino_c.so.$(OPENVINO_ABI) \
	    -Wl,-rpath,'$$ORIGIN/openvino' -Wl,--as-needed,--exclude-libs,ALL $(call links,kernels)

# ---- the CUDA engine ---------------------------------------------------------------------------
# Built where nvcc of CUDA 13 and cuDNN's headers are; a shared object opened at run time, which
# opens cuDNN and cuBLASLt itself. CUDA=0 leaves it out, sanitizers too. The stand-in's test needs none of it.
NVCC      ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
CUDART    := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(CUDA_HOME)/lib64 $(CUDA_HOME)/lib $(CUDA_HOME)/targets/x86_64-linux/lib /usr/local/cuda/lib64)))
CUDNN_H   := $(dir $(firstword $(wildcard $(addsuffix /cudnn.h,$(CUDA_HOME)/include /usr/include /usr/include/x86_64-linux-gnu))))
CUDNN_H   := $(or $(CUDNN_H),$(if $(NVCC),$(shell python3 -c 'import nvidia.cudnn as c; print (list (c.__path__)[0] + "/include")' 2>/dev/null)))
CUDA      ?= $(if $(and $(NVCC),$(CUDART),$(CUDNN_H),$(shell $(NVCC) --version | grep 'release 1[3-9]')),1,0)
CUDA_ARCH ?= 75 80 86 89 90 100 120
CUDA_LAST := $(lastword $(CUDA_ARCH))
CUDA_GEN   = $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_$(CUDA_LAST),code=compute_$(CUDA_LAST)
CUDA_REAL := wm_gpu_real wm_gpu_cudnn wm_gpu_cublas wm_gpu_library wm_cuda wm_cuda_base wm_cuda_chunks wm_cuda_v1 wm_cuda_windows wm_cuda_windows_open wm_cuda_pack wm_cuda_curve wm_cuda_net wm_cuda_plane
CUDA_OBJ   = $(CUDA_REAL:%=$(B)/obj/kernels/cuda/%.o) $(B)/obj/kernels/cuda/wm_gpu_kernels.o
CUDA_ANY   = $(addprefix $(B)/obj/kernels/cuda/,wm_any.o wm_any_place.o wm_any_net.o wm_any_ops.o)
$(CUDA_ANY): | $(B)/gen/onnx/onnx.pb-c.c
CUDA_LINK  = $(CUDART) -lrt -ldl -lm -pthread
CUDA_SO   := $(if $(filter 1,$(CUDA)),$(if $(SAN),,$(B)/lib/wm_cuda.so))
all: $(CUDA_SO)
$(B)/obj/kernels/cuda/%.o: kernels/cuda/%.c
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) -isystem $(CUDA_HOME)/include -isystem $(CUDNN_H) $(CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
$(B)/obj/kernels/cuda/%.o: kernels/cuda/%.cu tests/gpu/ptxas.sh
	@mkdir -p $(@D); echo "  NVCC  $< for $(CUDA_ARCH)"
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -I. $(CUDA_GEN) -t 2 --Werror all-warnings -Xptxas -v -Xcompiler -fPIC,-fno-exceptions,-fno-threadsafe-statics,-fvisibility=hidden \
	    -MMD -MF $(@:.o=.d) -MT $@ -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }
	$(Q)tests/gpu/ptxas.sh $(@:.o=.ptxas) || { rm -f $@; exit 1; }
$(B)/lib/wm_cuda.so: $(B)/obj/kernels/cuda/wm_cuda_module.o $(CUDA_OBJ) $(CUDA_ANY) $(call libs,kernels)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -shared $(filter %.o,$^) -o $@ -Wl,-z,defs,--as-needed,--exclude-libs,ALL $(call links,kernels) $(CUDA_LINK)

# The engine on the stand-in, with mistakes that can be planted.
STANDIN := $(addprefix kernels/cuda/,wm_gpu_fake.c wm_gpu_fake_block.c wm_gpu_fake_math.c wm_gpu_fake_any.c wm_cuda.c wm_cuda_base.c wm_cuda_chunks.c wm_cuda_v1.c wm_cuda_windows.c wm_cuda_windows_open.c wm_cuda_pack.c wm_cuda_curve.c wm_cuda_net.c wm_cuda_plane.c wm_gpu_library.c) tests/gpu/gpu_net.c
$(B)/tests/test_kernels_cuda $(B)/tests/test_kernels_cuda_plane $(B)/tests/test_kernels_cuda_windows: $(B)/tests/%: tests/unit/%.c $(STANDIN) $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh tests/gpu/*.h) $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) -DWM_PLANTS $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(filter %.c,$^) $(call links,kernels) -lcmocka -o $@

# A whole event through it: with the producer, which reads events.
$(B)/tests/test_kernels_cuda_event: tests/unit/test_kernels_cuda_event.c tests/gpu/gpu_event.c $(STANDIN) $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh tests/gpu/*.h) $(call libs,producer)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(foreach r,$(USES_producer),$(FLAGS_$(r))) $(CFLAGS) $(LDFLAGS) $(filter %.c,$^) $(call links,producer) -lcmocka -o $@

# What only a GPU can show: one program that needs nothing of ours beside it, and no package either.
CHECK_SRC := $(addprefix tests/gpu/,gpu_check.c gpu_any.c gpu_apart.c gpu_bench.c gpu_ceiling.c gpu_event.c gpu_floor.c gpu_net.c) \
             $(addprefix producer/,wm_synth_physics.c wm_synth_detector.c wm_event.c wm_runs.c wm_cut.c) $(addprefix kernels/,wm_image.c wm_plane.c \
             wm_range.c wm_reference.c wm_spec_preset.c wm_spec_zero.c wm_view.c cuda/wm_any.c cuda/wm_any_place.c cuda/wm_gpu_fake.c cuda/wm_gpu_fake_block.c cuda/wm_gpu_fake_math.c \
             cuda/wm_gpu_fake_any.c) schema/wm_batch_memory.c schema/base/wm_fault.c
$(B)/gpu/gpu_check: $(CHECK_SRC) $(CUDA_OBJ) $(wildcard tests/gpu/*.h)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -ffunction-sections -fdata-sections $(filter %.c %.o,$^) -o $@ -Wl,--gc-sections $(CUDA_LINK)
	$(Q)tests/gpu/ptxas.sh $(B)/obj/kernels/cuda/wm_gpu_kernels.ptxas >$(@D)/ptxas
	$(Q)git log -1 --format=', of %h of %cs' >$(@D)/version 2>/dev/null || : >$(@D)/version
# The whole pipeline goes along where it is built: programs, and the libraries that a machine may lack.
$(B)/gpu/gpu_pipeline: tests/gpu/gpu_pipeline.c tests/gpu/gpu_event.c tests/gpu/gpu_event.h $(call libs,producer)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(foreach r,$(USES_producer),$(FLAGS_$(r))) $(CFLAGS) $(LDFLAGS) $(filter %.c,$^) -Wl,--as-needed $(call links,producer) -o $@
# glibc and the C++ library are the machine's own.
$(B)/gpu/wiremill-gpu-check.tar.gz: $(B)/gpu/gpu_check $(B)/gpu/gpu_pipeline $(PROGRAMS) $(CUDA_SO) tests/gpu/gpu_check.sh tests/gpu/gpu_torch.py
	$(Q)cp tests/gpu/gpu_check.sh tests/gpu/gpu_torch.py $(@D); rm -rf $(@D)/bin $(@D)/lib; mkdir $(@D)/bin $(@D)/lib
	$(Q)cp $(filter-out %-producer,$(PROGRAMS)) $(@D)/bin; cp $(CUDA_SO) $(@D)/lib
	$(Q)ldd $(@D)/bin/* $(@D)/gpu_pipeline | awk '$$2 == "=>" && $$3 !~ "/(lib(c|m|dl|rt|pthread|resolv).so|libstdc..|libgcc_s)" { print $$3 }' | sort -u | xargs -I{} cp -L {} $(@D)/lib
	$(Q)strip $(@D)/bin/* $(@D)/gpu_pipeline
	$(Q)tar -C $(@D) -czf $@ gpu_check gpu_check.sh gpu_torch.py gpu_pipeline ptxas version bin lib
	$(Q)rm -rf $(@D)/bin $(@D)/lib
.PHONY: gpu-check bundle
GPU_ALL := $(if $(CUDA_SO),$(B)/gpu/gpu_check $(if $(shell pkg-config --exists $(foreach r,$(ROOMS),$(PKG_$(r))) 2>/dev/null && echo y),$(B)/gpu/gpu_pipeline $(PROGRAMS) $(CUDA_SO)))
gpu-check: $(GPU_ALL) ## everything that needs a GPU; prints a report, and keeps it as $(B)/gpu/RESULTS.md
	@$(if $(CUDA_SO),cp tests/gpu/gpu_check.sh tests/gpu/gpu_torch.py $(<D) && WM_BIN=$(abspath $(B))/bin $(<D)/gpu_check.sh,echo "gpu-check needs nvcc and cuDNN's headers to build; make bundle on a machine that has them makes one that runs anywhere"; exit 1)
bundle: $(if $(CUDA_SO),$(B)/gpu/wiremill-gpu-check.tar.gz) ## gpu-check as an archive for a machine without nvcc: unpack, ./gpu_check.sh
	@$(if $(CUDA_SO),du -h $<,echo "bundle needs nvcc and cuDNN's headers"; exit 1)

$(B)/tests/test_kernels_cuda_any: tests/unit/test_kernels_cuda_any.c $(addprefix kernels/cuda/,wm_any.c wm_any_place.c wm_any_net.c wm_any_ops.c) $(STANDIN) $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh tests/gpu/*.h) $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) -DWM_PLANTS $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) $(LDFLAGS) $(filter %.c,$^) $(call links,kernels) -lcmocka -o $@

# Any CNN through the engine's steps, on the stand-in; cuDNN only where plans are asked for.
$(B)/tests/any_run: tests/gpu/any_run.c $(addprefix kernels/cuda/,wm_any.c wm_any_place.c wm_any_net.c wm_any_ops.c) $(filter %fake.c %fake_block.c %fake_math.c %fake_any.c %library.c %base.c %chunks.c,$(STANDIN)) \
    $(B)/obj/kernels/cuda/wm_gpu_cudnn.o $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh tests/gpu/*.h) $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o,$^) $(call links,kernels) -o $@

# The CUDA engine on the stand-in, as the shared object that a worker opens: whole campaigns without a GPU.
$(B)/tests/wm_cuda_standin.so: kernels/cuda/wm_cuda_module.c $(addprefix kernels/cuda/,wm_any.c wm_any_place.c wm_any_net.c wm_any_ops.c) $(filter-out tests/%,$(STANDIN)) $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh) $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) -Dwm_gpu_real=wm_gpu_stand_in $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -fvisibility=hidden -shared $(filter %.c,$^) -o $@ -Wl,-z,defs,--exclude-libs,ALL $(call links,kernels)

# cuDNN's plans for GPUs that are not here, by the real table.
$(B)/tests/test_kernels_cudnn: tests/unit/test_kernels_cudnn.c $(addprefix $(B)/obj/kernels/cuda/,wm_gpu_real.o wm_gpu_cudnn.o wm_gpu_cublas.o wm_gpu_library.o wm_gpu_kernels.o)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $^ $(CUDA_LINK) -lcmocka -o $@

# ---- tests -------------------------------------------------------------------------------------
# tests/unit/test_<room>_<what>.c is linked with that room and those below it.
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
UNIT := $(filter-out $(if $(CUDA_SO),,%_cudnn),$(UNIT))
define unit
$(B)/tests/test_$(1)_%: tests/unit/test_$(1)_%.c $(call libs,$(1))
	$$(call step,TEST  $$@)
	$(Q)$(CC) $(CPPFLAGS) $$(foreach r,$$(USES_$(1)),$$(FLAGS_$$(r))) $(CFLAGS) -MMD -MP $(LDFLAGS) $$< \
	    $(call links,$(1)) -lcmocka -o $$@
endef
$(foreach r,$(ROOMS),$(eval $(call unit,$(r))))
# With the thread sanitizer only those run that have threads.
UNIT_THREADS := %client %reactor %worker %device %sparse %sparse_engine
UNIT_RUN     := $(if $(filter thread,$(SAN)),$(filter $(UNIT_THREADS),$(UNIT)),$(UNIT))

# Oracles for the golden tests; nothing of wiremill itself needs Python.
VENV := build/venv
$(VENV)/.made: tests/requirements.txt
	@echo "  VENV  $(VENV)"
	$(Q)rm -rf $(VENV) && python3 -m venv $(VENV) && $(VENV)/bin/python -m pip -q install -r $< && touch $@

# The simulator: the real core, journal and ledger in virtual time; the end of a process is caught.
SIM := $(B)/tests/sim
SIM_WRAPS := _exit wm_journal_append wm_journal_sync wm_journal_read wm_ledger_apply wm_core_durable \
             wm_core_disk_full worker_dispatch_tail wm_ledger_catch_up rename
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
$(B)/tests/fault/hostile: tests/fault/hostile.c $(call libs,broker)
	$(call step,TEST  $@)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_broker) $(CFLAGS) $(LDFLAGS) $< $(call links,broker) -o $@
$(B)/tests/fault/%: tests/fault/%.c
	$(call step,TEST  $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $< -o $@
$(B)/tests/fault/%.so: tests/fault/%.c
	$(call step,TEST  $@)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -fsanitize%,$(CFLAGS)) -shared $< -o $@ -ldl

# Programs that measure the inside of one room.
BENCH := $(B)/bench/sparse_bench $(B)/bench/core_bench
define bench
$(B)/bench/$(2): tests/bench/$(2).c $(call libs,$(1))
	$$(call step,BENCH $$@)
	$(Q)$(CC) $(CPPFLAGS) $$(foreach r,$$(USES_$(1)),$$(FLAGS_$$(r))) $(CFLAGS) -MMD -MP $(LDFLAGS) $$< \
	    $(call links,$(1)) -o $$@
endef
$(eval $(call bench,kernels,sparse_bench))
$(eval $(call bench,broker,core_bench))

# What campaigns under test need beside wiremill's programs; what all tests need.
NEEDED_fault  := $(KILLER) $(FAULT)
NEEDED_e2e    := $(NEEDED_fault) $(B)/gpu/gpu_pipeline $(B)/tests/wm_cuda_standin.so
NEEDED_golden := $(VENV)/.made $(if $(CUDA_SO),$(B)/tests/any_run)
NEEDED        := $(UNIT) $(SIM) $(NEEDED_e2e) $(NEEDED_golden)
prove          = WM_BUILD=$(B) prove --timer -v $(if $(T),tests/$(1)/$(T)*.t,tests/$(1))

.PHONY: test unit e2e golden fault sim sim-cuts sim-proof check proof soak san tsan sanitized bench
##@ test
test: deps ## everything in minutes: unit, simulated and whole campaigns, golden, faults; installs what is missing
	@$(AGAIN) check
	@echo "make test: all passed (build $(B)); make lint, san, tsan, proof look further"
check: all $(NEEDED)
	@WM_BUILD=$(B) tests/proof.sh test
proof: all $(NEEDED) ## every promise tried at length (an hour; JOBS=n tests at a time); ends with a table of them
	@WM_BUILD=$(B) tests/proof.sh proof
soak: all $(NEEDED) ## the same for days
	@WM_BUILD=$(B) tests/proof.sh soak
unit: $(UNIT_RUN) all ## build and run the unit tests (T=prefix picks some, here and below)
	@printf '%s\n' $(filter $(B)/tests/test_$(T)%,$(UNIT_RUN)) | WM_BUILD=$(B) xargs -P $(JOBS) -I{} tests/unit/run.sh {}
e2e: all $(NEEDED_e2e) ## whole campaigns: killed and resumed, refused, started by hand
	@$(call prove,e2e)
golden: all $(NEEDED_golden) ## patches and scores against NumPy and ONNX Runtime
	@$(call prove,golden)
fault: all $(NEEDED_fault) ## campaigns with failing processes, disks, links and peers
	@$(call prove,fault)
sim: $(SIM) ## 300 simulated campaigns (SEEDS=n); SEED=n prints the events of one
	@$(SIM) $(if $(SEED),--seed $(SEED),--seeds 1 $(or $(SEEDS),300))
sim-cuts: $(SIM) ## 2,000 simulated power cuts (CUTS=n), and a check that lost data would be noticed
	@$(SIM) --cuts $(or $(CUTS),2000)
sim-proof: $(SIM) ## the simulator must catch every bug planted in it
	@$(SIM) --bugs
# Sanitizers build beside the release and run the unit tests and one whole campaign.
san: ## unit tests and a campaign with the address and undefined-behaviour sanitizers
	@$(AGAIN) SAN=address,undefined B=build/address-undefined sanitized
tsan: ## unit tests with threads and a campaign with the thread sanitizer
	@$(AGAIN) SAN=thread B=build/thread sanitized
sanitized: export TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp
sanitized: all $(UNIT_RUN)
	@$(MAKE) --no-print-directory unit
	@WM_BUILD=$(B) WM_QUICK=1 prove --timer -v tests/e2e/run.t

##@ measure
bench: all $(BENCH) $(B)/tests/fault/hostile $(VENV)/.made ## engines, pipeline, broker beside others (ONLY=pipeline: a part)
	@WM_BUILD=$(B) PYTHONPATH=$(OPENVINO) $(VENV)/bin/python tests/bench/bench.py $(ONLY)

# ---- build and run -----------------------------------------------------------------------------
# deps first, then a make of its own: pkg-config is asked when a Makefile is parsed.
JOBS     ?= $(shell nproc)
AGAIN     = $(MAKE) --no-print-directory -j$(JOBS)
PACKAGES := build-essential pkg-config libczmq-dev libzmq3-dev libmsgpack-dev libsqlite3-dev \
            libhdf5-dev libzstd-dev libxxhash-dev libsodium-dev libssl-dev libprotobuf-c-dev \
            protobuf-c-compiler libonnx-dev libyaml-dev libjansson-dev libcmocka-dev \
            python3-pip python3-venv unzip perl ca-certificates
.PHONY: deps run demo lint format install clean help
##@ build and run
deps: ## install the Debian packages that are missing (as root, or by sudo without a password)
	@missing=; for p in $(PACKAGES); do \
	    dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null | grep -qx installed || missing+=" $$p"; done; \
	[ -n "$$missing" ] || exit 0; \
	line="apt-get update -q && apt-get install -qy --no-install-recommends$$missing"; \
	if [ "$$(id -u)" = 0 ]; then root=; elif sudo -n true 2>/dev/null; then root='sudo -n'; \
	else echo "packages are missing and this user may not install them; type"; echo "  sudo sh -c '$$line'"; exit 1; fi; \
	echo "  APT  $$missing"; $$root sh -c "export DEBIAN_FRONTEND=noninteractive; $$line" >/dev/null

run: deps ## install what is missing, build, make events and a model, score them
	@$(AGAIN) all
	@$(AGAIN) demo

# The demonstration starts fresh each time: only its events and its model are kept.
DEMO := build/demo
$(DEMO)/events-%.h5: | $(B)/bin/wiremill $(B)/bin/wiremill-producer
	@mkdir -p $(@D); echo "  SYNTH $@"
	$(Q)$(B)/bin/wiremill synth --events 2 --seed $* --run $* --output $@
$(DEMO)/model.onnx: | $(B)/bin/wiremill
	@mkdir -p $(@D); echo "  MODEL $@"
	$(Q)$(B)/bin/wiremill model new emtrkmichel --seed 1 --output $@
demo: all $(DEMO)/events-1.h5 $(DEMO)/events-2.h5 $(DEMO)/model.onnx
	@rm -rf $(DEMO)/out
	$(B)/bin/wiremill run --model $(DEMO)/model.onnx --input '$(DEMO)/events-*.h5' --output $(DEMO)/out
	@echo; echo "engines: exact-sparse CPU and reference$(if \
	    $(wildcard $(B)/lib/wm_openvino.so), and OpenVINO for any other model,; no OpenVINO); $(if \
	    $(CUDA_SO),CUDA (--engine cuda; see make gpu-check),no CUDA engine: no nvcc 13 with cuDNN)"

PREFIX ?= /usr/local
install: all ## programs to $(PREFIX)/bin, engines and the libraries they need to $(PREFIX)/lib
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/openvino
	install $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	$(if $(CUDA_SO),install $(CUDA_SO) $(DESTDIR)$(PREFIX)/lib)
	[ ! -e $(B)/lib/wm_openvino.so ] || install $(B)/lib/wm_openvino.so $(DESTDIR)$(PREFIX)/lib
	[ ! -e $(B)/lib/wm_openvino.so ] || install $(OPENVINO_LIB:%=$(B)/lib/openvino/%) $(DESTDIR)$(PREFIX)/lib/openvino
clean: ## remove what was built (not what was fetched)
	rm -rf build/release build/address-undefined build/thread $(DEMO)

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
	@echo "variables: B=folder V=1 SAN=... T=prefix JOBS=n OPENVINO=dir PREFIX=dir"

DEPENDENCIES := $(shell find $(B) -name '*.d' 2>/dev/null)
-include $(DEPENDENCIES)
# An object without its list of headers (a build folder that was copied in part) is made again.
.PHONY: again
$(filter-out %.pb-c.o $(DEPENDENCIES:.d=.o),$(shell find $(B)/obj -name '*.o' 2>/dev/null)): again
