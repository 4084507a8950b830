//! What an executable's ELF headers tell about loading a library into it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};

/// The headers, as far as they matter here.
#[derive(Debug)]
pub(super) struct Elf {
    /// Class, byte order and machine: two files that differ in it cannot be in one process.
    machine: (bool, bool, u16),
    /// The dynamic linker; a static executable has none.
    pub(super) interpreter: Option<PathBuf>,
    /// Made by the Go compiler.
    pub(super) go: bool,
}

impl Elf {
    /// Reads the headers; `None` for what is not ELF, or too broken to say anything about.
    pub(super) fn read(file: &File) -> Option<Self> {
        // Reads only what is asked for: executables of hundreds of megabytes exist.
        let data = ReadCache::new(file);
        match FileKind::parse(&data).ok()? {
            FileKind::Elf32 => headers::<FileHeader32<Endianness>, _>(&data).ok(),
            FileKind::Elf64 => headers::<FileHeader64<Endianness>, _>(&data).ok(),
            _ => None,
        }
    }

    /// Whether this process's own executable, and so the library, is for another machine.
    pub(super) fn is_foreign(&self) -> bool {
        let own = File::open("/proc/self/exe").ok().as_ref().and_then(Self::read);
        own.is_some_and(|own| own.machine != self.machine)
    }
}

fn headers<'data, H, R>(data: R) -> object::Result<Elf>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let mut interpreter = None;
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            interpreter = Some(PathBuf::from(OsString::from_vec(path.to_vec())));
        }
    }
    // Without section headers, as after `sstrip`, one cannot tell; then it is none.
    let go = header.sections(endian, data).is_ok_and(|sections| {
        sections.section_by_name(endian, b".go.buildinfo").is_some()
            || sections.section_by_name(endian, b".note.go.buildid").is_some()
    });
    let machine = (header.is_class_64(), header.is_big_endian(), header.e_machine(endian).0);
    Ok(Elf { machine, interpreter, go })
}
