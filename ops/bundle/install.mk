# install.mk - make install, make doc, make bundle, make wheel.

##@ install and ship
PREFIX ?= /usr/local
TO     = "$(DESTDIR)$(PREFIX)"
blank := $() $()
install: all ## programs to $(PREFIX)/bin, engines and the libraries they need to $(PREFIX)/lib
	install -d $(TO)/bin $(TO)/lib
	install $(PROGRAMS) $(TO)/bin
	$(if $(CUDA_SO),install $(CUDA_SO) $(TO)/lib)
install: $(GENERAL:%=install-%)
.PHONY: install-openvino install-onnxruntime
install-openvino install-onnxruntime: install-%: all
	[ ! -e $(B)/lib/wm_$*.so ] || { install -d $(TO)/lib/$* && \
	    install $(LIBRARIES_$*:%=$(B)/lib/$*/%) $(TO)/lib/$* && \
	    install $(B)/lib/wm_$*.so $(TO)/lib; }

# The programs print their man pages and bash completion themselves, from the tables of their options.
DOC     := $(B)/doc
MANDIR  := share/man/man1
BASHDIR := share/bash-completion/completions
UNITDIR := lib/systemd/system
UNITS   := wiremill-broker@.service wiremill-worker@.service \
                 wiremill-gateway@.service wiremill-gateway-grpc.socket wiremill-gateway-http.socket
DATADIR := share/wiremill
SITEDIR := share/doc/wiremill
DATA    := ops/serve/grafana.json ops/serve/alerts.yml $(MODEL)
install: install-lib install-doc install-units install-data install-manual
.PHONY: doc install-lib install-doc install-units install-data install-manual uninstall
install-lib: $(B)/lib/libwiremill.so
	install -d $(TO)/include $(TO)/lib/pkgconfig
	install -m 644 ops/lib/wiremill.h gpuworker/wiremill_engine.h $(TO)/include
	install $(B)/lib/libwiremill.so.1 $(TO)/lib
	ln -sfn libwiremill.so.1 $(TO)/lib/libwiremill.so
	sed 's|@PREFIX@|$(subst $(blank),\\ ,$(PREFIX))|; s|@VERSION@|$(VERSION)|' ops/lib/wiremill.pc \
	    >$(TO)/lib/pkgconfig/wiremill.pc
doc: $(DOC)/.made ## man pages and bash completion, to $(B)/doc
$(DOC)/.made: $(PROGRAMS)
	$(Q)rm -rf $(DOC) && mkdir -p $(DOC)/man1 $(DOC)/bash
	$(Q){ $(RUN) $(B)/bin/wiremill --print-pages && $(RUN) $(B)/bin/wiremill-worker --print-pages; } | \
	    while read -r page program verb; do \
	    $(RUN) $(B)/bin/$$program --print-man $$verb >$(DOC)/man1/$$page.1 || exit 1; done
	$(Q)for program in $(PROGRAMS); do $(RUN) $$program --print-completion || exit 1; done >$(DOC)/bash/wiremill
	$(Q)touch $@
install-doc: doc
	install -d $(TO)/$(MANDIR) $(TO)/$(BASHDIR)
	install -m 644 $(DOC)/man1/*.1 $(TO)/$(MANDIR)
	install -m 644 $(DOC)/bash/wiremill $(TO)/$(BASHDIR)
	for program in $(filter-out wiremill,$(notdir $(PROGRAMS))); do \
	    ln -sf wiremill $(TO)/$(BASHDIR)/$$program; done
install-units:
	install -d $(TO)/$(UNITDIR)
	for unit in $(UNITS); do \
	    sed 's|@PREFIX@|$(PREFIX)|' ops/systemd/$$unit >$(TO)/$(UNITDIR)/$$unit || exit 1; done
install-data:
	install -d $(TO)/$(DATADIR)/farm
	install -m 644 $(DATA) $(TO)/$(DATADIR)
	install -m 644 $(PROFILES) $(TO)/$(DATADIR)/farm
# Pages for `wiremill help` always; the site and pages of man in sections 5 and 7 if make manual built them.
install-manual: $(PAGES)
	find $(dir $(PAGES)) -name '*.txt' -printf '%P\n' | while read -r page; do \
	    install -Dm 644 $(dir $(PAGES))$$page $(TO)/$(DATADIR)/manual/$$page || exit 1; done
	[ ! -e $(MANUAL) ] || { install -d $(TO)/$(SITEDIR) && cp -r $(dir $(MANUAL)). $(TO)/$(SITEDIR); \
	    for page in $(B)/manual/man/*.[57]; do install -Dm 644 $$page $(TO)/share/man/man$${page##*.}/$${page##*/}; done; }
