//! The files in which a process shows its connections.

use crate::process::Folder;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, fstat, openat, readlinkat, seek};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use sovia_control::Traffic;
use sovia_control::stats_page::{
    FILE_NAMES, Fault, HEAD, NUMBERS_FROM, ProcessEntry, Record, Schema,
};
use std::cell::OnceCell;
use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Beginning of the name of a family's file with locks.
const LOCKS: &str = "/memfd:sovia-family";

/// File with records of connections.
#[derive(Debug)]
pub(crate) struct Shown {
    file: File,
    pub(crate) inode: u64,
    pub(crate) head: Box<[u8; HEAD]>,
    pub(crate) schema: Schema,
}

impl Shown {
    fn of(file: File) -> Result<Shown, Fault> {
        let about = fstat(&file).map_err(|_| Fault::Magic)?;
        let mut head = Box::new([0; HEAD]);
        file.read_exact_at(&mut head[..], 0).map_err(|_| Fault::Magic)?;
        let schema = Schema::read(&head, about.st_size as u64)?;
        Ok(Shown { file, inode: about.st_ino, head, schema })
    }

    /// Returns the number of records in use.
    pub(crate) fn count(&self) -> usize {
        self.schema.used(&self.head).count()
    }

    /// Returns the connections in the file, each with the number of its record.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u32, Record)> {
        let mut bytes = Vec::new();
        self.schema.used(&self.head).filter_map(move |n| {
            let (at, len) = self.schema.position_of(n);
            bytes.resize(len, 0);
            self.file.read_exact_at(&mut bytes, at).ok()?;
            Some((n, Record::read(&self.schema, &bytes)?))
        })
    }

    /// Returns the family's processes.
    fn processes(&self) -> Vec<ProcessEntry> {
        self.schema.processes(|at, bytes| self.file.read_exact_at(bytes, at).is_ok())
    }

    /// Reads bytes of the file.
    pub(crate) fn bytes(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// Returns the traffic of each connection in a file of records that no page of counters contains yet. Returns
/// `None` for any other file. The file's processes may have been killed.
pub fn unsettled(file: &File) -> Option<Vec<Traffic>> {
    let shown = Shown::of(file.try_clone().ok()?).ok()?;
    Some(shown.records().map(|(_, record)| record.unsettled).collect())
}

/// First file of a process's family, with the process's slot in the family.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) first: Shown,
    pub(crate) slot: u32,
    descriptors: OwnedFd,
}

/// Result of a look at a process.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The process shows connections.
    Own(Box<Own>),
    /// The process has no connections on record, or does not run under Sovia.
    Nothing,
    /// The kernel does not allow this user to look at the process.
    Forbidden,
    /// The files of the process cannot be read.
    Fault(Fault),
}

/// The mount of memory files, a line of fdinfo. All memory files lie on one mount of the kernel, and no other file
/// does.
#[derive(Debug)]
pub(crate) struct MemoryFiles(Option<Vec<u8>>);

impl MemoryFiles {
    pub(crate) fn find() -> MemoryFiles {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let own = rustix::fs::memfd_create("sovia-look", flags).ok().and_then(|file| {
            let number = rustix::fd::AsRawFd::as_raw_fd(&file);
            mount(&std::fs::read(format!("/proc/self/fdinfo/{number}")).ok()?)
        });
        MemoryFiles(own)
    }

    /// Opens the file behind a descriptor of another process, if the file is a memory file.
    ///
    /// Opens no other file. Such an open could block for ever, or the other process itself might not be allowed to
    /// open the file. The other process may change the meaning of its descriptor at any moment. So this function
    /// first gets a descriptor that only stands for the file (`O_PATH`). This descriptor shows whether the file is
    /// a memory file.
    fn open(&self, descriptors: impl AsFd, number: &str) -> Option<File> {
        let path =
            openat(descriptors, number, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let own = rustix::fd::AsRawFd::as_raw_fd(&path);
        let about = std::fs::read(format!("/proc/self/fdinfo/{own}")).ok()?;
        if self.0.is_none() || mount(&about) != self.0 {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(format!("/proc/self/fd/{own}"), flags, Mode::empty()).ok().map(File::from)
    }
}

fn mount(about: &[u8]) -> Option<Vec<u8>> {
    let line = about.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"mnt_id:"))?;
    Some(line.to_vec())
}

