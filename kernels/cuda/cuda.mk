# cuda.mk - the CUDA engine (wm_cuda.so), its tests on the stand-in for a GPU, and what only a GPU can show.
#
# wm_cuda.so is built where nvcc of CUDA 13 and cuDNN's headers are: a shared object that is opened at run time and opens
# cuDNN and cuBLASLt itself. CUDA=0 leaves it out, sanitizers too. The tests on the stand-in need none of it.

NVCC      ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
CUDART    := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(CUDA_HOME)/lib64 $(CUDA_HOME)/lib $(CUDA_HOME)/targets/x86_64-linux/lib /usr/local/cuda/lib64)))
CUDNN_H   := $(dir $(firstword $(wildcard $(addsuffix /cudnn.h,$(CUDA_HOME)/include /usr/include /usr/include/x86_64-linux-gnu))))
CUDNN_H   := $(or $(CUDNN_H),$(if $(NVCC),$(shell python3 -c 'import nvidia.cudnn as c; print (list (c.__path__)[0] + "/include")' 2>/dev/null)))
CUDA      ?= $(if $(and $(NVCC),$(CUDART),$(CUDNN_H),$(shell $(NVCC) --version | grep 'release 1[3-9]')),1,0)
CUDA_ARCH ?= 75 80 86 89 90 100 120
CUDA_LAST := $(lastword $(CUDA_ARCH))
CUDA_GEN   = $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_$(CUDA_LAST),code=compute_$(CUDA_LAST)
CUDA_I     = $(addprefix -isystem ,$(if $(CUDA_HOME),$(CUDA_HOME)/include) $(CUDNN_H))
CUDA_LINK  = $(CUDART) -lrt -ldl -lm -pthread

# Sources: the engine for networks of the family, the one for any CNN, the table of a real GPU, the stand-in's table.
CUDA_ENGINE := $(filter-out %_module.c,$(wildcard kernels/cuda/wm_cuda*.c)) kernels/cuda/wm_gpu_library.c
CUDA_ANY    := $(wildcard kernels/cuda/wm_any*.c)
CUDA_REAL   := $(addprefix kernels/cuda/,wm_gpu_real.c wm_gpu_cudnn.c wm_gpu_cublas.c)
CUDA_FAKE   := $(wildcard tests/standin/wm_gpu_fake*.c)
cuda_o       = $(patsubst %,$(B)/obj/%.o,$(basename $(1)))
CUDA_OBJ     = $(call cuda_o,$(CUDA_ENGINE) $(CUDA_REAL) kernels/cuda/wm_gpu_kernels.cu)
STANDIN_OBJ  = $(call cuda_o,$(CUDA_ENGINE) $(CUDA_FAKE))
$(call cuda_o,$(CUDA_ANY)): | $(B)/gen/onnx/onnx.pb-c.c

# ---- the engine --------------------------------------------------------------------------------
CUDA_SO := $(if $(filter 1,$(CUDA)),$(if $(SAN),,$(B)/lib/wm_cuda.so))
all: $(CUDA_SO)
$(B)/obj/kernels/cuda/%.o: kernels/cuda/%.c
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CUDA_I) $(FLAGS_kernels) $(CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
$(B)/obj/kernels/cuda/%.o: kernels/cuda/%.cu tests/gpu/ptxas.sh
	@mkdir -p $(@D); echo "  NVCC  $< for $(CUDA_ARCH)"
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -I. $(CUDA_GEN) -t 2 --Werror all-warnings -Xptxas -v -Xcompiler -fPIC,-fno-exceptions,-fno-threadsafe-statics,-fvisibility=hidden \
	    -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }
	$(Q)tests/gpu/ptxas.sh $(@:.o=.ptxas) || { rm -f $@; exit 1; }
$(B)/lib/wm_cuda.so: $(B)/obj/kernels/cuda/wm_cuda_module.o $(CUDA_OBJ) $(call cuda_o,$(CUDA_ANY)) $(call libs,kernels)
	@mkdir -p $(@D); echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -shared $(filter %.o,$^) -o $@ -Wl,-z,defs,--as-needed,--exclude-libs,ALL $(call links,kernels) $(CUDA_LINK)

# ---- on the stand-in ---------------------------------------------------------------------------
# Unit tests: the engine's own objects with the stand-in's table.
$(addprefix $(B)/tests/test_kernels_,cuda cuda_plane cuda_windows cuda_any): $(STANDIN_OBJ) $(B)/obj/tests/gpu/gpu_net.o
$(B)/tests/test_kernels_cuda_any: $(call cuda_o,$(CUDA_ANY))

