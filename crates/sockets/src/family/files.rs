//! Files that contain the family's memory. Other processes can read this memory in the files
//! ([`sovia_control::stats_page`]).
//!
//! The first file also goes to programs that this process executes ([`crate::exec`]). And it shows a process that
//! receives a connection in a message which processes hold the connection ([`crate::other_families`]). After a
//! change in `credentials`, a process's files are only for readers.

use super::{CHUNK, CONNS, Chunk, First, Header, PROCESS_SLOTS_AT};
use crate::conn::{Conn, FIELDS};
use crate::per_engine::per_engine;
use crate::process_slots::{self, SLOTS};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use sovia_control::stats_page::{self, File, SCHEMA_WORDS, Schema, Shape};
use sovia_sys::mapping::{sealed_memory, shown_memory, unsealed_memory};
use sovia_sys::{Fd, Mapping, build, call, fd};

/// Words of the schema, which lies in the first page of a chunk.
pub(super) type Words = [AtomicU64; SCHEMA_WORDS];

const _: () = assert!(
    offset_of!(Header, schema) == stats_page::AT && size_of::<Header>() == stats_page::HEAD
);

per_engine! {
    /// Descriptor of each chunk's file; 0 if the chunk lies in no file.
    static FILES: [AtomicI32; CONNS / CHUNK] = [const { AtomicI32::new(0) }; CONNS / CHUNK];
    /// Set while the first file is also used for inheritance.
    static IS_INHERITED: AtomicBool = AtomicBool::new(false);
}
/// Length of the first mapping's file, in bytes.
pub(crate) const LEN: u64 = size_of::<First>().next_multiple_of(4096) as u64;

/// Returns the file with the family's list of processes and its first connections, if programs may inherit this
/// file.
pub(crate) fn inherited() -> Option<i32> {
    if !IS_INHERITED.load(Ordering::Acquire) {
        return None;
    }
    Some(FILES[0].load(Ordering::Acquire)).filter(|&fd| fd != 0)
}

/// Returns true if the family's memory lies in a file. Processes outside the family may have opened this file.
pub(crate) fn is_in_a_file() -> bool {
    FILES[0].load(Ordering::Acquire) != 0
}

/// Makes the memory for chunk `at`, in a file if possible.
pub(super) fn map(at: usize) -> Option<(Mapping, Option<Fd>)> {
    let len = len_of(at);
    let in_a_file = || {
        let (mapping, file) = if at == 0 {
            // A program that this process executes must be able to write to the memory.
            let file = sealed_memory(c"sovia-records", len).ok()?;
            (Mapping::for_family_in(file.raw(), len as usize).ok()?, file)
        } else {
            shown_memory(c"sovia-board", len).ok()?
        };
        file.is_high().then_some((mapping, Some(file)))
    };
    let made = fd::can_be_spared().then(in_a_file).flatten();
    made.or_else(|| Some((Mapping::for_family(len as usize).ok()?, None)))
}

fn len_of(at: usize) -> u64 {
    if at == 0 { LEN } else { size_of::<Chunk>() as u64 }
}

/// Writes the schema of chunk `at` to `words`. Call it before other processes can see the chunk.
pub(super) fn describe(words: &Words, at: usize) {
    let shape = Shape {
        number: at as u32,
        records_at: offset_of!(Chunk, conns) as u32,
        stride: size_of::<Conn>() as u32,
        count: CHUNK as u32,
        used_at: offset_of!(Header, used) as u32,
        processes_at: if at == 0 { PROCESS_SLOTS_AT as u32 } else { stats_page::ABSENT },
        process_slots: if at == 0 { SLOTS as u32 } else { 0 },
        totals_at: if at == 0 { offset_of!(First, totals) as u32 } else { stats_page::ABSENT },
    };
    let mut room = [0; 32];
    Schema::write(words, &shape, process_slots::locks_id(), library(&mut room), FIELDS);
}

/// Returns the library's version, and the first digits of the linker's build number. The number is needed because
/// two builds of one version may differ.
fn library(room: &mut [u8; 32]) -> &str {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    const SHOWN: usize = 4;
    const { assert!(VERSION.len() + 1 + 2 * SHOWN <= 32) };
    let number = build::number().and_then(|number| number.get(..SHOWN)).unwrap_or_default();
    let digits = number.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.map(|digit| DIGITS[usize::from(digit)]);
    let sign = (!number.is_empty()).then_some(b'+');
    let mut len = 0;
    for (to, byte) in room.iter_mut().zip(VERSION.bytes().chain(sign).chain(digits)) {
        *to = byte;
        len += 1;
    }
    core::str::from_utf8(&room[..len]).unwrap_or(VERSION)
}

/// Records that chunk `at` lies in `file`. Adds `file` to the schema `first`, so that readers find the chunk.
pub(super) fn keep(at: usize, file: Fd, first: Option<&Words>) {
    let inode = call::file_id(file.raw()).map_or(0, |(_, inode)| inode);
    if let Some(words) = first.filter(|_| at != 0) {
        // If the schema is full, readers do not find this chunk's connections.
        let _ = Schema::add_file(words, File { fd: file.raw(), inode });
    }
    if at == 0 {
        process_slots::has_records(file.raw());
    }
    FILES[at].store(file.into_raw(), Ordering::Release);
}

/// Allows programs that this process executes to inherit the first file.
pub(super) fn let_inherit() {
    IS_INHERITED.store(true, Ordering::Release);
}

/// Returns a file for the memory that will replace the memory of chunk `at`. The new memory shares nothing with the
/// old memory.
pub(super) fn renew(at: usize) -> Option<Fd> {
    if FILES[at].load(Ordering::Relaxed) == 0 {
        return None;
    }
    unsealed_memory(c"sovia-board", len_of(at)).ok().filter(Fd::is_high)
}

/// Closes the files. Called after other memory has replaced this process's memory in the files.
pub(super) fn leave() {
    IS_INHERITED.store(false, Ordering::Release);
    for file in FILES.iter() {
        let fd = file.swap(0, Ordering::AcqRel);
        if fd != 0 {
            drop(Fd::keep(fd));
        }
    }
}

/// Forgets the files in a forked child that shares no memory with its parent.
pub(super) fn forget() {
    // A thread of the parent may have been about to make the family's memory when it forked.
    IS_INHERITED.store(false, Ordering::Release);
    FILES.iter().for_each(|file| file.store(0, Ordering::Release));
}
