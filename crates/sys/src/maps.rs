//! What memory is, as the kernel says it of this process's mappings.

use crate::call::{self, Errno, Result, Sysno};
use crate::fd::Fd;
use core::ops::Range;

/// `PROCMAP_QUERY` of Linux 6.11: 13 words.
const QUERY_WORDS: usize = 13;
const IOCTL_QUERY: u32 = 3 << 30 | (QUERY_WORDS as u32 * 8) << 16 | (b'f' as u32) << 8 | 17;
const QUERY_COVERING_OR_NEXT: u64 = 0x10;
/// Words of the query, and a flag of the mapping's.
const FLAGS: usize = 1;
const ADDRESS: usize = 2;
const START: usize = 3;
const END: usize = 4;
const MAPPING_FLAGS: usize = 5;
const INODE: usize = 8;
const SHARED: u64 = 0x08;

/// The list of mappings, open.
#[derive(Debug)]
pub struct Maps(Fd);

/// A mapping, as far as it matters here.
struct Mapped {
    range: Range<usize>,
    /// Of this process alone, and of no file.
    private: bool,
}

impl Maps {
    /// Opens it.
    ///
    /// # Errors
    /// Without /proc.
    pub fn open() -> Result<Maps> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        Fd::make(|| call::open(c"/proc/self/maps", flags, 0)).map(Maps)
    }

    /// Whether all of the range is mapped, private and of no file: only calls of this process's
    /// own change what lies there.
    pub fn is_private(&self, range: &Range<usize>) -> bool {
        // An older kernel cannot be asked.
        self.all_private(range).or_else(|_| in_text(range)).unwrap_or(false)
    }

    fn all_private(&self, range: &Range<usize>) -> Result<bool> {
        let mut at = range.start;
        while at < range.end {
            match self.query(at)? {
                Some(Mapped { range, private: true }) if range.start <= at => at = range.end,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The mapping at an address, or the next; about a microsecond.
    fn query(&self, at: usize) -> Result<Option<Mapped>> {
        let mut words = [0u64; QUERY_WORDS];
        words[0] = size_of_val(&words) as u64;
        words[FLAGS] = QUERY_COVERING_OR_NEXT;
        words[ADDRESS] = at as u64;
        // SAFETY: the structure lives and says its own length; it asks for no names.
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

/// From the text, which is as long as there are mappings. Opened afresh, as several threads may read
/// it.
fn in_text(range: &Range<usize>) -> Result<bool> {
    let maps = Maps::open()?;
    let mut buffer = [0u8; 8192];
    let (mut held, mut at) = (0, range.start);
    loop {
        let got = call::read(maps.0.raw(), &mut buffer[held..])?;
        if got == 0 {
            return Ok(false);
        }
        held += got;
        let mut from = 0;
        while let Some(end) = buffer[from..held].iter().position(|&byte| byte == b'\n') {
            let mapped = parse(&buffer[from..from + end]).ok_or(Errno::EINVAL)?;
            from += end + 1;
            if mapped.range.end <= at {
                continue;
            }
            if mapped.range.start > at || !mapped.private {
                return Ok(false);
            }
            at = mapped.range.end;
            if at >= range.end {
                return Ok(true);
            }
        }
        if from == 0 && held == buffer.len() {
            // No line is that long.
            return Err(Errno::EINVAL);
        }
        buffer.copy_within(from..held, 0);
        held -= from;
    }
}

/// `7f00-7f01 rw-p 00000000 00:00 0 …`.
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
            assert_eq!(maps.is_private(&range), private, "{range:x?}");
            assert_eq!(in_text(&range), Ok(private), "{range:x?}, in the text");
        }
    }

    #[test]
    fn mappings_that_follow_one_another_are_one_range() {
        let maps = Maps::open().unwrap();
        let mapping = Mapping::private(1 << 20).unwrap();
        let whole = of(&mapping);
        // Without access, so that whatever is mapped beside it now is another mapping.
        // SAFETY: takes access from a page of a mapping that nobody uses.
        let taken = unsafe {
            syscalls::syscall!(Sysno::mprotect, whole.start + 8192, 4096usize, libc::PROT_NONE)
        };
        assert!(taken.is_ok());
        assert!(maps.is_private(&whole), "several mappings, one after the other");
        assert_eq!(in_text(&whole), Ok(true));
    }
}