# A whole event: with the producer, which reads events.
$(B)/tests/test_kernels_cuda_event: tests/unit/test_kernels_cuda_event.c tests/gpu/gpu_event.c tests/gpu/gpu_event.h $(STANDIN_OBJ) $(B)/obj/tests/gpu/gpu_net.o $(call libs,producer)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(foreach r,$(USES_producer),$(FLAGS_$(r))) $(CFLAGS) $(LDFLAGS) $(filter %.c %.o,$^) $(call links,producer) -lcmocka -o $@

# The shared object that a worker opens in wm_cuda.so's place: whole campaigns without a GPU.
$(B)/obj/tests/standin/wm_cuda_module.o: kernels/cuda/wm_cuda_module.c
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  CC    $<"
	$(Q)$(CC) -Dwm_gpu_real=wm_gpu_stand_in $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -fvisibility=hidden -MMD -MP -c $< -o $@
$(B)/tests/wm_cuda_standin.so: $(B)/obj/tests/standin/wm_cuda_module.o $(STANDIN_OBJ) $(call cuda_o,$(CUDA_ANY)) $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -shared $(filter %.o,$^) -o $@ -Wl,-z,defs,--exclude-libs,ALL $(call links,kernels)

# Any CNN through the engine's steps; cuDNN only where plans are asked for.
$(B)/tests/any_run: tests/gpu/any_run.c $(STANDIN_OBJ) $(call cuda_o,$(CUDA_ANY)) $(B)/obj/kernels/cuda/wm_gpu_cudnn.o $(call libs,kernels)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(FLAGS_kernels) $(CFLAGS) -MMD -MP $(LDFLAGS) $(filter %.c %.o,$^) $(call links,kernels) -o $@

# cuDNN's plans for GPUs that are not here, by the real table.
$(B)/tests/test_kernels_cudnn: tests/unit/test_kernels_cudnn.c $(call cuda_o,$(CUDA_REAL) kernels/cuda/wm_gpu_library.c kernels/cuda/wm_gpu_kernels.cu)
	@mkdir -p $(@D); [ "$(V)" = 1 ] || echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) $(filter %.c %.o,$^) $(CUDA_LINK) -lcmocka -o $@

# ---- on a GPU ----------------------------------------------------------------------------------
# One program that needs nothing of ours beside it, and no package either: what it calls is compiled into it, the rest dropped.
CHECK_SRC := $(addprefix tests/gpu/,gpu_check.c gpu_any.c gpu_apart.c gpu_bench.c gpu_ceiling.c gpu_event.c gpu_floor.c gpu_net.c) \
             $(addprefix producer/,wm_synth_physics.c wm_synth_detector.c wm_event.c wm_runs.c wm_cut.c) \
             $(addprefix kernels/,wm_image.c wm_plane.c wm_range.c wm_reference.c wm_spec_preset.c wm_spec_zero.c wm_view.c cuda/wm_any.c cuda/wm_any_place.c) \
             $(CUDA_FAKE) schema/wm_batch_memory.c schema/base/wm_fault.c
$(B)/gpu/gpu_check: $(CHECK_SRC) $(CUDA_OBJ) $(wildcard tests/gpu/*.h tests/standin/*.h)
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
.PHONY: gpu-check gpu-bundle
GPU_ALL := $(if $(CUDA_SO),$(B)/gpu/gpu_check $(if $(shell pkg-config --exists $(foreach r,$(ROOMS),$(PKG_$(r))) 2>/dev/null && echo y),$(B)/gpu/gpu_pipeline $(PROGRAMS) $(CUDA_SO)))
gpu-check: $(GPU_ALL) ## everything that needs a GPU; prints a report, and keeps it as $(B)/gpu/RESULTS.md
	@$(if $(CUDA_SO),cp tests/gpu/gpu_check.sh tests/gpu/gpu_torch.py $(<D) && WM_BIN=$(abspath $(B))/bin $(<D)/gpu_check.sh,echo "gpu-check needs nvcc and cuDNN's headers to build; make gpu-bundle on a machine that has them makes one that runs anywhere"; exit 1)
gpu-bundle: $(if $(CUDA_SO),$(B)/gpu/wiremill-gpu-check.tar.gz) ## gpu-check as an archive for a machine without nvcc: unpack, ./gpu_check.sh
	@$(if $(CUDA_SO),du -h $<,echo "gpu-bundle needs nvcc and cuDNN's headers"; exit 1)
