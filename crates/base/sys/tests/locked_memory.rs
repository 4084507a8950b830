//! A program that locks its future mappings. The lock concerns the whole process, so the test needs its own
//! process.

use sovia_sys::Mapping;
use std::fs;

const HUGE: usize = 2 << 30;

fn kilobytes(of: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// A sparse mapping is usable, and the kernel neither populates nor locks it.
#[test]
fn a_mapping_stays_sparse() {
    for (flags, name) in [
        (0, "not locked"),
        (libc::MCL_FUTURE, "MCL_FUTURE"),
        (libc::MCL_FUTURE | libc::MCL_ONFAULT, "MCL_FUTURE | MCL_ONFAULT"),
    ] {
        // SAFETY: locking changes no byte of memory.
        if flags != 0 && unsafe { libc::mlockall(flags) } != 0 {
            println!("SKIPPED: a_mapping_stays_sparse: {name}: memory cannot be locked here");
            return;
        }
        let (resident, locked) = (kilobytes("VmRSS"), kilobytes("VmLck"));
        let mapping = Mapping::for_family(HUGE).expect("address space");
        for at in (0..HUGE).step_by(HUGE / 16) {
            // SAFETY: the address lies in the mapping, which no other code uses.
            unsafe { mapping.base().add(at).write_volatile(7) };
        }
        assert!(kilobytes("VmRSS") < resident + 4096, "{name} fills it");
        assert!(kilobytes("VmLck") < locked + 4096, "{name} locks it");
    }
}
