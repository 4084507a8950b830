# Builds, installs, tests, shows and measures Sovia. `make` alone builds.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT := $(TARGET)/release
VIPL := $(TARGET)/vipl
LIBDIR := $(DESTDIR)$(PREFIX)/lib
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

# `sovia` is linked statically where libc can be: dynamic linking takes a third of the time that
# `sovia run` adds to a program's start.
STATIC = $(if $(filter /%,$(shell cc -print-file-name=libc.a)),-C target-feature=+crt-static)

.PHONY: build install install-rpc uninstall setup test checked lab lab-short strangers soak soak-mpi scale stall fuzz miri tsan check-builds check-glibc deny nics ci-extra demo bench baseline compare matrix faults papers papers-ftp clean

# Calls of their own, so that a library gets the features that it asks for itself and none that
# another crate of the workspace switches on.
build:
	$(CARGO) build --release -p sovia-cli --bin sovia-bench --bin sovia-agent --bin sovia-lane --bin sovia-watch
	$(CARGO) rustc --release -p sovia-cli --bin sovia -- $(STATIC)
	$(CARGO) build --release -p sovia-preload
	$(CARGO) build --release -p sovia-c
	abi/sovia/link $(BUILT)/libsovia_c.a $(BUILT)/libsovia.so -Wl,--strip-debug
	ln -sf libsovia.so $(BUILT)/libsovia.so.1
	abi/rpc/build $(BUILT)
	$(CARGO) build --release -p sovia-fi-c
	mkdir -p $(BUILT)/fi
	cp --remove-destination $(BUILT)/libsovia_fi_c.so $(BUILT)/fi/libsovia-fi.so
	$(CARGO) build --profile vipl -p sovia-vipl
	abi/vipl/link $(VIPL)/libvipl.a $(VIPL)/libvipl.so -Wl,--strip-debug
	$(CARGO) build --profile vipl -p sovia-emp-c
	abi/emp/link $(VIPL)/libsovia_emp_c.a $(VIPL)/libsovia-emp.so -Wl,--strip-debug

