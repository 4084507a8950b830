//! The headers of an executable that `sovia run` looks at before it starts it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use object::ReadCache;
use std::io::Cursor;
use std::sync::Once;

#[allow(dead_code, reason = "opening files is not tested here")]
#[path = "../../cli/src/program/elf.rs"]
mod elf;

/// By the cache through which files are read, which must not believe what the headers say of lengths; and by the
/// bytes themselves: both find the same.
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
