//! io_uring, whose operations bypass every hook.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sovia_tests::{Launch, Stack, TempDir};

/// Builds a program that prints the results of liburing's functions and of the system call.
fn program(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("rings.c"), folder.join("rings"));
    let text = r#"
        #include <errno.h>
        #include <liburing.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void) {
            struct io_uring ring;
            struct io_uring_params parameters;
            printf("%d ", io_uring_queue_init(8, &ring, 0));
            memset(&parameters, 0, sizeof parameters);
            printf("%d ", io_uring_queue_init_params(8, &ring, &parameters));
            memset(&parameters, 0, sizeof parameters);
            printf("%d\n", syscall(SYS_io_uring_setup, 8, &parameters) < 0 ? -errno : 0);
        }"#;
    fs::write(&source, text).expect("a source file");
    let mut cc = Command::new("cc");
    cc.arg(&source).arg("-o").arg(&program).arg("-luring");
    assert!(cc.status().expect("a C compiler named cc").success());
    program
}

/// Looks up functions that newer versions of liburing have, because the installed version need not have them.
#[test]
fn newer_functions_say_the_same() {
    let folder = TempDir::new();
    let (source, program) = (folder.path().join("newer.c"), folder.path().join("newer"));
    let text = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        int main(void) {
            char place[4096] = {0};
            int (*by_memory)(unsigned, void *, void *, void *, size_t) = dlsym(RTLD_DEFAULT, "io_uring_queue_init_mem");
            int (*setup)(unsigned, void *) = dlsym(RTLD_DEFAULT, "io_uring_setup");
            if (!by_memory || !setup)
                puts("not there");
            else
                printf("%d %d\n", by_memory(8, place, place, place, sizeof place), setup(8, place));
        }"#;
    fs::write(&source, text).expect("a source file");
    let mut cc = Command::new("cc");
    cc.arg(&source).arg("-o").arg(&program);
    assert!(cc.status().expect("a C compiler named cc").success());
    let outcome = Launch::new(Stack::Sovia, [&program]).start().finish(Duration::from_secs(60));
    assert_eq!(outcome.stdout, "-38 -38\n", "{outcome:#?}");
}

/// io_uring calls of every kind fail as on a kernel without io_uring, unless the user allows rings.
#[test]
fn there_are_no_rings_unless_they_are_allowed() {
    if !Path::new("/usr/include/liburing.h").exists() {
        println!(
            "SKIPPED: there_are_no_rings_unless_they_are_allowed: not installed: liburing-dev"
        );
        return;
    }
    let folder = TempDir::new();
    let program = program(folder.path());
    let told = |launch: Launch| {
        let outcome = launch.start().finish(Duration::from_secs(60));
        assert!(outcome.success(), "{outcome:#?}");
        outcome.stdout
    };
    let kernel = told(Launch::new(Stack::Kernel, [&program]));
    let sovia = Launch::new(Stack::Sovia, [&program]);
    assert_eq!(told(sovia.clone()), "-38 -38 -38\n");
    assert_eq!(told(sovia.env("SOVIA_IO_URING", "allow")), kernel);
}