/// Searches for the files of a process, among the numbers of private descriptors.
pub(crate) fn of(folder: &Folder, memory: &MemoryFiles) -> Seen {
    let descriptors = match folder.folder("fd") {
        Ok(descriptors) => descriptors,
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => return Seen::Forbidden,
        Err(_) => return Seen::Nothing,
    };
    let mut search = Search {
        folder,
        memory,
        own_id: OnceCell::new(),
        firsts: Vec::new(),
        locks: Vec::new(),
        fault: None,
    };
    let mut below = i32::MAX;
    for from in NUMBERS_FROM {
        if let Some((first, slot)) = search.among(&descriptors, from, below) {
            return Seen::Own(Box::new(Own { first, slot, descriptors }));
        }
        below = from;
    }
    search.fault.map_or(Seen::Nothing, Seen::Fault)
}

/// Maximum number of families with files in one process. A process has the files of its own family, and of families
/// whose connections it has inherited: far fewer than this. The search compares each file with the others, and a
/// hostile process may have as many files as descriptors.
const FAMILIES_MAX: usize = 4096;

/// Kind of a descriptor's file, with the file's index among those of this kind.
enum Found {
    Nothing,
    First(usize),
    Locks(usize),
}

struct Search<'a> {
    folder: &'a Folder,
    memory: &'a MemoryFiles,
    own_id: OnceCell<Option<i32>>,
    /// First files of families: the process's own, and those with inherited connections.
    firsts: Vec<Shown>,
    locks: Vec<(u64, File)>,
    fault: Option<Fault>,
}

impl Search<'_> {
    fn among(&mut self, descriptors: &OwnedFd, from: i32, below: i32) -> Option<(Shown, u32)> {
        // The position of a descriptor in the folder is two more than its number.
        seek(descriptors, SeekFrom::Start(from as u64 + 2)).ok()?;
        let mut room = Vec::with_capacity(8192);
        let mut entries = RawDir::new(descriptors, room.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            let Some(number) = entry
                .file_name()
                .to_str()
                .ok()
                .filter(|name| name.parse::<i32>().is_ok_and(|number| number >= from))
            else {
                continue;
            };
            if number.parse::<i32>().is_ok_and(|number| number >= below) {
                return None;
            }
            let found = match self.look_at(descriptors, number) {
                Found::Nothing => None,
                Found::First(at) => self.slot_in(at, 0).map(|slot| (at, slot)),
                Found::Locks(at) => {
                    let firsts = 0..self.firsts.len();
                    firsts.into_iter().find_map(|first| Some((first, self.slot_in(first, at)?)))
                }
            };
            if let Some((at, slot)) = found {
                return Some((self.firsts.swap_remove(at), slot));
            }
            if self.firsts.len().max(self.locks.len()) > FAMILIES_MAX {
                self.fault = Some(Fault::Nonsense);
                return None;
            }
        }
        None
    }

    /// Opens the file of a descriptor, if it is a family's first file or a file with locks.
    fn look_at(&mut self, descriptors: &OwnedFd, number: &str) -> Found {
        let Ok(link) = readlinkat(descriptors, number, Vec::new()) else { return Found::Nothing };
        let is_locks = starts_with(&link, LOCKS);
        let is_shown = FILE_NAMES.iter().any(|name| starts_with(&link, name));
        if !(is_locks || is_shown) {
            return Found::Nothing;
        }
        let Some(file) = self.memory.open(descriptors, number) else { return Found::Nothing };
        if is_locks {
            let Ok(about) = fstat(&file) else { return Found::Nothing };
            self.locks.push((about.st_ino, file));
            return Found::Locks(self.locks.len() - 1);
        }
        match Shown::of(file) {
            Ok(shown) if shown.schema.shape.number == 0 => {
                self.firsts.push(shown);
                return Found::First(self.firsts.len() - 1);
            }
            Ok(_) => {}
            Err(fault) => self.fault = Some(fault),
        }
        Found::Nothing
    }

    /// Returns the process's slot in a family, if the process belongs to the family. Only locks from index `from`
    /// on count.
    fn slot_in(&self, first: usize, from: usize) -> Option<u32> {
        let first = self.firsts.get(first)?;
        match first.schema.locks {
            0 => {
                let own = (*self.own_id.get_or_init(|| self.folder.own_id()))?;
                first.processes().into_iter().find(|entry| entry.pid == own).map(|own| own.slot)
            }
            id => {
                let (_, locks) = self.locks.get(from..)?.iter().find(|(inode, _)| *inode == id)?;
                let mut slots = first.processes().into_iter().map(|entry| entry.slot);
                slots.find(|&slot| self.holds(locks, slot))
            }
        }
    }

    /// Returns true if the process holds the lock on a slot. The kernel releases this lock when the process ends or
    /// executes another program.
    fn holds(&self, locks: &File, slot: u32) -> bool {
        let lock = Flock { start: u64::from(slot), length: 1, ..Flock::from(FlockType::WriteLock) };
        let held = fcntl_getlk(locks, &lock).ok().flatten();
        held.and_then(|held| held.pid)
            .is_some_and(|pid| pid.as_raw_nonzero().get() == self.folder.pid)
    }
}

