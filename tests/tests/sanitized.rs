//! Programs built with AddressSanitizer, whose runtime must come before libc, as Sovia does. They start only because
//! of the library's `__asan_default_options`.

use sovia_tests::{Launch, Scenario, Stack, TempDir};
use std::fs;
use std::process::Command;
use std::time::Duration;

macro_rules! sanitized {
    ($($name:ident: $app:literal $case:literal,)*) => {
        $(
            #[test]
            fn $name() {
                Scenario::sanitized($app, $case).run();
            }
        )*
    };
}

sanitized! {
    bytes_are_carried: "bulk" "ping_pong_of_random_sizes",
    children_are_forked: "fork" "a_child_for_each_connection",
    threads_are_cancelled: "signals" "cancelling_a_waiting_thread",
    handlers_write_what_they_interrupt: "handlers" "handlers_write_what_they_interrupt",
    threads_share_a_connection: "threads" "two_writers_and_two_readers",
}

/// A program with a fault ends with AddressSanitizer's report, as without Sovia.
#[test]
fn a_fault_of_the_program_is_reported() {
    let folder = TempDir::new();
    let (source, program) = (folder.path().join("fault.c"), folder.path().join("fault"));
    let text = "int main(int n, char **v) { volatile int *p = 0; return v[0][0] + p[n]; }";
    fs::write(&source, text).expect("a source file");
    let mut cc = Command::new("cc");
    cc.args(["-fsanitize=address", "-o"]).arg(&program).arg(&source);
    assert!(cc.status().expect("a C compiler named cc").success());
    let run = |stack| Launch::new(stack, [&program]).start().finish(Duration::from_secs(60));
    let (kernel, sovia) = (run(Stack::Kernel), run(Stack::Sovia));
    assert_eq!(kernel.status, sovia.status, "{sovia:#?}");
    for outcome in [kernel, sovia] {
        assert!(outcome.stderr.contains("AddressSanitizer: SEGV"), "{outcome:#?}");
    }
}
