# manual.mk - make manual: the site and manual pages of sections 5 and 7, by Sphinx from PyPI. Nothing else needs it.

MANUAL      := $(B)/manual/html/index.html
MANUAL_VENV := build/venv-manual
MANUAL_TEXT := $(shell find ops/manual -type f -not -name '*.pyc') $(addprefix schema/,FORMATS.md OUTPUTS.md \
    SECURITY.md CONFINEMENT.md) ops/farm/PROFILES.md ops/CHANGELOG.md \
    $(wildcard ops/python/wiremill/*.py) schema/ledger.sql
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
	$(Q)WM_RUN="$(RUN)" python3 ops/manual/assemble.py $(B)/manual/source $(B)
	$(Q)for kind in html man; do WM_VERSION=$(VERSION) PYTHONPATH=ops/python $(MANUAL_VENV)/bin/python -m sphinx -q -W \
	    --keep-going -b $$kind -d $(B)/manual/doctrees $(B)/manual/source $(B)/manual/$$kind || { rm -f $@; exit 1; }; done
	$(Q)touch $@

# The event of README.md, which is stored: the same command draws the same bytes on every machine.
PICTURE := ops/manual/pictures/event.svg
.PHONY: picture
picture: all ## the event of README.md again: made, scored and drawn, to build/picture
	$(Q)rm -rf build/picture && mkdir -p build/picture
	$(Q)$(B)/bin/wiremill synth --events 1 --hits 9000 --tpcs 1 --seed 8 --output build/picture/event.h5
	$(Q)$(B)/bin/wiremill run --quiet --model synthetic --input build/picture/event.h5 --output build/picture/out
	$(Q)$(B)/bin/wiremill show build/picture/out/event.scores.h5 --output build/picture/event.svg
	@cmp build/picture/event.svg $(PICTURE) && echo "$(PICTURE) is as it was" || \
	    echo "look at build/picture/event.svg, and copy it to $(PICTURE)"
.PHONY: screens
screens: all deps-browser ## the manual's screenshots again, to ops/manual/pictures (needs tmux)
	ops/manual/pictures/screens.sh $(B)/bin ops/manual/pictures
.PHONY: diagrams
diagrams: ## the manual's diagrams again, to ops/manual/pictures
	python3 ops/manual/pictures/draw.py
