//! Undelivered bytes of streams under a seccomp filter that kills for system calls outside of systemd's
//! @system-service, such as `pidfd_getfd`. Each process that may read these bytes gets them nevertheless.

use std::path::Path;
use std::process::Command;

use sovia_tests::Scenario;

/// Interpreter and script that set the filter, and then execute a command.
fn sandbox() -> [String; 5] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-py/sandbox.py");
    [
        "/usr/bin/python3".into(),
        "-B".into(),
        script.display().to_string(),
        "system-service".into(),
        "--".into(),
    ]
}

fn run(case: &str) {
    let words = sandbox();
    let told = Command::new(&words[0]).args(&words[1..]).arg("/bin/true").output();
    if !told.as_ref().is_ok_and(|told| told.status.success()) {
        return println!("SKIPPED: {case}: filters cannot be set here: {told:?}");
    }
    Scenario::c("rest", case).by(&words.each_ref().map(String::as_str)).run_accelerated();
}

macro_rules! filtered {
    ($($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                run(stringify!($case));
            }
        )+
    };
}

filtered!(
    a_child_reads_it_as_its_input,
    a_vforked_child_reads_it_as_its_input,
    a_child_that_reads_nothing_leaves_it,
    a_vforked_child_that_reads_nothing_leaves_it,
    children_take_parts_of_it,
    much_of_it_is_for_both,
    it_is_for_a_program_without_its_library,
    both_answer_a_peer_that_listens,
    calls_say_what_is_left_of_it,
    a_set_tells_of_it,
    a_relative_reads_it_too,
    the_last_of_many_relatives_reads_it,
    programs_take_parts_of_many_rests,
    the_process_becomes_a_program_after_its_child,
    an_exec_that_fails_leaves_it,
    one_program_answers_after_another,
    it_is_left_unread,
);
