//! The headers of an executable that `sovia run` looks at before it starts it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use object::ReadCache;
use std::io::Cursor;
use std::sync::Once;

#[allow(dead_code, reason = "opening files is not tested here")]
#[path = "../../cli/src/program/elf.rs"]
mod elf;

/// Parses the file through the read cache, which must not trust the lengths in headers, and from the bytes. Both
/// results must be equal.
fn look(bytes: &[u8]) -> Option<elf::Elf> {
    let found = elf::Elf::parse(&ReadCache::new(Cursor::new(bytes)));
    assert_eq!(format!("{found:?}"), format!("{:?}", elf::Elf::parse(bytes)));
    found
}

fuzz_target!(|bytes: &[u8]| {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let own = std::fs::read("/proc/self/exe").expect("this program's file");
        let own = look(&own).expect("this program is ELF");
        assert!(own.interpreter.is_some() && !own.go, "nothing is tested");
    });
    let _ = look(bytes);
});