uninstall: ## remove what install put there (the same DESTDIR and PREFIX)
	rm -f $(addprefix $(TO)/bin/,$(notdir $(PROGRAMS)))
	rm -f $(addprefix $(TO)/lib/,wm_cuda.so $(foreach e,openvino onnxruntime,wm_$e.so \
	    $(LIBRARIES_$e:%=$e/%)))
	rm -f $(addprefix $(TO)/,lib/libwiremill.so lib/libwiremill.so.1 lib/pkgconfig/wiremill.pc \
	    include/wiremill.h include/wiremill_engine.h)
	rm -f $(addprefix $(TO)/$(UNITDIR)/,$(UNITS)) $(addprefix $(TO)/$(DATADIR)/,$(notdir \
	    $(DATA)))
	rm -f $(TO)/$(MANDIR)/wiremill.1 $(TO)/$(MANDIR)/wiremill-*.1
	rm -f $(addprefix $(TO)/$(BASHDIR)/,$(notdir $(PROGRAMS)))
	rm -f $(addprefix $(TO)/$(DATADIR)/farm/,$(notdir $(PROFILES)))
	rm -rf $(TO)/$(DATADIR)/manual $(TO)/$(SITEDIR)
	rm -f $(TO)/share/man/man[57]/wiremill-*.[57]
	-rmdir $(addprefix $(TO)/,lib/openvino lib/onnxruntime $(DATADIR)/farm $(DATADIR)) 2>/dev/null

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
$(BUNDLE)/wiremill/bin/wiremill: ops/bundle/bundle.sh $(BUNDLE)/launch $(PROGRAMS) $(DOC)/.made \
    $(B)/lib/libwiremill.so.1 $(MODEL) $(PROFILES) $(PAGES) $(CUDA_SO) \
    $(if $(wildcard $(MANUAL_VENV)/.made),$(MANUAL)) \
    $(GENERAL:%=$(B)/lib/wm_%.so)
	$(call step,BUNDLE $(BUNDLE)/wiremill)
	$(Q)rm -rf $(BUNDLE)/installed && $(MAKE) --no-print-directory -s install DESTDIR= \
	    PREFIX="$(abspath $(BUNDLE)/installed)"
	$(Q)ops/bundle/bundle.sh $(B) $(BUNDLE)/installed $(BUNDLE)/launch $(BUNDLE)/wiremill $(ROOT) || { rm -rf \
	    $(BUNDLE)/wiremill; exit 1; }
	$(Q)rm -rf $(BUNDLE)/installed
# The Python package of ops/python with the bundle's libwiremill: pip installs it without a compiler.
.PHONY: wheel
wheel: $(WHEEL) ## the Python package, for pip, to $(B)/wheel
	@echo "pip install $(WHEEL)"
$(WHEEL): ops/python/build_wheel.py $(wildcard ops/python/wiremill/*) $(BUNDLE)/wiremill/bin/wiremill
	$(call step,WHEEL $@)
	$(Q)rm -f $(@D)/wiremill-*.whl && python3 $< $(BUNDLE)/wiremill $(VERSION) $@
