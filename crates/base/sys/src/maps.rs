//! Kinds of this process's memory, as the kernel's list of mappings shows them.

use crate::call::{self, Errno, Result, Sysno};
use crate::fd::Fd;
use core::ops::{ControlFlow, Range};

/// Words in the argument of `PROCMAP_QUERY` (Linux 6.11).
const QUERY_WORDS: usize = 13;
const IOCTL_QUERY: u32 = 3 << 30 | (QUERY_WORDS as u32 * 8) << 16 | (b'f' as u32) << 8 | 17;
const QUERY_COVERING_OR_NEXT: u64 = 0x10;
/// Indexes of words in the query, and a flag of the mapping.
const FLAGS: usize = 1;
const ADDRESS: usize = 2;
const START: usize = 3;
const END: usize = 4;
const MAPPING_FLAGS: usize = 5;
const INODE: usize = 8;
const SHARED: u64 = 0x08;

/// The open list of this process's mappings.
#[derive(Debug)]
pub struct Maps(Fd);

/// The relevant properties of a mapping.
struct Mapped {
    range: Range<usize>,
    /// Set if only this process has the memory, and no file is behind it.
    private: bool,
}

impl Maps {
    /// Opens the list.
    ///
    /// # Errors
    /// Those of `open`, if /proc is missing.
    pub fn open() -> Result<Maps> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        Fd::make(|| call::open(call::own_maps(), flags, 0)).map(Maps)
    }

    /// Returns the range of all mappings that `range` lies in, from the first one's start to the last one's end.
    /// Returns `None` unless all of `range` is mapped, private and of no file. Only this process's own calls
    /// change such mappings.
    pub fn private_around(&self, range: &Range<usize>) -> Option<Range<usize>> {
        // An older kernel has no such query, so read the text.
        self.asked(range).or_else(|_| in_text(range)).unwrap_or(None)
    }

    fn asked(&self, range: &Range<usize>) -> Result<Option<Range<usize>>> {
        let mut around = Around::new(range);
        loop {
            let Some(mapped) = self.query(around.next)? else { return Ok(None) };
            if let ControlFlow::Break(result) = around.add(&mapped) {
                return Ok(result);
            }
        }
    }

    /// Returns the mapping at an address, or else the next one. Takes about a microsecond.
    fn query(&self, at: usize) -> Result<Option<Mapped>> {
        let mut words = [0u64; QUERY_WORDS];
        words[0] = size_of_val(&words) as u64;
        words[FLAGS] = QUERY_COVERING_OR_NEXT;
        words[ADDRESS] = at as u64;
        // SAFETY: the structure outlives the call and holds its own length. The query requests no names, so the
        // kernel writes nowhere else.
        let asked =
            unsafe { syscalls::syscall!(Sysno::ioctl, self.0.raw(), IOCTL_QUERY, &raw mut words) };
        match asked {
            Ok(_) => {
                let range = words[START] as usize..words[END] as usize;
                let private = words[INODE] == 0 && words[MAPPING_FLAGS] & SHARED == 0;
                Ok(Some(Mapped { range, private }))
            }
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Collects consecutive mappings, in the order of their addresses.
struct Around {
    wanted: Range<usize>,
    first: Option<usize>,
    /// End of the mappings that have been found and are private.
    next: usize,
}

impl Around {
    fn new(range: &Range<usize>) -> Around {
        Around { wanted: range.clone(), first: None, next: range.start }
    }

    /// Adds the next mapping, which must end after `next`. Returns the result once it is known.
    fn add(&mut self, mapped: &Mapped) -> ControlFlow<Option<Range<usize>>> {
        if mapped.range.start > self.next || !mapped.private {
            return ControlFlow::Break(None);
        }
        let start = *self.first.get_or_insert(mapped.range.start);
        self.next = mapped.range.end;
        if self.next < self.wanted.end {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(Some(start..self.next))
    }
}

/// Finds the mappings in the text, whose length grows with the number of mappings. Opens the file again, because
/// several threads may read it.
fn in_text(range: &Range<usize>) -> Result<Option<Range<usize>>> {
    let maps = Maps::open()?;
    let mut around = Around::new(range);
    let found = call::find_line(maps.0.raw(), |line| {
        let Some(mapped) = parse(line) else { return Some(Err(Errno::EINVAL)) };
        if mapped.range.end <= around.next {
            return None;
        }
        around.add(&mapped).break_value().map(Ok)
    });
    found?.unwrap_or(Ok(None))
}

/// Parses a line such as `7f00-7f01 rw-p 00000000 00:00 0 …`.
fn parse(line: &[u8]) -> Option<Mapped> {
    let line = core::str::from_utf8(line.get(..line.len().min(100))?).ok()?;
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let access = words.next()?;
    let inode = words.nth(2)?;
    let range = number(start)?..number(end)?;
    Some(Mapped { range, private: access.ends_with('p') && inode == "0" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mapping;

    fn of(mapping: &Mapping) -> Range<usize> {
        mapping.base() as usize..mapping.base() as usize + mapping.len()
    }

    #[test]
    fn private_memory_is_told_from_shared_and_from_files() {
        let maps = Maps::open().unwrap();
        let stack = [0u8; 100];
        let stack = stack.as_ptr() as usize..stack.as_ptr() as usize + 100;
        let code = parse as *const () as usize;
        let (private, shared) =
            (Mapping::private(1 << 20).unwrap(), Mapping::for_family(1 << 20).unwrap());
        let cases = [
            (stack, true),
            (of(&private), true),
            (of(&private).start + 5000..of(&private).end - 5000, true),
            (of(&shared), false),
            (code..code + 16, false),
            (4096..8192, false),
            (usize::MAX - 8192..usize::MAX - 4096, false),
        ];
        for (range, private) in cases {
            // The range found may be longer, because other tests map memory next to this memory.
            let around = [Ok(maps.private_around(&range)), in_text(&range)];
            for around in around.map(Result::unwrap) {
                assert_eq!(around.is_some(), private, "{range:x?}");
                let reaches =
                    |around: Range<usize>| around.start <= range.start && range.end <= around.end;
                assert!(around.is_none_or(reaches), "{range:x?}");
            }
        }
    }

    #[test]
    fn mappings_that_follow_one_another_are_found_whole() {
        let maps = Maps::open().unwrap();
        let mapping = Mapping::private(1 << 20).unwrap();
        let whole = of(&mapping);
        let protect = |page: usize| {
            let at = whole.start + page * 4096;
            // SAFETY: the page belongs to a mapping that no other code uses.
            let taken =
                unsafe { syscalls::syscall!(Sysno::mprotect, at, 4096usize, libc::PROT_NONE) };
            assert!(taken.is_ok());
        };
        // The change of access splits the memory into several mappings.
        [2, 10].into_iter().for_each(protect);
        let wanted = whole.start + 9 * 4096 + 1..whole.start + 10 * 4096 + 1;
        let around = whole.start + 3 * 4096..whole.start + 11 * 4096;
        assert_eq!(maps.private_around(&wanted), Some(around.clone()));
        assert_eq!(in_text(&wanted), Ok(Some(around)));
    }
}
