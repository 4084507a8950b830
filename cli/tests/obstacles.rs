//! Checks programs that cannot load the library: `sovia run` prints one line, and they run like without it.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{Bench, Said, is_there, skipped};

const HELLO: &str = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 5; }";
/// Source of a program that starts another one, like a static launcher.
const LAUNCH: &str = "#include <stdlib.h>\nint main(void) { return system(\"/bin/true\"); }";

#[track_caller]
fn says(said: &Said, words: &[&str]) {
    let line = said.err.lines().next().unwrap_or_default();
    assert!(line.starts_with("sovia: "), "{said:?}");
    for word in words {
        assert!(line.contains(word), "no `{word}` in {said:?}");
    }
}

#[track_caller]
fn ran_plainly(said: &Said, words: &[&str]) {
    says(said, words);
    assert_eq!((said.out.as_str(), said.code(), said.loads()), ("hello\n", 5, 0), "{said:?}");
    assert_eq!(said.err.lines().count(), 1, "{said:?}");
}

#[test]
fn a_dynamic_program_gets_no_line() {
    let bench = Bench::new();
    assert!(bench.cc("hello", HELLO, &[]));
    let said = bench.run(["./hello"]);
    assert_eq!((said.code(), said.err.as_str()), (5, "[loaded]"));
}

/// With the library, the dynamic linker would end this program.
#[test]
fn a_program_with_little_room_for_data_runs_without_the_library() {
    let bench = Bench::new();
    assert!(bench.cc("hello", HELLO, &[]));
    let mut sovia = bench.sovia();
    // SAFETY: setrlimit is async-signal-safe, so a forked child may call it before exec.
    unsafe {
        sovia.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 2100 << 10, rlim_max: 2100 << 10 };
            match libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let said = Said::from(sovia.arg("./hello").output().unwrap());
    ran_plainly(&said, &["ulimit -d", "plain TCP"]);
}

#[test]
fn quiet_run_prints_no_warning_about_a_static_program() {
    let bench = Bench::new();
    if !bench.cc("static", HELLO, &["-static"]) {
        return skipped(
            "quiet_run_prints_no_warning_about_a_static_program",
            "cc -static does not work here",
        );
    }
    let said = bench.run(["-q", "./static"]);
    assert_eq!((said.out.as_str(), said.code(), said.err.as_str()), ("hello\n", 5, ""), "{said:?}");
    // `-q` leaves errors in the output.
    let said = bench.run(["-q", "./no-such-program"]);
    assert!(said.code() == 127 && said.err.contains("no-such-program"), "{said:?}");
}

#[test]
fn static_programs() {
    let bench = Bench::new();
    for (name, flag) in [("static", "-static"), ("static-pie", "-static-pie")] {
        if bench.cc(name, HELLO, &[flag]) {
            ran_plainly(&bench.run([format!("./{name}")]), &[name, "statically linked"]);
        } else {
            skipped("static_programs", &format!("cc {flag} does not work here"));
        }
    }
}

#[test]
fn what_a_static_program_starts_is_accelerated() {
    let bench = Bench::new();
    if !bench.cc("launch", LAUNCH, &["-static"]) {
        return skipped(
            "what_a_static_program_starts_is_accelerated",
            "cc -static does not work here",
        );
    }
    // The shell of system() loads the library. So does /bin/true, unless the shell executes it in its own process.
    assert!(bench.run(["./launch"]).loads() >= 1);
}

#[test]
fn a_script_of_a_static_interpreter() {
    let bench = Bench::new();
    if !bench.cc("interpreter", HELLO, &["-static"]) {
        return skipped("a_script_of_a_static_interpreter", "cc -static does not work here");
    }
    let line = format!("#!{} -x\n", bench.path("interpreter").display());
    bench.file("script", line, 0o755);
    ran_plainly(&bench.run(["./script"]), &["./script", "interpreter", "statically linked"]);

    bench.file("by-env", "#!/usr/bin/env interpreter\n", 0o755);
    let path = format!("{}:/usr/bin:/bin", bench.path(".").display());
    let said = Said::from(bench.sovia().arg("./by-env").env("PATH", path).output().unwrap());
    says(&said, &["by-env", "interpreter", "statically linked"]);
    // `env` itself is dynamic, so it loads the library.
    assert_eq!((said.code(), said.loads()), (5, 1));
}

#[test]
fn scripts() {
    let bench = Bench::new();
    bench.file("script", "#!/bin/sh\necho hello $1\n", 0o755);
    let said = bench.run(["./script", "you"]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("hello you\n", "[loaded]"));

    bench.file("bare", "echo hello $1\n", 0o755);
    let said = bench.run(["./bare", "you"]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("hello you\n", "[loaded]"));
}

