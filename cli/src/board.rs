//! The statistics page on which all processes of a run add up their counters.

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;

use anyhow::{Context, ensure};
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::Mode;
use sovia_control::StatsPage;

/// A page of counters in an unnamed file, which the processes of the run open by its path.
pub struct Board {
    file: File,
    page: &'static StatsPage,
}

impl Board {
    /// Makes and maps an empty page. The page stays mapped until this process ends.
    ///
    /// # Errors
    /// An error if memory, descriptors or /dev/null are missing, or if a limit on file size is too low.
    pub fn new() -> anyhow::Result<Self> {
        fill_stdio()?;
        // If a process exceeds that limit, the kernel ends it by a signal.
        let (most, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
        ensure!(
            most >= StatsPage::SIZE as u64,
            "a limit on file size (ulimit -f) leaves no room for the page of counters"
        );
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(
            memfd_create(c"sovia-stats", flags).context("cannot make the page of counters")?,
        );
        file.set_len(StatsPage::SIZE as u64)?;
        // The seal prevents a shorter file: it would kill each process that touches the mapping.
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        let len =
            NonZeroUsize::new(StatsPage::SIZE).context("the page of counters has a length of 0")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses the address of the new mapping, so the mapping replaces no other.
        let memory = unsafe { mmap(None, len, access, MapFlags::MAP_SHARED, &file, 0) }
            .context("cannot map the page of counters")?;
        // SAFETY: the memory was just mapped with SIZE bytes, is never unmapped, and no other code has its address.
        // Other processes that map the file also use it as a `StatsPage`.
        let page = unsafe { StatsPage::create(memory.as_ptr().cast(), StatsPage::SIZE)? };
        Ok(Self { file, page })
    }

    /// Returns the path by which other processes open the file while this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// The counters.
    pub fn page(&self) -> &StatsPage {
        self.page
    }
}

/// Opens /dev/null for standard input, output and error if they are closed, so that no later descriptor takes their
/// numbers. The descriptors are close-on-exec, so the program finds them closed, as without `sovia run`.
fn fill_stdio() -> anyhow::Result<()> {
    loop {
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
            .context("cannot open /dev/null")?;
        if null.as_raw_fd() > 2 {
            return Ok(());
        }
        std::mem::forget(null);
    }
}
