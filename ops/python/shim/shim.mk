# Engines in Python: the shared object that `python -m wiremill plugin` puts before a file's code,
# and the engine of TorchScript.
PYTHON_ENGINES := $(if $(wildcard gpuworker/wiremill_engine.h),$(B)/lib/wm_python.so $(B)/lib/wm_torch.so)
all: $(PYTHON_ENGINES)
$(B)/lib/wm_python.so: ops/python/shim/wm_python.c gpuworker/wiremill_engine.h
	$(call step,LINK  $@)
	$(Q)$(CC) -std=gnu11 -O2 -fPIC $(WARN) -fvisibility=hidden -Igpuworker -shared $< -o $@ -pthread -Wl,-z,defs
$(B)/lib/wm_torch.so: ops/python/shim/wm_torch.py $(B)/lib/wm_python.so \
    $(addprefix ops/python/wiremill/,_plugin.py _engine.py)
	$(call step,MAKE  $@)
	$(Q)python3 ops/python/wiremill/_plugin.py $(B)/lib/wm_python.so $< $@
.PHONY: install-shim uninstall-shim
install-lib: install-shim
install-shim: $(PYTHON_ENGINES)
	install -d $(TO)/lib
	$(if $^,install $^ $(TO)/lib)
uninstall: uninstall-shim
uninstall-shim:
	rm -f $(TO)/lib/wm_python.so $(TO)/lib/wm_torch.so
