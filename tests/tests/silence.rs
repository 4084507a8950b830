//! `sovia run` prints nothing without an option.

use sovia_tests::{Launch, Stack, installed, skipped};

#[test]
fn nothing_is_written_beside_the_programs_own_words() {
    if skipped("nothing_is_written_beside_the_programs_own_words", &["sh"]) {
        return;
    }
    let shell = installed("sh").expect("it was found just now").into_os_string();
    let words = [shell, "-c".into(), "echo out; echo err >&2; exit 7".into()];
    let outcome =
        Launch::new(Stack::Sovia, words).start().finish(std::time::Duration::from_secs(60));
    assert_eq!(outcome.transcript(), "out\nstatus 7\n");
    assert_eq!(outcome.stderr, "err\n");
}
