# Builds, installs, tests, shows and measures Sovia. `make` alone builds.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT := $(TARGET)/release

.PHONY: build install uninstall setup test soak demo bench clean

# Two calls, so that the injected library gets the features that it asks for itself and none
# that another crate of the workspace switches on.
build:
	$(CARGO) build --release -p sovia-cli
	$(CARGO) build --release -p sovia-preload

# Takes what is built, so that `sudo make install` needs no compiler.
install:
	@test -x $(BUILT)/sovia -a -f $(BUILT)/libsovia_preload.so || { echo "run \`make build\` first" >&2; exit 1; }
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/sovia
	install -m 755 $(BUILT)/sovia $(DESTDIR)$(PREFIX)/bin/sovia
	install -m 644 $(BUILT)/libsovia_preload.so $(DESTDIR)$(PREFIX)/lib/sovia/libsovia_preload.so

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/sovia $(DESTDIR)$(PREFIX)/lib/sovia/libsovia_preload.so
	-rmdir $(DESTDIR)$(PREFIX)/lib/sovia

# Programs that tests and demo drive; none of them is started.
setup:
	scripts/setup

# The last line is the count: `N passed, N failed, N skipped`.
test: setup build
	@scripts/test

# The tests that take long, counted in the same way.
soak: setup build
	@scripts/test soak

demo: setup build
	$(BUILT)/sovia demo

bench: build
	scripts/bench $(BUILT)/sovia

clean:
	$(CARGO) clean
