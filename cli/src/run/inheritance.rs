//! Connections that `sovia run` has inherited from a program under Sovia, such as inetd. That program's data about the
//! connections is for the program that this process becomes.

use std::fs::{self, File};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use sovia_control::inheritance::{Inheritance, LEN, NUMBERS, Program};

use crate::program;

/// Passes inherited data on. `program` is the file that this process is about to execute with the library. `None` if
/// this process executes no program, or a program without the library.
pub(super) fn pass_on(program: Option<&Path>) {
    for number in NUMBERS {
        // SAFETY: nothing in this process owns the number, and `ManuallyDrop` leaves the descriptor open.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        let Some(mut inheritance) = read(&file) else { continue };
        let head = inheritance.head();
        let is_ours = head.pid.cast_unsigned() == std::process::id()
            && file_id(Path::new("/proc/self/exe")) == Some(head.program);
        if is_ours && let Some(heir) = program.and_then(executed) {
            inheritance.pass_on(heir);
            if file.write_all_at(&inheritance.encode(), 0).is_ok() {
                continue;
            }
        }
        drop(ManuallyDrop::into_inner(file));
        for passed in [head.records, head.locks] {
            // SAFETY: nothing in this process owns the number. If the number now belongs to another file, it stays
            // open.
            let file = ManuallyDrop::new(unsafe { File::from_raw_fd(passed.fd) });
            if file.metadata().is_ok_and(|found| found.ino() == passed.inode) {
                drop(ManuallyDrop::into_inner(file));
            }
        }
    }
}

fn read(file: &File) -> Option<Inheritance> {
    if file.metadata().ok()?.len() != LEN as u64 {
        return None;
    }
    let mut bytes = [0; LEN];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Inheritance::decode(&bytes)
}

fn file_id(path: &Path) -> Option<Program> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Returns the identity of the file that the kernel executes for a path: the interpreter of a script.
fn executed(path: &Path) -> Option<Program> {
    file_id(program::interpreter_of(path).as_deref().unwrap_or(path))
}
