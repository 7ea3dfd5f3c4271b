# manual.mk - make manual: the site and manual pages of sections 5 and 7, by Sphinx from PyPI. Nothing else needs it.

MANUAL      := $(B)/manual/html/index.html
MANUAL_VENV := build/venv-manual
MANUAL_TEXT := $(shell find ops/manual -type f -not -name '*.pyc') $(addprefix schema/,FORMATS.md OUTPUTS.md \
    SECURITY.md CONFINEMENT.md) ops/farm/PROFILES.md ops/CHANGELOG.md
.PHONY: manual deps-manual
##@ install and ship
manual: deps-manual ## the manual as a site, to $(B)/manual/html (fetches Sphinx from PyPI, 40 MB)
	@$(AGAIN) $(MANUAL) && echo "open in a browser: $(abspath $(MANUAL))"
deps-manual:
	@[ $(MANUAL_VENV)/.made -nt ops/manual/requirements.txt ] || { echo "  PIP   ops/manual/requirements.txt"; \
	    rm -rf $(MANUAL_VENV); python3 -m venv $(MANUAL_VENV) && $(MANUAL_VENV)/bin/python -m pip -q install -r \
	    ops/manual/requirements.txt && touch $(MANUAL_VENV)/.made; }
$(MANUAL): $(MANUAL_TEXT) $(PROGRAMS)
	$(call step,MANUAL $(@D))
	$(Q)python3 ops/manual/assemble.py $(B) $(B)/manual/source
	$(Q)for kind in html man; do WM_VERSION=$(VERSION) PYTHONPATH=ops/python $(MANUAL_VENV)/bin/python -m sphinx -q -W \
	    --keep-going -b $$kind -d $(B)/manual/doctrees $(B)/manual/source $(B)/manual/$$kind || exit 1; done
	$(Q)touch $@
