# Makefile - everything wiremill does from a clean clone: `make run`, `make test`, `make help`.
#
# Output goes to $(B), one folder per variant, so that sanitizer builds never mix with others.
# Every room is a static library; a program is its room's main.c plus the libraries below it.
# `make help` lists the targets whose line ends in a ## comment, under the ##@ headings.

comma   := ,
# Of the command line alone: environments have an ARCH of other builds.
ifneq ($(origin ARCH),command line)
ARCH :=
endif
$(if $(filter-out arm64,$(ARCH)),$(error ARCH=$(ARCH): type ARCH=arm64 for AArch64, or no ARCH for this machine))
VARIANT := $(if $(SAN),$(subst $(comma),-,$(SAN)),release)
B       ?= build/$(if $(ARCH),$(ARCH)$(if $(SAN),-$(VARIANT)),$(VARIANT))
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
SHELL   := /bin/bash
# A recipe's first line: makes the target's folder and prints what is done (V=1 prints the commands instead).
step     = @mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  $(1)"

# ARCH=arm64: for AArch64, with Debian's libraries of build/arm64-root; programs print their pages by qemu.
ARM64_ROOT := build/arm64-root
ROOT :=
RUN  :=
ifeq ($(ARCH),arm64)
$(if $(wildcard $(ARM64_ROOT)/.packages),,$(error $(ARM64_ROOT) is missing, with Debian's libraries for AArch64: type \
    make deps-arm64))
ROOT        := $(abspath $(ARM64_ROOT))
RUN         := qemu-aarch64-static -L $(ROOT)
PKG_CONFIG  := PKG_CONFIG_SYSROOT_DIR=$(ROOT) PKG_CONFIG_LIBDIR=$(ROOT)/usr/lib/aarch64-linux-gnu/pkgconfig pkg-config
override CC := $(filter ccache,$(CC)) aarch64-linux-gnu-gcc --sysroot=$(ROOT)
endif

PKG_CONFIG ?= pkg-config
PKG       = $(shell $(PKG_CONFIG) $(1) $(2) 2>/dev/null)
MSGPACK  := $(if $(shell $(PKG_CONFIG) --exists msgpack-c 2>/dev/null && echo y),msgpack-c,msgpack)

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
APART_ops      := lib bundle
# Code for one instruction set lies in files that are named after it; which kernel runs is chosen at run time.
MACHINE  := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ISA_FILES_x86_64  := avx2 avxvnni avx512 vnni bf16 amx
ISA_FILES_aarch64 := neon neonbf16
FOREIGN := $(foreach m,$(filter-out $(MACHINE),x86_64 aarch64),$(ISA_FILES_$(m):%=kernels/sparse/wm_sparse_%.c) \
    $(ISA_FILES_$(m):%=kernels/sparse/wm_sparse_int16_%.c))
sources = $(filter-out %/main.c $(APART_$(1):%=$(1)/%/%.c) $(FOREIGN),$(wildcard $(1)/*.c $(1)/*/*.c))
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
# Pages that `wiremill help PAGE` prints (ops/help.c).
PAGES        := $(B)/share/wiremill/manual/.made
PROFILES     := $(patsubst ops/%,$(B)/share/wiremill/%,$(wildcard ops/farm/*.profile))

# General engines, in shared objects of their own; make OPENVINO=none or ONNXRUNTIME=none leaves one out.
GENERAL := $(if $(filter none,$(OPENVINO)),,openvino) $(if $(filter none,$(ONNXRUNTIME)),,onnxruntime)

.DEFAULT_GOAL := all
.PHONY: all
##@ build and run
all: $(PROGRAMS) $(GENERAL:%=$(B)/lib/wm_%.so) $(B)/lib/libwiremill.so $(MODEL) $(PROFILES) $(PAGES) ## build everything

# What --model synthetic names: programs find it beside their folder (wm_setup_model_path).
$(MODEL): ops/train/emtrkmichel.onnx
	$(Q)mkdir -p $(@D) && cp $< $@
# So do the profiles of batch systems lie (ops/farm.c).
$(PROFILES): $(B)/share/wiremill/%: ops/%
	$(Q)mkdir -p $(@D) && cp $< $@

$(PAGES): $(wildcard ops/manual/*.md ops/manual/*/*.md ops/manual/*.py schema/*.md) ops/farm/PROFILES.md \
    ops/CHANGELOG.md ops/verbs.h schema/wm_wait.h
	$(Q)python3 ops/manual/assemble.py $(@D) && touch $@

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
$(call library,gateway): $(patsubst %.c,$(B)/obj/%.o,$(filter-out %/main.c,$(wildcard \
    $(APART_producer:%=producer/%/*.c))))
	$(Q)mkdir -p $(@D); rm -f $@; $(archive)
$(B)/bin/wiremill-gateway: $(B)/obj/producer/gateway/main.o $(call libs,gateway)
	$(call step,LINK  $@)
	$(Q)$(CC) $(LDFLAGS) $< $(call links,gateway) -o $@

# Nothing reads floating-point exception flags. Without them gcc turns loops that select into vectors.
$(B)/obj/kernels/sparse/wm_sparse_%.o: MATH := -fno-trapping-math
ISA_AVX2   := -mavx2 -mfma
ISA_AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
$(B)/obj/kernels/%_avx2.o:    ISA := $(ISA_AVX2)
$(B)/obj/kernels/%_avxvnni.o: ISA := $(ISA_AVX2) -mavxvnni
$(B)/obj/kernels/%_avx512.o:  ISA := $(ISA_AVX512) -mprefer-vector-width=512
$(B)/obj/kernels/%_vnni.o:    ISA := $(ISA_AVX512) -mavx512vnni -mprefer-vector-width=512
$(B)/obj/kernels/%_bf16.o:    ISA := $(ISA_AVX512) -mavx512bf16
$(B)/obj/kernels/%_neonbf16.o: ISA := -march=armv8.2-a+bf16
$(B)/obj/kernels/%_amx.o:     ISA := $(ISA_AVX512) -mavx512bf16 -mamx-tile -mamx-bf16

# The program that OpenCL's drivers compile is part of ours.
$(B)/obj/kernels/opencl/wm_opencl_device.o: kernels/opencl/wm_opencl.cl kernels/model/wm_act.h

# onnx.proto of Debian's libonnx-dev, with the fields of functions that it may be too old for, and our own of
# TensorFlow's
# frozen graphs, compiled by protobuf-c.
PROTO := onnx/onnx kernels/onnx/graphdef
$(B)/gen/onnx/onnx.pb-c.c: /usr/include/onnx/onnx.proto Makefile
	@mkdir -p $(@D); echo "  PROTO $<"
	$(Q)awk 'FNR == NR { known = known || /attribute_proto/; next } \
	    /^message/ { is_node = / NodeProto/; is_function = / FunctionProto/ } \
	    /^}/ && is_node && !known { print "  optional string overload = 8;" } \
	    /^}/ && is_function && !known { print "  repeated AttributeProto attribute_proto = 11;"; \
	        print "  optional string overload = 13;" } /^}/ { is_node = is_function = 0 } { print \
	    }' $< $< >$(@D)/onnx.proto
	$(Q)protoc-c --proto_path=$(B)/gen --c_out=$(B)/gen onnx/onnx.proto
$(B)/gen/kernels/onnx/graphdef.pb-c.c: kernels/onnx/graphdef.proto
	@mkdir -p $(@D); echo "  PROTO $<"
	$(Q)protoc-c --c_out=$(B)/gen $<
$(PROTO:%=$(B)/obj/%.pb-c.o): $(B)/obj/%.o: $(B)/gen/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) -std=c11 -g $(OPT) -fPIC -w -c $< -o $@
$(filter-out %/wm_driver.o,$(call objects,kernels)): | $(PROTO:%=$(B)/gen/%.pb-c.c) # that one is \
    gpu_check's, too, which needs none
$(call library,kernels): $(PROTO:%=$(B)/obj/%.pb-c.o)

# Texts that are compiled in, as C strings: the ledger's schema, the pages of wiremill serve and show.
as_string = $(Q)mkdir -p $(@D); sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $< >$@
$(B)/gen/%.inc: schema/%
	$(as_string)
$(B)/gen/%.inc: ops/serve/%
	$(as_string)
$(B)/gen/%.inc: producer/pictures/%
	$(as_string)
$(B)/obj/broker/disk/wm_ledger.o: $(B)/gen/ledger.sql.inc
$(B)/obj/ops/serve/wm_live.o: $(B)/gen/page.css.inc $(B)/gen/page.js.inc
$(B)/obj/producer/pictures/show_live.o: $(B)/gen/event.css.inc $(B)/gen/event.js.inc

include kernels/engines.mk

# ---- the library -------------------------------------------------------------------------------
# libwiremill (ops/lib/): contains what it needs of ops, kernels and schema; exports what its map lists. In a bundle
# or a wheel the libraries that it links lie in wiremill/ beside it, without those of the C library.
LIBRARY_SRC := $(wildcard ops/lib/*.c)
LIBRARY_MAP := ops/lib/libwiremill.map
VERSION     := $(shell sed -n 's/^.define WM_VERSION "\(.*\)"/\1/p' schema/wm_limits.h)
# Its name states the oldest C library that it works with (tests/golden/python.t checks that).
WHEEL       := $(B)/wheel/wiremill-$(VERSION)-py3-none-manylinux_2_34_$(MACHINE).whl
$(B)/lib/libwiremill.so.1: $(LIBRARY_SRC:%.c=$(B)/obj/%.o) $(call libs,ops) $(LIBRARY_MAP)
	$(call step,LINK  $@)
	$(Q)$(CC) $(filter-out -rdynamic,$(LDFLAGS)) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(LIBRARY_MAP) \
	    -Wl,-z,defs,-z,nodelete,--exclude-libs,ALL,-rpath,'$$ORIGIN/wiremill' $(filter %.o,$^) $(call links,ops) -o $@
$(B)/lib/libwiremill.so: $(B)/lib/libwiremill.so.1
	$(Q)ln -sfn $(<F) $@

# The CUDA engine, what runs it without a GPU, and what only a GPU can show. Then everything that is tested.
include kernels/cuda/cuda.mk
include tests/tests.mk

# ---- build and run -----------------------------------------------------------------------------
# deps first, then a make of its own: pkg-config is asked when a Makefile is parsed.
JOBS     ?= $(shell nproc)
AGAIN     = $(MAKE) --no-print-directory -j$(JOBS)
PACKAGES := build-essential pkg-config libczmq-dev libzmq3-dev libmsgpack-dev libsqlite3-dev \
            libhdf5-dev zlib1g-dev libbz2-dev libdeflate-dev libzstd-dev libxxhash-dev libsodium-dev libssl-dev \
    libprotobuf-c-dev \
            protobuf-c-compiler libonnx-dev libyaml-dev libjansson-dev libnghttp2-dev libcmocka-dev \
            python3-pip python3-venv unzip perl ca-certificates
# Remote inputs, and what messages about HDF5 files tell to type: tests without them are skipped.
ELSEWHERE := xrootd-server xrootd-client curl hdf5-tools
# Before they begin, run and test print how long they take and what they install.
HERE        = this machine has $(shell nproc)
fetches     = $(if $(filter none,$(1))$(wildcard $(1)),,echo "  it fetches $(2) ($(3) MB, from PyPI) to build/";)
FETCHES     = $(if $(filter 1,$(CUDA)),$(call fetches,$(NVRTC),NVRTC $(NVRTC_VERSION),93))$(call \
    fetches,$(OPENVINO),OpenVINO $(OPENVINO_VERSION),59)$(call fetches,$(ONNXRUNTIME),ONNX Runtime \
    $(ONNXRUNTIME_VERSION),28)
DEBIAN      = echo "  it installs Debian packages that are missing, as root or by sudo (make deps does only that)"
.PHONY: about-run about-test deps-slurm
about-run:
	@echo "make run: builds wiremill, makes events, scores them with a trained model: $(if \
	    $(wildcard $(B)/bin/wiremill),half a minute,about 2 minutes) on 2 cores ($(HERE))$(if \
	    $(wildcard $(B)/bin/wiremill),,, without what is fetched)"
	@$(FETCHES) $(DEBIAN)
about-test:
	@echo "make test: builds and tries everything: about 20 minutes on 2 cores ($(HERE))"
	@$(FETCHES) $(DEBIAN)
	@[ -e $(VENV)/.made ] || echo "  it installs $(shell sed 's/==.*//' tests/requirements.txt | paste -sd' ' | \
	    sed 's/ /, /g') for Python to $(VENV) (from PyPI)"
	@[ -e $(MANUAL_VENV)/.made ] || echo "  it installs Sphinx, for the manual, to $(MANUAL_VENV) (from PyPI)"

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

##@ build and run
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
	@echo; echo "engines: exact-sparse CPU, OpenCL (--engine opencl) and reference; for any other model $(if \
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

include ops/manual/manual.mk
include ops/python/shim/shim.mk
include ops/bundle/install.mk

clean: ## remove what was built (not what was fetched)
	rm -rf build/release build/address-undefined build/thread build/fuzz $(DEMO)

##@ before a commit
lint: ## the house rules that a machine can check
	@tests/lint.sh
format: ## clang-format on all of ours
	$(Q)find $(ROOMS) tests -name '*.[ch]' -print0 | xargs -0 clang-format -i

help: ## this list
	@awk -F ':.*## ' '/^##@ / { group = substr ($$0, 5) } \
	    /^[a-z0-9-]+:.*## / { if (!(group in lines)) groups[++n] = group; \
	        lines[group] = lines[group] sprintf ("  make %-11s %s\n", $$1, $$2) } \
	    END { for (i = 1; i <= n; i++) printf "%s\n%s\n", groups[i], lines[groups[i]] }' \
	    $(filter-out %.d,$(MAKEFILE_LIST))
	@echo "variables: B=folder V=1 SAN=... T=prefix JOBS=n OPENVINO=dir ONNXRUNTIME=dir PREFIX=dir"

DEPENDENCIES := $(shell find $(B) -name '*.d' 2>/dev/null)
-include $(DEPENDENCIES)
# An object without its list of headers (a build folder that was copied in part) is made again.
.PHONY: again
$(filter-out %.pb-c.o $(DEPENDENCIES:.d=.o),$(shell find $(B)/obj -name '*.o' 2>/dev/null)): again
