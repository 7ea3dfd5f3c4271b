# cuda.mk - the CUDA engine (wm_cuda.so), its tests on the stand-in for a GPU, and what only a GPU can show.
#
# kernels/cuda/README.md describes them. The headers of CUDA and cuDNN are of a toolkit in CUDA_HOME, of Debian, or of
# the
# `nvidia` packages of a Python. Sanitizers leave wm_cuda.so out, as CUDA=0 does; the tests on the stand-in need none of
# it.

CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) \
    /usr/local/cuda/bin/nvcc)))
CUDA_WHEELS := $(wildcard $(addsuffix /nvidia/*/include,$(if $(filter 0,$(CUDA)),,$(shell python3 -c \
    'import sys; print (*sys.path)' 2>/dev/null))))
CUDA_FOLDERS := $(if $(CUDA_HOME),$(CUDA_HOME)/include) /usr/include /usr/include/x86_64-linux-gnu $(CUDA_WHEELS)
cuda_has     = $(firstword $(patsubst %/$(1),%,$(wildcard $(addsuffix /$(1),$(CUDA_FOLDERS)))))
CUDA_HEADERS := cuda.h nvtx3/nvToolsExt.h cudnn.h
CUDA_I       := $(addprefix -isystem ,$(filter-out /usr/include,$(sort $(foreach h,$(CUDA_HEADERS) nvrtc.h \
    cuda_runtime_api.h,$(call cuda_has,$(h))))))
CUDA         ?= $(if $(ARCH)$(filter-out 3,$(words $(foreach h,$(CUDA_HEADERS),$(call cuda_has,$(h))))),0,1)
CUDA_ARCH    ?= sm_75 sm_80 sm_86 sm_89 sm_90a sm_100 sm_120 compute_120
CUDA_LINK     = -lrt -ldl -lm -pthread

# The compiler of our kernels, and the headers of its cuda_fp16.h: PyPI's, and the toolkit's.
NVRTC_VERSION := 12.9.86
NVRTC_WHEELS  := nvidia-cuda-nvrtc-cu12==$(NVRTC_VERSION) nvidia-cuda-runtime-cu12==12.9.79
NVRTC_SHA256  := 210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4 \
    25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3
NVRTC         := build/nvrtc-$(NVRTC_VERSION)
NVRTC_PAIRS   := '$(NVRTC)/nvidia/cuda_nvrtc/lib/libnvrtc.so.12' $(NVRTC)/nvidia/cuda_runtime/include \
    $(if $(CUDA_HOME),'$(CUDA_HOME)/lib*/libnvrtc.so.1[2-9]' $(CUDA_HOME)/include)
$(NVRTC)/.unpacked:
	@echo "  FETCH NVRTC $(NVRTC_VERSION), the compiler of our kernels (93 MB, from PyPI)"
	$(Q)rm -rf $(@D) $(@D).tmp; mkdir -p $(@D).tmp
	$(Q)paste -d' ' <(printf '%s\n' $(NVRTC_WHEELS)) <(printf -- '--hash=sha256:%s\n' $(NVRTC_SHA256)) \
	    >$(@D).tmp/wheels.txt
	$(Q)python3 -m pip -q --retries 1 --timeout 10 download --no-deps --only-binary=:all: --python-version 3.11 \
	    --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2010_x86_64 \
	    --require-hashes -r $(@D).tmp/wheels.txt -d $(@D).tmp && \
	    for wheel in $(@D).tmp/*.whl; do unzip -qo "$$wheel" -d $(@D).tmp && rm "$$wheel" || exit 1; done && mv \
	    $(@D).tmp $(@D) && \
	    touch $@ || { rm -rf $(@D).tmp; echo \
	    "WITHOUT it: $(if $(CUDA_HOME),the compiler of $(CUDA_HOME) is taken. That of CUDA 13 \
	    makes kernels for drivers from 580 on,) type make where PyPI can be reached for drivers from 525 on"; }

# Sources: the engine for networks of the family, the one for any CNN, the table of a real GPU, the stand-in's table.
CUDA_ENGINE := $(filter-out %_module.c,$(wildcard kernels/cuda/wm_cuda*.c kernels/gpu/wm_cuda*.c)) \
    kernels/gpu/wm_gpu_library.c
CUDA_ANY    := $(wildcard kernels/cudnn/wm_any*.c)
CUDA_REAL   := $(addprefix kernels/gpu/,wm_gpu_real.c wm_gpu_driver.c wm_gpu_cudnn.c) kernels/wm_driver.c
CUDA_IMAGES  = $(CUDA_ARCH:%=$(B)/obj/kernels/gpu/image-%.o)
CUDA_FAKE   := $(wildcard tests/standin/wm_gpu_fake*.c)
cuda_o       = $(patsubst %,$(B)/obj/%.o,$(basename $(1)))
CUDA_OBJ     = $(call cuda_o,$(CUDA_ENGINE) $(CUDA_REAL)) $(CUDA_IMAGES)
STANDIN_OBJ  = $(call cuda_o,$(CUDA_ENGINE) $(CUDA_FAKE))
$(call cuda_o,$(CUDA_ANY)): | $(PROTO:%=$(B)/gen/%.pb-c.c)

# ---- the engine --------------------------------------------------------------------------------
CUDA_SO := $(if $(filter 1,$(CUDA)),$(if $(SAN),,$(B)/lib/wm_cuda.so))
all: $(CUDA_SO)
define cuda_folder
$(B)/obj/kernels/$(1)/%.o: kernels/$(1)/%.c
	@mkdir -p $$(@D); [ "$(V)" = 1 ] || echo "  CC    $$<"
	$(Q)$(CC) $$(CPPFLAGS) $(CUDA_I) $$(FLAGS_kernels) $$(CFLAGS) -fvisibility=hidden -MMD -MP -c $$< -o $$@
endef
$(foreach f,cuda cudnn gpu,$(eval $(call cuda_folder,$(f))))
# gcc 12 for AArch64 fails on its loop of largest values as vectors.
$(B)/obj/kernels/cuda/wm_cuda_pack.o: CFLAGS += $(if $(filter aarch64,$(MACHINE)),-fno-tree-vectorize)
# An image of our kernels for each architecture, as an object.
$(B)/obj/kernels/gpu/compile: kernels/gpu/compile.c
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CUDA_I) $(CFLAGS) $< -o $@ -ldl
$(CUDA_IMAGES): $(B)/obj/kernels/gpu/image-%.o: kernels/gpu/wm_gpu_kernels.cu $(wildcard kernels/gpu/*.cuh \
    kernels/gpu/wm_gpu_args.h) \
    kernels/patch/wm_image.h kernels/patch/wm_spec.h kernels/model/wm_model.h schema/base/wm_file.h tests/gpu/ptxas.sh \
    $(B)/obj/kernels/gpu/compile | $(NVRTC)/.unpacked
	@echo "  NVRTC $< for $*"
	$(Q)$(B)/obj/kernels/gpu/compile $< $* $(@:.o=.s) $(NVRTC_PAIRS)
	$(Q)$(if $(filter sm_%,$*),tests/gpu/ptxas.sh $(@:.o=.s).log >/dev/null || { tests/gpu/ptxas.sh $(@:.o=.s).log; exit \
	    1; })
	$(Q)$(CC) -c $(@:.o=.s) -o $@ && echo '$@: $(filter-out again,$^)' >$(@:.o=.d)
$(B)/lib/wm_cuda.so: $(B)/obj/kernels/cuda/wm_cuda_module.o $(CUDA_OBJ) $(call cuda_o,$(CUDA_ANY)) $(call libs,kernels)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -shared $(filter %.o,$^) -o $@ -Wl,-z,defs,--as-needed,--exclude-libs,ALL $(call links,kernels) \
	    $(CUDA_LINK)

# ---- on the stand-in ---------------------------------------------------------------------------
# Unit tests: the engine's own objects with the stand-in's table.
$(addprefix $(B)/tests/test_kernels_,cuda cuda_plane cuda_windows cuda_any any): $(STANDIN_OBJ) \
    $(B)/obj/tests/gpu/gpu_net.o
$(addprefix $(B)/tests/test_kernels_,cuda cuda_any any): $(call cuda_o,$(CUDA_ANY))
$(B)/tests/test_kernels_any: $(B)/obj/tests/gpu/gpu_any_count.o
# Strict fp32, as of every engine.
$(B)/tests/test_kernels_strict: $(STANDIN_OBJ)

# A whole event: with the producer, which reads events.
$(B)/tests/test_kernels_cuda_event: tests/unit/kernels/test_kernels_cuda_event.c $(addprefix tests/gpu/,gpu_event.c \
    gpu_event.h gpu_floor.c gpu_floor.h) $(STANDIN_OBJ) $(call cuda_o,$(CUDA_ANY)) $(B)/obj/tests/gpu/gpu_net.o \
    $(call libs,producer)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(foreach r,$(USES_producer),$(FLAGS_$(r))) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o,$^) $(call \
	    links,producer) -lcmocka -o $@

# The shared object that a worker opens in wm_cuda.so's place: whole campaigns without a GPU.
$(B)/obj/tests/standin/wm_cuda_module.o: kernels/cuda/wm_cuda_module.c
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  CC    $<"
	$(Q)$(CC) -Dwm_gpu_real=wm_gpu_stand_in $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
$(B)/tests/wm_cuda_standin.so: $(B)/obj/tests/standin/wm_cuda_module.o $(STANDIN_OBJ) $(call cuda_o,$(CUDA_ANY)) \
    $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -shared $(filter %.o,$^) -o $@ -Wl,-z,defs,--exclude-libs,ALL $(call links,kernels)

# Any CNN through the engine's steps; cuDNN only where plans are asked for.
$(B)/tests/any_run: tests/gpu/any_run.c $(STANDIN_OBJ) $(call cuda_o,$(CUDA_ANY)) $(B)/obj/kernels/gpu/wm_gpu_cudnn.o \
    $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -MMD -MP $(LDFLAGS) $(filter %.c %.o,$^) $(call links,kernels) -o $@

# cuDNN's plans for GPUs that are not here, by the real table; and that table on a driver of the tests.
$(B)/tests/test_kernels_cudnn $(B)/tests/test_kernels_gpu_real: $(B)/tests/%: tests/unit/kernels/%.c $(call \
    cuda_o,$(CUDA_REAL) kernels/gpu/wm_gpu_library.c) $(CUDA_IMAGES)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CUDA_I) $(CFLAGS) -MMD -MP $(LDFLAGS) $(filter %.c %.o,$^) $(CUDA_LINK) -lcmocka -o $@

# ---- on a GPU ----------------------------------------------------------------------------------
# One program that needs nothing of ours beside it, and no package either: what it calls is compiled into it, the rest
# dropped.
CHECK_SRC := $(addprefix tests/gpu/,gpu_check.c gpu_any.c gpu_apart.c gpu_bench.c gpu_ceiling.c gpu_event.c \
    gpu_floor.c gpu_net.c) \
             $(addprefix producer/,synth/wm_synth_physics.c synth/wm_synth_detector.c files/wm_event.c \
    cutting/wm_runs.c cutting/wm_cut.c) \
             $(addprefix kernels/,patch/wm_image.c patch/wm_plane.c family/wm_range.c judge/wm_reference.c \
    patch/wm_spec_preset.c patch/wm_spec_zero.c family/wm_layer_view.c cudnn/wm_any.c cudnn/wm_any_chunks.c \
    cudnn/wm_any_family.c cudnn/wm_any_place.c cudnn/wm_any_steps.c cudnn/wm_any_walk.c) \
             $(CUDA_FAKE) schema/wm_batch_memory.c schema/base/wm_fault.c
$(B)/gpu/gpu_check: $(CHECK_SRC) $(CUDA_OBJ) $(wildcard tests/gpu/*.h tests/standin/*.h)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -ffunction-sections -fdata-sections $(filter %.c %.o,$^) -o $@ -Wl,--gc-sections \
	    $(CUDA_LINK)
	$(Q)tests/gpu/ptxas.sh $(patsubst %.o,%.s.log,$(filter-out %/image-compute_%,$(CUDA_IMAGES))) >$(@D)/ptxas
	$(Q)git log -1 --format=', of %h of %cs' >$(@D)/version 2>/dev/null || : >$(@D)/version
# The whole pipeline goes along where it is built: programs, and the libraries that a machine may lack.
$(B)/gpu/gpu_pipeline: tests/gpu/gpu_pipeline.c tests/gpu/gpu_event.c tests/gpu/gpu_event.h $(call libs,producer)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(foreach r,$(USES_producer),$(FLAGS_$(r))) $(CFLAGS) $(LDFLAGS) $(filter %.c,$^) \
	    -Wl,--as-needed $(call links,producer) -o $@
# Any network of an ONNX file: on the GPU; on the stand-in, to count and to see that the program works.
$(B)/gpu/gpu_networks: tests/gpu/gpu_networks.c tests/gpu/gpu_any_count.c $(CUDA_OBJ) $(call cuda_o,$(CUDA_ANY) \
    $(CUDA_FAKE)) $(call libs,kernels)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) -DWM_GPU_TABLE=wm_gpu_real $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o,$^) $(call \
	    links,kernels) $(CUDA_LINK) -o $@
$(B)/tests/gpu_networks: tests/gpu/gpu_networks.c tests/gpu/gpu_any_count.c $(STANDIN_OBJ) $(call cuda_o,$(CUDA_ANY)) \
    $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) -DWM_GPU_TABLE=wm_gpu_stand_in $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o,$^) \
	    $(call links,kernels) -o $@
# glibc and the C++ library are the machine's own.
GPU_SCRIPTS := $(addprefix tests/gpu/,gpu_check.sh gpu_torch.py gpu_networks.py)
$(B)/gpu/wiremill-gpu-check.tar.gz: $(B)/gpu/gpu_check $(B)/gpu/gpu_pipeline $(B)/gpu/gpu_networks $(PROGRAMS) \
    $(CUDA_SO) $(GPU_SCRIPTS)
	$(Q)cp $(GPU_SCRIPTS) $(@D); rm -rf $(@D)/bin $(@D)/lib; mkdir $(@D)/bin $(@D)/lib
	$(Q)cp $(PROGRAMS) $(@D)/bin; cp $(CUDA_SO) $(@D)/lib
	$(Q)ldd $(@D)/bin/* $(@D)/lib/wm_cuda.so $(@D)/gpu_pipeline $(@D)/gpu_networks | awk \
	    '$$2 == "=>" && $$3 !~ "/(lib(c|m|dl|rt|pthread|resolv).so|libstdc..|libgcc_s)" { print $$3 }' | sort -u | xargs \
	    -I{} cp -L {} $(@D)/lib
	$(Q)strip $(@D)/bin/* $(@D)/gpu_pipeline $(@D)/gpu_networks
	$(Q)tar -C $(@D) -czf $@ gpu_check $(notdir $(GPU_SCRIPTS)) gpu_pipeline gpu_networks ptxas version bin lib
	$(Q)rm -rf $(@D)/bin $(@D)/lib
##@ on a GPU
.PHONY: gpu-check gpu-bundle
# Where packages that the programs need are missing, gpu_check alone is built.
GPU_ALL := $(if $(CUDA_SO),$(B)/gpu/gpu_check $(if $(shell pkg-config --exists $(foreach r,$(ROOMS),$(PKG_$(r))) \
    2>/dev/null && \
    command -v protoc-c && ls /usr/include/onnx/onnx.proto),$(B)/gpu/gpu_networks $(B)/gpu/gpu_pipeline $(PROGRAMS) \
    $(CUDA_SO)))
gpu-check: $(GPU_ALL) ## everything that needs a GPU; prints a report, and keeps it as $(B)/gpu/RESULTS.md
	@$(if $(CUDA_SO),cp $(GPU_SCRIPTS) $(<D) && WM_BIN=$(abspath $(B))/bin $(<D)/gpu_check.sh,echo \
	    "gpu-check needs the headers of CUDA and cuDNN to build;" \
	    "make gpu-bundle on a machine that has them makes one that runs anywhere"; exit 1)
gpu-bundle: $(if $(CUDA_SO),$(B)/gpu/wiremill-gpu-check.tar.gz)
gpu-bundle: ## gpu-check as an archive for a machine without CUDA: unpack, ./gpu_check.sh
	@$(if $(CUDA_SO),du -h $<,echo "gpu-bundle needs the headers of CUDA and cuDNN"; exit 1)