# Takes what is built, so that `sudo make install` needs no compiler.
install:
	@test -x $(BUILT)/sovia -a -x $(BUILT)/sovia-bench -a -f $(BUILT)/libsovia_preload.so -a -f $(BUILT)/libsovia.so -a -f $(VIPL)/libvipl.so -a -f $(VIPL)/libsovia-emp.so || { echo "run \`make build\` first" >&2; exit 1; }
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/sovia
	install -m 755 $(BUILT)/sovia $(BUILT)/sovia-bench $(BUILT)/sovia-agent $(BUILT)/sovia-lane $(BUILT)/sovia-watch $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(BUILT)/libsovia_preload.so $(DESTDIR)$(PREFIX)/lib/sovia/libsovia_preload.so
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/doc/sovia
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-agent.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-agent.service
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-nic@.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-nic@.service
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-port@.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-port@.service
	sed 's|@PREFIX@|$(PREFIX)|g' cli/sovia-metrics.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-metrics.service
	install -m 644 docs/neighbours.md docs/hosts.md docs/ops.md docs/security.md $(DESTDIR)$(PREFIX)/share/doc/sovia/
	install -d $(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 644 include/vipl.h $(DESTDIR)$(PREFIX)/include/vipl.h
	install -m 644 include/sovia.h $(DESTDIR)$(PREFIX)/include/sovia.h
	install -m 644 $(BUILT)/libsovia_c.a $(LIBDIR)/libsovia.a
	-strip --strip-debug $(LIBDIR)/libsovia.a
	install -m 644 $(BUILT)/libsovia.so $(LIBDIR)/libsovia.so.$(VERSION)
	ln -sf libsovia.so.$(VERSION) $(LIBDIR)/libsovia.so.1
	ln -sf libsovia.so.1 $(LIBDIR)/libsovia.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' abi/sovia/sovia.pc.in >$(LIBDIR)/pkgconfig/sovia.pc
	chmod 644 $(LIBDIR)/pkgconfig/sovia.pc
	if [ -f $(BUILT)/libsovia-rpc.so ]; then $(MAKE) --no-print-directory install-rpc; fi
	install -d $(DESTDIR)$(PREFIX)/lib/sovia/fi
	install -m 644 $(BUILT)/fi/libsovia-fi.so $(DESTDIR)$(PREFIX)/lib/sovia/fi/libsovia-fi.so
	-strip --strip-debug $(DESTDIR)$(PREFIX)/lib/sovia/fi/libsovia-fi.so
	install -m 644 $(VIPL)/libvipl.a $(LIBDIR)/libvipl.a
	-strip --strip-debug $(LIBDIR)/libvipl.a
	install -m 644 $(VIPL)/libvipl.so $(LIBDIR)/libvipl.so.$(VERSION)
	ln -sf libvipl.so.$(VERSION) $(LIBDIR)/libvipl.so.1
	ln -sf libvipl.so.1 $(LIBDIR)/libvipl.so
	ln -sf libvipl.so.1 $(LIBDIR)/libgnivipl.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' abi/vipl/vipl.pc.in >$(LIBDIR)/pkgconfig/vipl.pc
	chmod 644 $(LIBDIR)/pkgconfig/vipl.pc
	install -m 644 include/emp.h $(DESTDIR)$(PREFIX)/include/emp.h
	install -m 644 $(VIPL)/libsovia_emp_c.a $(LIBDIR)/libsovia-emp.a
	-strip --strip-debug $(LIBDIR)/libsovia-emp.a
	install -m 644 $(VIPL)/libsovia-emp.so $(LIBDIR)/libsovia-emp.so.$(VERSION)
	ln -sf libsovia-emp.so.$(VERSION) $(LIBDIR)/libsovia-emp.so.1
	ln -sf libsovia-emp.so.1 $(LIBDIR)/libsovia-emp.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' abi/emp/sovia-emp.pc.in >$(LIBDIR)/pkgconfig/sovia-emp.pc
	chmod 644 $(LIBDIR)/pkgconfig/sovia-emp.pc

# Sun RPC, where `make build` has found libtirpc.
install-rpc:
	install -m 644 include/sovia_rpc.h $(DESTDIR)$(PREFIX)/include/sovia_rpc.h
	install -m 644 $(BUILT)/libsovia-rpc.a $(LIBDIR)/libsovia-rpc.a
	-strip --strip-debug $(LIBDIR)/libsovia-rpc.a
	install -m 644 $(BUILT)/libsovia-rpc.so $(LIBDIR)/libsovia-rpc.so.$(VERSION)
	-strip --strip-debug $(LIBDIR)/libsovia-rpc.so.$(VERSION)
	ln -sf libsovia-rpc.so.$(VERSION) $(LIBDIR)/libsovia-rpc.so.1
	ln -sf libsovia-rpc.so.1 $(LIBDIR)/libsovia-rpc.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' abi/rpc/sovia-rpc.pc.in >$(LIBDIR)/pkgconfig/sovia-rpc.pc
	chmod 644 $(LIBDIR)/pkgconfig/sovia-rpc.pc

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/sovia $(DESTDIR)$(PREFIX)/bin/sovia-bench $(DESTDIR)$(PREFIX)/bin/sovia-agent $(DESTDIR)$(PREFIX)/bin/sovia-lane $(DESTDIR)$(PREFIX)/bin/sovia-watch $(DESTDIR)$(PREFIX)/lib/sovia/libsovia_preload.so
	rm -f $(DESTDIR)$(PREFIX)/include/vipl.h $(LIBDIR)/pkgconfig/vipl.pc
	rm -f $(DESTDIR)$(PREFIX)/include/sovia.h $(LIBDIR)/pkgconfig/sovia.pc
	rm -f $(LIBDIR)/libsovia.a $(LIBDIR)/libsovia.so $(LIBDIR)/libsovia.so.1 $(LIBDIR)/libsovia.so.*.*.*
	rm -f $(LIBDIR)/libvipl.a $(LIBDIR)/libvipl.so $(LIBDIR)/libgnivipl.so $(LIBDIR)/libvipl.so.1 $(LIBDIR)/libvipl.so.*.*.*
	rm -f $(DESTDIR)$(PREFIX)/include/emp.h $(LIBDIR)/pkgconfig/sovia-emp.pc
	rm -f $(LIBDIR)/libsovia-emp.a $(LIBDIR)/libsovia-emp.so $(LIBDIR)/libsovia-emp.so.1 $(LIBDIR)/libsovia-emp.so.*.*.*
	rm -f $(DESTDIR)$(PREFIX)/include/sovia_rpc.h $(LIBDIR)/pkgconfig/sovia-rpc.pc
	rm -f $(LIBDIR)/libsovia-rpc.a $(LIBDIR)/libsovia-rpc.so $(LIBDIR)/libsovia-rpc.so.1 $(LIBDIR)/libsovia-rpc.so.*.*.*
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-agent.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-nic@.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-port@.service $(DESTDIR)$(PREFIX)/lib/systemd/system/sovia-metrics.service
	rm -f $(DESTDIR)$(PREFIX)/share/doc/sovia/neighbours.md $(DESTDIR)$(PREFIX)/share/doc/sovia/hosts.md $(DESTDIR)$(PREFIX)/share/doc/sovia/ops.md $(DESTDIR)$(PREFIX)/share/doc/sovia/security.md
	rm -f $(DESTDIR)$(PREFIX)/lib/sovia/fi/libsovia-fi.so
	-rmdir $(DESTDIR)$(PREFIX)/lib/sovia/fi
	-rmdir $(DESTDIR)$(PREFIX)/lib/sovia $(DESTDIR)$(PREFIX)/share/doc/sovia

# Programs that tests and demo drive; none of them is started.
setup:
	scripts/setup

# The last line is the count: `N passed, N failed, N skipped`.
test: setup build
	@scripts/test

# The differential suite over a debug build, counted in the same way.
checked: setup build
	@scripts/test checked

# The differential suite between two processes that may not trace each other; for root.
strangers: setup build
	@scripts/test strangers

# What needs a NIC with RDMA, in a QEMU guest that has one in software (docs/rdma.md). Skipped where there is no QEMU.
lab: setup
	@scripts/test lab

# The part of it that takes a minute or two: other projects' programs, and the cases that connect VIs.
lab-short: setup
	@scripts/test lab-short

# The tests that take long, counted in the same way.
soak: setup build
	@scripts/test soak

# Random messages among eight processes over the libfabric provider: shared memory and EMP with faults, kills and stops. MINUTES=n
# [60], SEED=n; the seed of a round that fails is printed.
soak-mpi:
	MINUTES=$(MINUTES) SEED=$(SEED) $(CARGO) test --release -p sovia-fi-c --test programs -- --ignored --nocapture random_messages_for_an_hour

# The differential suite over a build whose threads stand still at hand-overs, by a few seeds.
stall:
	scripts/stall

# Many nodes on a simulated network of switches: the tables of docs/scale.md, written anew; minutes. `make test` compares the
# small ones with what comes of the code of now, `make soak` all of them.
scale:
	ACCEPT=1 $(CARGO) test --release -p sovia-scale --test state --test tables --test written -- --include-ignored
	-git --no-pager diff --stat -- crates/sim/scale/tables

# What a hostile peer can write, coverage-guided: every target for so many seconds, or FUZZ_TARGET alone.
SECONDS ?= 60
fuzz:
	scripts/fuzz -s $(SECONDS) $(FUZZ_TARGET)

# The crates without system calls, under an interpreter that sees undefined behaviour.
miri:
	scripts/miri

# The engine's unit tests, both ends of a connection in one process, under ThreadSanitizer.
tsan:
	scripts/tsan

# That it compiles for each processor, and with the oldest compiler.
check-builds:
	scripts/check-builds

# That what is built asks for no newer glibc than README.md promises.
check-glibc: build
	scripts/check-glibc

# Licences, sources and known faults of the crates that it is built from, by cargo-deny where that is installed.
deny:
	scripts/deny

# The scenarios between two NICs in software, over a way that loses frames.
nics: setup build
	scripts/test nics

# What is too long for every change, and asks the same each time.
ci-extra: checked nics lab-short
	scripts/fuzz -n 20000

demo: setup build
	$(BUILT)/sovia demo

bench: build
	scripts/bench $(BUILT)/sovia

# How Sovia stands to the bare ring and to TCP, stored; and the same of now, beside what is stored. Ratios of one
# run, with their spread: no difference fails. Some minutes; RUNS=n for fewer.
BASELINE ?= bench/baseline.jsonl
baseline: build
	scripts/baseline $(BUILT)/sovia >$(TARGET)/baseline.jsonl
	install -D -m 644 $(TARGET)/baseline.jsonl $(BASELINE)

compare: build
	scripts/baseline $(BUILT)/sovia >$(TARGET)/compared.jsonl
	$(BUILT)/sovia bench compare $(BASELINE) $(TARGET)/compared.jsonl

# Real programs over TCP and over Sovia, checked and measured; those of `scripts/matrix --programs` that are installed.
# PAGE=docs/matrix.md writes the table to that page as well.
ROUNDS ?= 3
matrix: build
	scripts/matrix $(if $(PAGE),--page $(PAGE)) $(BUILT)/sovia $(ROUNDS)

# The same loads over Sovia alone, their processes stopped and killed at random moments, for so many minutes.
MINUTES ?= 60
faults: build
	scripts/faults $(BUILT)/sovia $(MINUTES) $(SEED)

# FTP's programs with SOCK_VIA for the data connection, from Debian's source, for the tests and `sovia bench ftp`.
papers-ftp: build
	scripts/papers-ftp $(TARGET)

# The papers' benchmarks, as a page with pictures.
papers: build papers-ftp
	$(BUILT)/sovia bench papers --out $(TARGET)/papers

clean:
	$(CARGO) clean
