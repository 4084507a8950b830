//! Connections that `sovia run` has inherited from a program under Sovia, such as inetd. That program's data about the
//! connections is for the program that this process becomes.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use sovia_control::inheritance::{Inheritance, LEN, NUMBERS, Passed};

/// Closes the inherited data, and the descriptors that the data names. Called unless this process becomes a program with
/// the library: no program will use the connections' records then.
pub(super) fn give_up() {
    for number in NUMBERS {
        // SAFETY: nothing in this process owns the number, and `ManuallyDrop` leaves the descriptor open.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        let mut bytes = vec![0; LEN];
        let Some(inheritance) = read(&file, &mut bytes) else { continue };
        drop(ManuallyDrop::into_inner(file));
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

fn read<'b>(file: &File, bytes: &'b mut [u8]) -> Option<Inheritance<'b>> {
    if file.metadata().ok()?.len() != LEN as u64 {
        return None;
    }
    file.read_exact_at(bytes, 0).ok()?;
    Inheritance::decode(bytes)
}