#[test]
fn a_missing_interpreter_is_named() {
    let bench = Bench::new();
    bench.file("script", "#!/no/such/interpreter\n", 0o755);
    assert!(bench.cc("linked", HELLO, &["-Wl,--dynamic-linker=/no/such/ld-linux.so.2"]));
    for (program, missing) in
        [("./script", "/no/such/interpreter"), ("./linked", "/no/such/ld-linux.so.2")]
    {
        for way in [&[][..], &["-v"]] {
            let said = bench.run(way.iter().copied().chain([program]));
            says(&said, &[program, missing, "missing"]);
            assert_eq!(said.code(), 127);
        }
    }
}

#[test]
fn another_libc() {
    let bench = Bench::new();
    // Most machines do not have musl's linker. So glibc's linker under musl's name stands in for it.
    let linker = bench.path("ld-musl-test.so.1");
    let found = std::fs::read_link("/lib64/ld-linux-x86-64.so.2")
        .ok()
        .map(|_| "/lib64/ld-linux-x86-64.so.2")
        .or_else(|| {
            std::path::Path::new("/lib/ld-linux-aarch64.so.1")
                .exists()
                .then_some("/lib/ld-linux-aarch64.so.1")
        });
    let Some(found) = found else {
        return skipped("another_libc", "glibc's linker is not where it is expected");
    };
    std::fs::copy(found, &linker).unwrap();
    std::fs::set_permissions(&linker, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(bench.cc("hello", HELLO, &[&format!("-Wl,--dynamic-linker={}", linker.display())]));
    ran_plainly(&bench.run(["./hello"]), &["./hello", "ld-musl-test.so.1", "instead of glibc"]);
}

/// Links the stand-in for the library with another library. Then replaces that one by a version with the symbols
/// `left`, or removes it.
fn with_needed(left: Option<&str>) -> Bench {
    const NEEDED: &str = "int needed(void) { return 0; }";
    let bench = Bench::new();
    assert!(bench.cc("hello", HELLO, &[]));
    let map = |versions: &str| {
        let file = bench.file("map", versions, 0o644);
        format!("-Wl,--version-script={}", file.display())
    };
    let library = |versions: &str| {
        assert!(bench.cc("libneeded.so", NEEDED, &["-shared", "-fPIC", &map(versions)]));
    };
    library("ONE { global: other; }; TWO { global: needed; };");
    let folder = bench.path(".");
    let (at, run) = (format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display()));
    let source = "int needed(void); int calls(void) { return needed(); }";
    let flags = ["-shared", "-fPIC", &at, &run, "-lneeded"];
    assert!(bench.cc("preload.so", source, &flags));
    match left {
        Some(versions) => library(versions),
        None => std::fs::remove_file(bench.path("libneeded.so")).unwrap(),
    }
    bench
}

#[test]
fn library_with_missing_dependencies_is_left_out() {
    for left in [None, Some("ONE { global: needed; };")] {
        let bench = with_needed(left);
        ran_plainly(&bench.run(["./hello"]), &["./hello", "preload.so", "cannot load"]);
        bench.file("script", format!("#!{} -x\n", bench.path("hello").display()), 0o755);
        ran_plainly(&bench.run(["./script"]), &["./script", "libneeded.so"]);
        let said = bench.run(["-q", "./hello"]);
        assert_eq!((said.code(), said.err.as_str()), (5, ""), "{said:?}");
    }
    // All required versions exist, in a folder that only the linker searches.
    let bench = with_needed(Some("ONE { global: other; }; TWO { global: needed; };"));
    let said = bench.run(["./hello"]);
    assert_eq!((said.code(), said.err.as_str()), (5, ""), "{said:?}");
}

#[test]
fn a_pipe_in_the_place_of_the_library_holds_up_nothing() {
    let bench = Bench::new();
    assert!(bench.cc("hello", HELLO, &[]));
    let library = bench.path("preload.so");
    std::fs::remove_file(&library).unwrap();
    nix::unistd::mkfifo(&library, nix::sys::stat::Mode::S_IRWXU).unwrap();
    ran_plainly(&bench.run(["./hello"]), &["./hello", "preload.so", "not a regular file"]);
}

#[test]
fn another_processor() {
    let bench = Bench::new();
    assert!(bench.cc("hello", HELLO, &[]));
    let mut bytes = std::fs::read(bench.path("hello")).unwrap();
    // Sets the field e_machine to SPARC, in this machine's byte order.
    bytes[18..20].copy_from_slice(&2u16.to_ne_bytes());
    bench.file("sparc", bytes, 0o755);
    let said = bench.run(["./sparc"]);
    says(&said, &["./sparc", "another kind of processor"]);
    // The file must not be run as a shell script.
    assert_eq!(said.code(), 126);
    assert_eq!(said.err.lines().count(), 2, "{said:?}");
}