impl Own {
    /// Returns the family's other files that this process has, without known files.
    pub(crate) fn others(
        &self,
        memory: &MemoryFiles,
        is_known: impl Fn(u64) -> bool,
    ) -> Vec<Shown> {
        let entries = Schema::files(&self.first.head).filter(|entry| !is_known(entry.inode));
        let opened = entries.filter_map(|entry| {
            let number = entry.fd.to_string();
            let link = readlinkat(&self.descriptors, number.as_str(), Vec::new()).ok()?;
            let is_shown = starts_with(&link, FILE_NAMES[1]);
            let file = is_shown.then(|| memory.open(&self.descriptors, &number)).flatten()?;
            let shown = Shown::of(file).ok()?;
            (shown.inode == entry.inode && shown.schema.shape.number != 0).then_some(shown)
        });
        opened.collect()
    }
}

fn starts_with(link: &CStr, name: &str) -> bool {
    link.to_bytes().starts_with(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;
    use rustix::fs::{MemfdFlags, fstatfs, memfd_create};

    fn own_descriptors() -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open("/proc/self/fd", flags, Mode::empty()).unwrap()
    }

    #[test]
    fn memory_files_alone_are_opened() {
        let (memory, all) = (MemoryFiles::find(), own_descriptors());
        let opened =
            |file: &dyn AsRawFd| memory.open(&all, &file.as_raw_fd().to_string()).is_some();
        let named = memfd_create("sovia-board", MemfdFlags::CLOEXEC).unwrap();
        assert!(opened(&named));
        let open = |path| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        assert!(!opened(&open("/dev/zero").unwrap()) && !opened(&open("/proc/self/stat").unwrap()));
        assert!(!opened(&std::env::current_exe().map(File::open).unwrap().unwrap()));
        assert!(memory.open(&all, "no number").is_none());
    }

    #[test]
    fn a_number_that_changes_its_file_leads_to_no_other() {
        let (memory, all) = (MemoryFiles::find(), own_descriptors());
        let named = memfd_create("sovia-board", MemfdFlags::CLOEXEC).unwrap();
        let other = File::open("/dev/zero").unwrap();
        let kind = fstatfs(&named).unwrap().f_type;
        let mut number = rustix::io::fcntl_dupfd_cloexec(&named, 0).unwrap();
        let name = number.as_raw_fd().to_string();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let order = std::sync::atomic::Ordering::Relaxed;
                for file in [other.as_fd(), named.as_fd()].into_iter().cycle() {
                    rustix::io::dup3(file, &mut number, rustix::io::DupFlags::CLOEXEC).unwrap();
                    if is_over.load(order) {
                        break;
                    }
                }
            });
            let opened = (0..5_000).filter_map(|_| memory.open(&all, &name));
            let (right, wrong): (Vec<_>, Vec<_>) =
                opened.map(|file| fstatfs(&file).unwrap().f_type).partition(|found| *found == kind);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(wrong.len(), 0, "beside {} right ones", right.len());
        });
    }
}
