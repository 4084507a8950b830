//! The page on which all processes of a run add up what they did.

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

/// A page of counters in a file without a name, open to the processes of the run by its path.
pub struct Board {
    file: File,
    page: &'static StatsPage,
}

impl Board {
    /// Makes and maps an empty page, for the rest of this process's life.
    ///
    /// # Errors
    /// Memory, descriptors or /dev/null are missing, or a limit on file size is in the way.
    pub fn new() -> anyhow::Result<Self> {
        fill_stdio()?;
        // Beyond that limit the kernel ends the process by a signal.
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
        // A shorter file under a mapping would kill a process that touches it.
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        let len =
            NonZeroUsize::new(StatsPage::SIZE).context("the page of counters has a length of 0")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces nothing.
        let memory = unsafe { mmap(None, len, access, MapFlags::MAP_SHARED, &file, 0) }
            .context("cannot map the page of counters")?;
        // SAFETY: mapped just now, for SIZE bytes, never unmapped, and not handed to any other
        // code; other processes that map it use it as a `StatsPage` as well.
        let page = unsafe { StatsPage::create(memory.as_ptr().cast(), StatsPage::SIZE)? };
        Ok(Self { file, page })
    }

    /// The path under which the other processes open it, as long as this one lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// The counters.
    pub fn page(&self) -> &StatsPage {
        self.page
    }
}

/// Opens /dev/null wherever standard input, output or error is closed, so that no descriptor of
/// ours becomes one. Close-on-exec: the program finds them closed, as it would have.
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