#[test]
fn a_32_bit_program() {
    let bench = Bench::new();
    if !bench.cc("hello", HELLO, &["-m32"]) {
        return skipped("a_32_bit_program", "no 32-bit C library is installed");
    }
    ran_plainly(&bench.run(["./hello"]), &["./hello", "another kind of processor"]);
}

#[test]
fn a_go_program() {
    let bench = Bench::new();
    if !is_there("go") {
        return skipped("a_go_program", "no Go compiler is installed");
    }
    let source = bench.path("hello.go");
    std::fs::write(&source, "package main\nfunc main() { println(\"hello\") }\n").unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(bench.path("hello")).arg(&source);
    // Compiling Go's own packages takes long. The cache serves later runs.
    let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");
    go.env("CGO_ENABLED", "0").env("GOCACHE", cache).env("GO111MODULE", "off");
    assert!(go.status().unwrap().success());
    says(&bench.run(["./hello"]), &["./hello", "statically linked", "Go program"]);
}

/// Runs `program` under `sovia run` as another user, who may enter its folder.
fn as_nobody(bench: &Bench, program: &str) -> Said {
    let folder = bench.path(".");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    // Uses a copy of `sovia`, because other users may not be able to enter the build folder.
    let sovia = bench.path("sovia");
    std::fs::copy(env!("CARGO_BIN_EXE_sovia"), &sovia).unwrap();
    let mut command = Command::new(sovia);
    command.args(["run", program]).current_dir(folder).uid(65534).gid(65534).env("SAY_LOADED", "1");
    Said::from(command.env("SOVIA_PRELOAD", bench.path("preload.so")).output().unwrap())
}

/// Returns the reason why no program can gain rights here, if there is one.
fn no_rights_to_gain(bench: &Bench) -> Option<&'static str> {
    let fs = nix::sys::statvfs::statvfs(&bench.path(".")).unwrap();
    if !nix::unistd::geteuid().is_root() {
        Some("only root can make such programs")
    } else if fs.flags().contains(nix::sys::statvfs::FsFlags::ST_NOSUID) {
        Some("the folder for temporary files is mounted nosuid")
    } else if nix::sys::prctl::get_no_new_privs().unwrap() {
        Some("this process may gain no privileges")
    } else {
        None
    }
}

#[test]
fn programs_that_gain_rights() {
    let bench = Bench::new();
    if let Some(why) = no_rights_to_gain(&bench) {
        return skipped("programs_that_gain_rights", why);
    }
    for (name, mode, word) in [("suid", 0o4755, "setuid"), ("sgid", 0o2755, "setgid")] {
        assert!(bench.cc(name, HELLO, &[]));
        chown(bench.path(name), Some(0), Some(0)).unwrap();
        std::fs::set_permissions(bench.path(name), PermissionsExt::from_mode(mode)).unwrap();
        ran_plainly(&as_nobody(&bench, &format!("./{name}")), &[name, word]);
        // Root gains no rights by these marks.
        assert_eq!(bench.run([format!("./{name}")]).loads(), 1);
    }
}

#[test]
fn programs_with_file_capabilities() {
    let bench = Bench::new();
    if let Some(why) = no_rights_to_gain(&bench) {
        return skipped("programs_with_file_capabilities", why);
    }
    assert!(bench.cc("caps", HELLO, &[]));
    let mut setcap = Command::new("setcap");
    let set = setcap.arg("cap_net_raw+ep").arg(bench.path("caps")).output();
    if !set.is_ok_and(|output| output.status.success()) {
        return skipped("programs_with_file_capabilities", "setcap does not work here");
    }
    ran_plainly(&as_nobody(&bench, "./caps"), &["./caps", "capabilities"]);
}

/// The kernel takes a linker's name without a slash as a file in the current folder.
#[test]
fn a_linker_without_a_slash_is_not_searched_for() {
    let bench = Bench::new();
    let linker = "ld-linux-x86-64.so.2";
    let real = std::path::Path::new("/lib64").join(linker);
    let flag = format!("-Wl,--dynamic-linker={linker}");
    if !real.exists() || !bench.cc("hello", HELLO, &[&flag]) {
        let why = "no linker of that name here";
        return skipped("a_linker_without_a_slash_is_not_searched_for", why);
    }
    std::fs::copy(real, bench.path(linker)).unwrap();
    // A file of this name in PATH is not the program's linker.
    std::fs::create_dir(bench.path("bin")).unwrap();
    bench.file(&format!("bin/{linker}"), "#!/bin/sh\necho 'libc.so.6 => not found'\n", 0o755);
    let mut sovia = bench.sovia();
    sovia.arg("./hello").env("PATH", bench.path("bin"));
    let said = Said::from(sovia.output().unwrap());
    assert_eq!((said.code(), said.out.as_str(), said.err.as_str()), (5, "hello\n", "[loaded]"));
}
