# Makefile - everything wiremill does from a clean clone: `make run`, `make test`, `make help`.
#
# Output goes to $(B), one folder per variant, so that sanitizer builds never mix with others.
# Every room is a static library; a program is its room's main.c plus the libraries below it.

VARIANT := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)
comma   := ,
B       ?= build/$(VARIANT)
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
SHELL   := /bin/bash

OPENVINO_VERSION := 2026.4.1
OPENVINO         ?= build/openvino-$(OPENVINO_VERSION)


PKG       = $(shell pkg-config $(1) $(2) 2>/dev/null)
MSGPACK  := $(if $(shell pkg-config --exists msgpack-c && echo y),msgpack-c,msgpack)

OPT      := $(if $(SAN),-O1 -fno-omit-frame-pointer -fsanitize=$(SAN),-O3)
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wvla -Werror
CPPFLAGS := -I. -I$(B)/gen -D_GNU_SOURCE
CFLAGS   := -std=c11 -g $(OPT) $(WARN) -fPIC -pthread
LDFLAGS  := $(if $(SAN),-fsanitize=$(SAN)) -pthread -rdynamic

# ---- rooms -------------------------------------------------------------------------------------
ROOMS := schema kernels broker producer gpuworker ops
sources = $(filter-out $(1)/main.c $(1)/%_openvino.c $(1)/%_bench.c,$(wildcard $(1)/*.c))
objects = $(patsubst %.c,$(B)/obj/%.o,$(call sources,$(1)))
library = $(B)/lib/lib$(1).a

# What each room's libraries come from (pkg-config names); a room may use what is listed here only.
PKG_schema    := $(MSGPACK) libzstd libxxhash libsodium
PKG_kernels   := libcyaml libprotobuf-c libsodium libxxhash
PKG_broker    := libczmq libzmq sqlite3 libxxhash libsodium jansson
PKG_producer  := libczmq libzmq hdf5 libxxhash libsodium libcyaml
PKG_gpuworker := libczmq libzmq libsodium
PKG_ops       := libczmq libzmq jansson libsodium hdf5

# Libraries a room's program links, in order (the arrows of the architecture, checked by make lint).
# broker/wm_client is the one way to talk to a broker; it is in the broker's library.
USES_schema    := schema
USES_kernels   := kernels schema
USES_broker    := broker schema
USES_producer  := producer broker kernels schema
USES_gpuworker := gpuworker broker kernels schema
USES_ops       := ops broker kernels schema

$(foreach r,$(ROOMS),$(eval FLAGS_$(r) := $(call PKG,--cflags,$(PKG_$(r)))))
libs = $(foreach r,$(USES_$(1)),$(call library,$(r))) 
links = -Wl,--start-group $(call libs,$(1)) -Wl,--end-group \
        $(call PKG,--libs,$(sort $(foreach r,$(USES_$(1)),$(PKG_$(r))))) -lm -ldl

PROGRAM_broker    := wiremill-broker
PROGRAM_producer  := wiremill-producer
PROGRAM_gpuworker := wiremill-worker
PROGRAM_ops       := wiremill
PROGRAMS := $(foreach r,broker producer gpuworker ops,$(if $(wildcard $(r)/main.c),$(B)/bin/$(PROGRAM_$(r))))

.DEFAULT_GOAL := all
.PHONY: all
all: $(PROGRAMS) $(if $(wildcard kernels/wm_openvino.c),$(B)/lib/wm_openvino.so) ## build everything

define room
$(call library,$(1)): $(call objects,$(1))
	$(Q)mkdir -p $$(@D); rm -f $$@; ar rcs $$@ $$^
$(B)/obj/$(1)/%.o: $(1)/%.c
	@mkdir -p $$(@D); [ "$(V)" = 1 ] || echo "  CC    $$<"
	$(Q)$(CC) $(CPPFLAGS) $$(FLAGS_$(1)) $(CFLAGS) $$(ISA) -MMD -MP -c $$< -o $$@
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))

define program
$(B)/bin/$(PROGRAM_$(1)): $(B)/obj/$(1)/main.o $(call libs,$(1))
	@mkdir -p $$(@D); [ "$(V)" = 1 ] || echo "  LINK  $$@"
	$(Q)$(CC) $(LDFLAGS) $$< $(call links,$(1)) -o $$@
endef
$(foreach r,broker producer gpuworker ops,$(eval $(call program,$(r))))

# Code for one instruction set lies in files named for it; what runs is chosen at run time.
$(B)/obj/kernels/%_avx2.o:   ISA := -mavx2 -mfma
$(B)/obj/kernels/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
$(B)/obj/kernels/%_bf16.o:   ISA := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma
$(B)/obj/kernels/%_amx.o:    ISA := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mamx-tile -mamx-bf16

# onnx.proto of Debian's libonnx-dev, compiled by protobuf-c.
ONNX_PROTO := /usr/include/onnx/onnx.proto
$(B)/gen/onnx/onnx.pb-c.c: $(ONNX_PROTO)
	@mkdir -p $(@D); echo "  PROTO $<"
	$(Q)protoc-c --proto_path=/usr/include --c_out=$(B)/gen onnx/onnx.proto
$(B)/obj/kernels/onnx.pb-c.o: $(B)/gen/onnx/onnx.pb-c.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) -std=c11 -g $(OPT) -fPIC -w -c $< -o $@
$(B)/obj/kernels/wm_onnx.o $(B)/obj/kernels/wm_import.o $(B)/obj/kernels/wm_onnx_write.o: | $(B)/gen/onnx/onnx.pb-c.c
$(call library,kernels): $(B)/obj/kernels/onnx.pb-c.o

# The general engine: OpenVINO's wheel unpacked, linked by a shared object that is opened at run time.
OPENVINO_WHEEL_SHA256 := 2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf
build/openvino-$(OPENVINO_VERSION)/.unpacked:
	@echo "  FETCH OpenVINO $(OPENVINO_VERSION) (59 MB, from PyPI)"
	$(Q)rm -rf $(@D) $(@D).tmp; mkdir -p $(@D).tmp
	$(Q)echo 'openvino==$(OPENVINO_VERSION) --hash=sha256:$(OPENVINO_WHEEL_SHA256)' >$(@D).tmp/wheel.txt
	$(Q)python3 -m pip -q download --no-deps --only-binary=:all: --python-version 3.11 \
	    --platform manylinux_2_28_x86_64 --require-hashes -r $(@D).tmp/wheel.txt -d $(@D).tmp
	$(Q)unzip -qo $(@D).tmp/*.whl -d $(@D).tmp && rm $(@D).tmp/*.whl && mv $(@D).tmp $(@D) && touch $@
# It carries its own copy of what it needs from kernels and schema, and shows one symbol.
$(B)/lib/wm_openvino.so: kernels/wm_openvino.c $(call libs,kernels) | \
    $(if $(wildcard $(OPENVINO)/openvino/include/openvino/c/openvino.h),,$(OPENVINO)/.unpacked)
	@mkdir -p $(@D) $(B)/obj; echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -isystem $(OPENVINO)/openvino/include -MMD -MP -MF $(B)/obj/wm_openvino.d \
	    -MT $@ -shared $< -o $@ -L$(OPENVINO)/openvino/libs -l:libopenvino_c.so.2641 \
	    -Wl,-rpath,$(abspath $(OPENVINO))/openvino/libs -Wl,--as-needed,--exclude-libs,ALL $(call links,kernels)

# ---- tests -------------------------------------------------------------------------------------
# tests/unit/test_<room>_<what>.c is linked with that room and those below it.
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
define unit
$(B)/tests/test_$(1)_%: tests/unit/test_$(1)_%.c $(call libs,$(1))
	@mkdir -p $$(@D); [ "$(V)" = 1 ] || echo "  TEST  $$@"
	$(Q)$(CC) $(CPPFLAGS) $$(foreach r,$$(USES_$(1)),$$(FLAGS_$$(r))) $(CFLAGS) -MMD -MP $(LDFLAGS) $$< $(call links,$(1)) -lcmocka -o $$@
endef
$(foreach r,$(ROOMS),$(eval $(call unit,$(r))))

.PHONY: unit
unit: $(UNIT) all ## build and run the unit tests (T=prefix picks some)
	@set -e; for t in $(filter $(B)/tests/test_$(T)%,$(UNIT)); do echo "== $$t"; WM_BUILD=$(B) $$t; done

-include $(shell find $(B) -name '*.d' 2>/dev/null)
