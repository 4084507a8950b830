//! Connections that `sovia run` has inherited from a program under Sovia, such as inetd. That program's data about the
//! connections is for the program that this process becomes.

use std::fs::{self, File};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use sovia_control::inheritance::{Inheritance, LEN, NUMBERS, Passed, Program};

use crate::program;

/// Passes inherited data on. `program` is the file that this process is about to execute with the library. `None` if
/// this process executes no program, or a program without the library.
pub(super) fn pass_on(program: Option<&Path>) {
    for number in NUMBERS {
        // SAFETY: nothing in this process owns the number, and `ManuallyDrop` leaves the descriptor open.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        let Some(mut inheritance) = read(&file) else { continue };
        let is_ours = file_id(Path::new("/proc/self/exe")) == Some(inheritance.head().program);
        if is_ours && let Some(heir) = program.and_then(executed) {
            inheritance.pass_on(heir);
            if file.write_all_at(&inheritance.encode(), 0).is_ok() {
                continue;
            }
        }
        drop(ManuallyDrop::into_inner(file));
        // Close the locks too. The family then knows that no program will use the connections' records.
        let head = inheritance.head();
        if [head.records, head.locks].into_iter().all(is_there) {
            for fd in inheritance.descriptors() {
                // SAFETY: the process that executed this one has left the descriptors for this process alone, and
                // nothing here owns them.
                drop(unsafe { File::from_raw_fd(fd) });
            }
        }
    }
}

/// Returns true if the descriptor in `passed` still refers to the same file.
fn is_there(passed: Passed) -> bool {
    // SAFETY: nothing in this process owns the number, and `ManuallyDrop` leaves the descriptor open.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(passed.fd) });
    file.metadata().is_ok_and(|found| found.ino() == passed.inode)
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
