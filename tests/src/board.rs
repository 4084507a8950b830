//! A statistics page for programs that use libsovia, in place of that of `sovia run -v`.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

use sovia_control::StatsPage;

/// A page in an unnamed file, mapped until this process ends.
pub(crate) struct Board {
    file: File,
    page: &'static StatsPage,
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Board {
    /// Makes an empty page.
    pub(crate) fn new() -> Self {
        // SAFETY: a C string and a flag; the descriptor is fresh, and no other code has it.
        let file = unsafe {
            let fd = libc::memfd_create(c"sovia-tests".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0, "memory for counters");
            File::from_raw_fd(fd)
        };
        file.set_len(StatsPage::SIZE as u64).expect("a file in memory takes any length");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so the new mapping replaces nothing. The mapping
        // is as long as a page, is never unmapped, and every process uses it as a page.
        let page = unsafe {
            let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
            let memory = libc::mmap(null, StatsPage::SIZE, access, libc::MAP_SHARED, fd, 0);
            assert!(memory != libc::MAP_FAILED, "memory for counters");
            StatsPage::create(memory.cast(), StatsPage::SIZE).expect("as large as a page")
        };
        Self { file, page }
    }

    /// Returns the path by which other processes open the page while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns the summary that `sovia run -v` would print.
    pub(crate) fn summary(&self) -> String {
        format!("sovia: accelerated: {} ends of connections\n", self.page.accelerated())
    }
}
