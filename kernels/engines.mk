# engines.mk - the general engines: OpenVINO and ONNX Runtime, each in a shared object of its own.
#
# OpenVINO's and ONNX Runtime's wheels, unpacked; a shared object of ours links each and is opened at run time. Where a
# wheel can be neither found nor fetched, everything else is built.
# fetch: its name and version, its sha256, MB, and which of its files (none: all).
define fetch
	@echo "  FETCH $(1) ($(3) MB, from PyPI)"
	$(Q)rm -rf $(@D) $(@D).tmp; mkdir -p $(@D).tmp
	$(Q)echo '$(1) --hash=sha256:$(2)' >$(@D).tmp/wheel.txt
	$(Q)python3 -m pip -q download --no-deps --only-binary=:all: --python-version 3.11 \
	    $(WHEELS_$(MACHINE):%=--platform %) --require-hashes -r $(@D).tmp/wheel.txt -d $(@D).tmp && \
	    unzip -qo $(@D).tmp/*.whl $(4) -d $(@D).tmp && rm $(@D).tmp/*.whl && mv $(@D).tmp $(@D) && touch $@ || rm -rf \
	    $(@D).tmp
endef
# The wheels of this machine; of x86-64 their folders have no ending.
WHEELS_x86_64  := manylinux_2_28_x86_64
WHEELS_aarch64 := manylinux_2_28_aarch64 manylinux_2_35_aarch64
ENDING         := $(if $(filter-out x86_64,$(MACHINE)),-$(MACHINE))
OPENVINO_VERSION := 2026.4.1
OPENVINO         ?= build/openvino-$(OPENVINO_VERSION)$(ENDING)
OPENVINO_SHA256_x86_64  := 2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf
OPENVINO_SHA256_aarch64 := bea1eb3733c34ef331adc945da0ccda5937865031139073663be84c517ffda22
OPENVINO_FETCHED        := build/openvino-$(OPENVINO_VERSION)$(ENDING)
$(OPENVINO_FETCHED)/.unpacked:
	$(call fetch,openvino==$(OPENVINO_VERSION),$(OPENVINO_SHA256_$(MACHINE)),59)
ONNXRUNTIME_VERSION := 1.32.0
ONNXRUNTIME         ?= build/onnxruntime-$(ONNXRUNTIME_VERSION)$(ENDING)
ONNXRUNTIME_SHA256_x86_64  := 5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d
ONNXRUNTIME_SHA256_aarch64 := 2303372a85299b6757b0e11e1cbf13e410ddf7e10c37f4b37e99d1c90e7daf7c
ONNXRUNTIME_FETCHED        := build/onnxruntime-$(ONNXRUNTIME_VERSION)$(ENDING)
ONNXRUNTIME_FILES          := onnxruntime/LICENSE onnxruntime/ThirdPartyNotices.txt \
    onnxruntime/capi/libonnxruntime.so.$(ONNXRUNTIME_VERSION)
$(ONNXRUNTIME_FETCHED)/.unpacked:
	$(call fetch,onnxruntime==$(ONNXRUNTIME_VERSION),$(ONNXRUNTIME_SHA256_$(MACHINE)),28,$(ONNXRUNTIME_FILES))
# What a wheel of wiremill advises to install.
%/wm_engines.o: CPPFLAGS += -DWM_OPENVINO_VERSION='"$(OPENVINO_VERSION)"' \
    -DWM_ONNXRUNTIME_VERSION='"$(ONNXRUNTIME_VERSION)"'
# Its TBB opens a library with RTLD_DEEPBIND, which sanitizers refuse, unless this variable announces them to TBB.
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
    libopenvino.so.$(OPENVINO_ABI) libopenvino_$(if $(filter aarch64,$(MACHINE)),arm,intel)_cpu_plugin.so libtbb.so.12 \
    libtbbmalloc.so.2 libtbbbind_2_5.so.3 libhwloc.so.15
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
	$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -MMD -MP -MF $(B)/obj/wm_onnxruntime.d -MT $@ -shared \
	    $(ONNXRUNTIME_SRC) -o $@ \
	    -L$(@D)/onnxruntime -l:$(LIBRARIES_onnxruntime) \
	    -Wl,-rpath,'$$ORIGIN/onnxruntime' -Wl,--as-needed,--exclude-libs,ALL $(call links,kernels)

