# Builds, installs, tests, shows and measures Sovia. `make` alone builds.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT := $(TARGET)/release
# Folder of the libraries for other programs; distributions use other folders.
LIBDIR ?= $(PREFIX)/lib
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
MANUAL := $(BUILT)/manual
# Fills in the files by which pkg-config finds a library.
FILL_PC = sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|; s|@VERSION@|$(VERSION)|'

# `sovia` is linked statically if libc can be. Otherwise dynamic linking would take a third of the
# time that `sovia run` adds to a program's start.
STATIC = $$(case $$(cc -print-file-name=libc.a) in /*) echo -C target-feature=+crt-static ;; esac)
BUILD_SOVIA = $(CARGO) rustc --release -p sovia-cli --bin sovia -- $(STATIC)
# Several codegen units: one unit takes minutes on one processor, and gains nothing that `sovia bench`
# shows.
BUILD_TOOLS = $(CARGO) rustc --release -p sovia-cli --bin sovia-tools -- -C lto=thin -C codegen-units=16

.PHONY: build install install-rpc packages deb rpm tar try-packages try-distributions try-containers try-upgrade crates uninstall check test test-all arm checked installed lab lab-short nics protocols soak stall strangers lab-soak soak-mpi scale fuzz miri tsan check-builds check-glibc check-abi deny demo bench baseline compare matrix faults papers papers-ftp book clean

# One call for all libraries puts them into one folder.
build:
	$(CARGO) build --release $(addprefix -p ,sovia-cli sovia-preload sovia-c sovia-fi-c sovia-vipl sovia-emp-c) --lib
	$(BUILD_TOOLS)
	$(BUILD_SOVIA)
	$(BUILT)/sovia-tools manual $(MANUAL)
	abi/sovia/link $(BUILT)/libsovia_c.a $(BUILT)/libsovia.so -Wl,--strip-debug
	ln -sf libsovia.so $(BUILT)/libsovia.so.1
	abi/rpc/build $(BUILT)
	mkdir -p $(BUILT)/fi
	cp --remove-destination $(BUILT)/libsovia_fi_c.so $(BUILT)/fi/libsovia-fi.so
	abi/vipl/link $(BUILT)/libvipl.a $(BUILT)/libvipl.so -Wl,--strip-debug
	abi/emp/link $(BUILT)/libsovia_emp_c.a $(BUILT)/libsovia-emp.so -Wl,--strip-debug

# Installs the built files, so that `sudo make install` needs no compiler.
install:
	@test -x $(BUILT)/sovia -a -d $(MANUAL)/man1 -a -f $(BUILT)/libsovia_preload.so -a -f $(BUILT)/libsovia.so -a -f $(BUILT)/libvipl.so -a -f $(BUILT)/libsovia-emp.so || { echo "run \`make build\` first" >&2; exit 1; }
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/sovia
	for program in sovia sovia-tools; do scripts/put $(BUILT)/$$program $(DESTDIR)$(PREFIX)/bin/$$program || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MANUAL)/man1/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -D -m 644 $(MANUAL)/bash/sovia $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sovia
	install -D -m 644 $(MANUAL)/zsh/_sovia $(DESTDIR)$(ZSHDIR)/_sovia
	install -D -m 644 $(MANUAL)/fish/sovia.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/sovia.fish
	scripts/put -m 644 $(BUILT)/libsovia_preload.so $(DESTDIR)$(PREFIX)/lib/sovia/libsovia_preload.so
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-agent.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-agent.service
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-filters.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-filters.service
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-nic@.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-nic@.service
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-port@.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-port@.service
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-metrics.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-metrics.service
	scripts/put-docs $(DESTDIR)$(PREFIX)/share/doc/sovia
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 644 include/vipl.h $(DESTDIR)$(PREFIX)/include/vipl.h
	install -m 644 include/sovia.h $(DESTDIR)$(PREFIX)/include/sovia.h
	install -m 644 $(BUILT)/libsovia_c.a $(DESTDIR)$(LIBDIR)/libsovia.a
	-strip --strip-debug $(DESTDIR)$(LIBDIR)/libsovia.a
	scripts/put -m 644 $(BUILT)/libsovia.so $(DESTDIR)$(LIBDIR)/libsovia.so.$(VERSION)
	ln -sf libsovia.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libsovia.so.1
	ln -sf libsovia.so.1 $(DESTDIR)$(LIBDIR)/libsovia.so
	$(FILL_PC) abi/sovia/sovia.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/sovia.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/sovia.pc
	if [ -f $(BUILT)/libsovia-rpc.so ]; then $(MAKE) --no-print-directory install-rpc; fi
	install -d $(DESTDIR)$(PREFIX)/lib/sovia/fi
	scripts/put -s -m 644 $(BUILT)/fi/libsovia-fi.so $(DESTDIR)$(PREFIX)/lib/sovia/fi/libsovia-fi.so
	install -m 644 $(BUILT)/libvipl.a $(DESTDIR)$(LIBDIR)/libvipl.a
	-strip --strip-debug $(DESTDIR)$(LIBDIR)/libvipl.a
	scripts/put -m 644 $(BUILT)/libvipl.so $(DESTDIR)$(LIBDIR)/libvipl.so.$(VERSION)
	ln -sf libvipl.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libvipl.so.1
	ln -sf libvipl.so.1 $(DESTDIR)$(LIBDIR)/libvipl.so
	ln -sf libvipl.so.1 $(DESTDIR)$(LIBDIR)/libgnivipl.so
	$(FILL_PC) abi/vipl/vipl.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/vipl.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/vipl.pc
	install -m 644 include/emp.h $(DESTDIR)$(PREFIX)/include/emp.h
	install -m 644 $(BUILT)/libsovia_emp_c.a $(DESTDIR)$(LIBDIR)/libsovia-emp.a
	-strip --strip-debug $(DESTDIR)$(LIBDIR)/libsovia-emp.a
	scripts/put -m 644 $(BUILT)/libsovia-emp.so $(DESTDIR)$(LIBDIR)/libsovia-emp.so.$(VERSION)
	ln -sf libsovia-emp.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libsovia-emp.so.1
	ln -sf libsovia-emp.so.1 $(DESTDIR)$(LIBDIR)/libsovia-emp.so
	$(FILL_PC) abi/emp/sovia-emp.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/sovia-emp.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/sovia-emp.pc

# Sun RPC, if `make build` has found libtirpc.
install-rpc:
	install -m 644 include/sovia_rpc.h $(DESTDIR)$(PREFIX)/include/sovia_rpc.h
	install -m 644 $(BUILT)/libsovia-rpc.a $(DESTDIR)$(LIBDIR)/libsovia-rpc.a
	-strip --strip-debug $(DESTDIR)$(LIBDIR)/libsovia-rpc.a
	scripts/put -s -m 644 $(BUILT)/libsovia-rpc.so $(DESTDIR)$(LIBDIR)/libsovia-rpc.so.$(VERSION)
	ln -sf libsovia-rpc.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libsovia-rpc.so.1
	ln -sf libsovia-rpc.so.1 $(DESTDIR)$(LIBDIR)/libsovia-rpc.so
	$(FILL_PC) abi/rpc/sovia-rpc.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/sovia-rpc.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/sovia-rpc.pc

# Makes packages of the built files in target/packages. Each target installs the tools that it needs, and fails
# without them.
packages: build
	@for kind in deb rpm tar; do scripts/setup $$kind && scripts/package $$kind || exit 1; done

deb rpm tar: build
	@scripts/setup $@
	@scripts/package $@

# Tests the packages in a Debian of their own: installs, uses, upgrades under load, and removes them. Needs root and
# debootstrap.
try-packages: packages
	scripts/try-packages
	scripts/try-archives

# Tests the package in a chroot of each of some other distributions, on this machine's kernel. Needs root and debootstrap.
try-distributions: packages
	scripts/try-distributions

# Tests the recipes for containers, Compose and pods with podman in separate namespaces. Needs root and debootstrap.
try-containers: packages
	scripts/try-containers

# Packs the crates as for crates.io, and builds each from the packed files alone.
crates:
	$(CARGO) publish --dry-run --workspace --locked

# Tests an older version beside this one. OLD is its commit.
try-upgrade: build
	@test -n "$(OLD)" || { echo "try-upgrade: name the older version: make try-upgrade OLD=COMMIT" >&2; exit 2; }
	test -d $(TARGET)/old/source || git clone --quiet . $(TARGET)/old/source
	git -C $(TARGET)/old/source fetch --quiet && git -C $(TARGET)/old/source checkout --quiet $(OLD)
	CARGO_TARGET_DIR=$(abspath $(TARGET))/old $(CARGO) build --release -p sovia-cli --manifest-path $(TARGET)/old/source/Cargo.toml
	CARGO_TARGET_DIR=$(abspath $(TARGET))/old $(CARGO) build --release -p sovia-preload --manifest-path $(TARGET)/old/source/Cargo.toml
	scripts/try-upgrade $(TARGET)/old/release $(BUILT) $(OLD)

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,sovia sovia-tools) $(DESTDIR)$(PREFIX)/lib/sovia/libsovia_preload.so
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/sovia.1 $(DESTDIR)$(PREFIX)/share/man/man1/sovia-*.1
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sovia $(DESTDIR)$(ZSHDIR)/_sovia $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/sovia.fish
	rm -f $(DESTDIR)$(PREFIX)/include/vipl.h $(DESTDIR)$(LIBDIR)/pkgconfig/vipl.pc
	rm -f $(DESTDIR)$(PREFIX)/include/sovia.h $(DESTDIR)$(LIBDIR)/pkgconfig/sovia.pc
	rm -f $(DESTDIR)$(LIBDIR)/libsovia.a $(DESTDIR)$(LIBDIR)/libsovia.so $(DESTDIR)$(LIBDIR)/libsovia.so.1 $(DESTDIR)$(LIBDIR)/libsovia.so.*.*.*
	rm -f $(DESTDIR)$(LIBDIR)/libvipl.a $(DESTDIR)$(LIBDIR)/libvipl.so $(DESTDIR)$(LIBDIR)/libgnivipl.so $(DESTDIR)$(LIBDIR)/libvipl.so.1 $(DESTDIR)$(LIBDIR)/libvipl.so.*.*.*
	rm -f $(DESTDIR)$(PREFIX)/include/emp.h $(DESTDIR)$(LIBDIR)/pkgconfig/sovia-emp.pc
	rm -f $(DESTDIR)$(LIBDIR)/libsovia-emp.a $(DESTDIR)$(LIBDIR)/libsovia-emp.so $(DESTDIR)$(LIBDIR)/libsovia-emp.so.1 $(DESTDIR)$(LIBDIR)/libsovia-emp.so.*.*.*
	rm -f $(DESTDIR)$(PREFIX)/include/sovia_rpc.h $(DESTDIR)$(LIBDIR)/pkgconfig/sovia-rpc.pc
	rm -f $(DESTDIR)$(LIBDIR)/libsovia-rpc.a $(DESTDIR)$(LIBDIR)/libsovia-rpc.so $(DESTDIR)$(LIBDIR)/libsovia-rpc.so.1 $(DESTDIR)$(LIBDIR)/libsovia-rpc.so.*.*.*
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-agent.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-filters.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-nic@.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-port@.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-metrics.service
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/sovia
	rm -f $(DESTDIR)$(PREFIX)/lib/sovia/fi/libsovia-fi.so
	-rmdir $(DESTDIR)$(PREFIX)/lib/sovia/fi
	-rmdir $(DESTDIR)$(PREFIX)/lib/sovia

# Quick tests after every change: at most five minutes once everything is built.
check:
	@scripts/setup test
	$(CARGO) fmt --check
	$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	scripts/fuzz -c
	scripts/prose
	scripts/prose --count
	@scripts/lines
	@scripts/test check

# Tests everything that a change can break in its usual configuration. The last line is the count: `N passed, N
# failed, N skipped`.
test:
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@scripts/test test

# Runs every test in every configuration, the lab, faults, stalls and fuzzing. Takes hours.
test-all:
	@scripts/setup all
	@$(MAKE) --no-print-directory build
	@scripts/test all

# Parts of `make test-all`; tests/README.md describes each.
arm checked installed lab lab-short nics protocols soak stall strangers:
	@scripts/setup all
	@$(MAKE) --no-print-directory build
	@scripts/test $@

# Kills peers and takes links down in the lab's guest while messages move. MINUTES=n [60], SEED=n; the seed is
# printed.
lab-soak:
	@scripts/setup all
	@$(MAKE) --no-print-directory build
	MINUTES=$(MINUTES) SEED=$(SEED) scripts/lab/tests soak

# Sends random messages among eight processes over the libfabric provider: over shared memory, and over EMP with
# faults, kills and stops. MINUTES=n [60], SEED=n; a failure prints its round's seed.
soak-mpi:
	MINUTES=$(MINUTES) SEED=$(SEED) $(CARGO) test --release -p sovia-fi-c --test all -- --ignored --nocapture random_messages_for_an_hour

# Rewrites the tables of docs/research/scale.md: many nodes on a simulated network of switches. Takes minutes. `make
# test` compares the small tables with the results of the present code, `make soak` all of them.
scale:
	ACCEPT=1 $(CARGO) test --release -p sovia-scale --test all -- --include-ignored state:: tables:: written::
	-git --no-pager diff --stat -- crates/sim/scale/tables

# Fuzzes the input that a hostile peer controls, guided by coverage: each target for SECONDS, or
# FUZZ_TARGET alone.
SECONDS ?= 60
fuzz:
	scripts/fuzz -s $(SECONDS) $(FUZZ_TARGET)

# Tests the crates that make no system calls in Miri, which finds undefined behaviour.
miri:
	scripts/miri

# Runs the engine's unit tests under ThreadSanitizer, with both ends of a connection in one process.
tsan:
	scripts/tsan

# Compiles for each processor, and with the oldest supported compiler.
check-builds:
	scripts/check-builds

# Checks that the binaries need no newer glibc than README.md promises.
check-glibc: build
	scripts/check-glibc

# Checks that programs linked with earlier C libraries still find all symbols.
check-abi: build
	scripts/check-abi

# Checks licences, sources and known faults of the dependencies with cargo-deny, if that is installed.
deny:
	scripts/deny

# Runs the example of README: Redis over TCP and over Sovia. PICTURE=docs/demo.svg draws the picture to which README links.
demo:
	@scripts/setup demo
	$(CARGO) build --release -p sovia-cli -p sovia-preload --lib
	$(BUILD_TOOLS)
	$(BUILD_SOVIA)
	$(BUILT)/sovia demo $(if $(PICTURE),--picture $(PICTURE))

bench: build
	scripts/bench $(BUILT)/sovia

# Store the ratios of Sovia to the bare ring and to TCP, and compare new ones with the stored ones. Each ratio is
# of one run, and is printed with its spread. No difference fails. Takes some minutes; RUNS=n changes the runs.
BASELINE ?= bench/baseline.jsonl
baseline: build
	scripts/baseline $(BUILT)/sovia >$(TARGET)/baseline.jsonl
	install -D -m 644 $(TARGET)/baseline.jsonl $(BASELINE)

compare: build
	scripts/baseline $(BUILT)/sovia >$(TARGET)/compared.jsonl
	$(BUILT)/sovia bench compare $(BASELINE) $(TARGET)/compared.jsonl

# Checks and measures real programs over TCP and over Sovia: those of `scripts/matrix --programs` that are installed.
# PAGE=docs/research/matrix.md writes the table to that page as well.
ROUNDS ?= 3
matrix: build
	scripts/matrix $(if $(PAGE),--page $(PAGE)) $(BUILT)/sovia $(ROUNDS)

# Runs the same loads over Sovia alone for MINUTES, and stops and kills their processes at random moments.
MINUTES ?= 60
faults: build
	scripts/faults $(BUILT)/sovia $(MINUTES) $(SEED)

# Builds Debian's FTP programs with SOCK_VIA for the data connection, for the tests and `sovia bench ftp`.
papers-ftp: build
	scripts/papers-ftp $(TARGET)

# Builds the documentation as a book with mdBook, with the report of `make papers` if there is one.
book:
	scripts/book $(TARGET)

# Runs the papers' benchmarks, and makes a page with figures.
papers: build papers-ftp
	$(BUILT)/sovia bench papers --out $(TARGET)/papers

clean:
	$(CARGO) clean
