//! Reads from an executable's ELF headers whether a library can be loaded into it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};

/// Names of sections that only the Go compiler makes.
const OF_GO: [&[u8]; 2] = [b"\0.go.buildinfo\0", b"\0.note.go.buildid\0"];

/// Class, byte order and machine. Files that differ in one of these cannot be in one process.
type Machine = (bool, bool, u16);

/// The relevant parts of the headers.
#[derive(Debug)]
pub(super) struct Elf {
    machine: Machine,
    /// Path of the dynamic linker. A static executable has none.
    pub(super) interpreter: Option<PathBuf>,
    /// True if the Go compiler made the file.
    pub(super) go: bool,
}

impl Elf {
    /// Reads the headers. Returns `None` if the file is not ELF or is corrupt.
    pub(super) fn read(file: &File) -> Option<Self> {
        // The cache reads only the requested parts, because executables can have hundreds of megabytes.
        Self::parse(&ReadCache::new(file))
    }

    /// Parses the headers in `data`.
    pub(super) fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        match FileKind::parse(data).ok()? {
            FileKind::Elf32 => headers::<FileHeader32<Endianness>, _>(data).ok(),
            FileKind::Elf64 => headers::<FileHeader64<Endianness>, _>(data).ok(),
            _ => None,
        }
    }

    /// Returns true if this process's own executable, and so the library, is for another machine.
    pub(super) fn is_foreign(&self) -> bool {
        own_machine().is_some_and(|own| own != self.machine)
    }
}

fn own_machine() -> Option<Machine> {
    let file = File::open("/proc/self/exe").ok()?;
    let data = ReadCache::new(&file);
    // Sovia exists only for 64-bit machines.
    FileHeader64::<Endianness>::parse(&data).and_then(machine).ok()
}

fn machine<H: FileHeader<Endian = Endianness>>(header: &H) -> object::Result<Machine> {
    Ok((header.is_class_64(), header.is_big_endian(), header.e_machine(header.endian()?).0))
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
    // Without section headers, for example after `sstrip`, the file counts as not made by Go.
    let go = section_names(header, endian, data)
        .is_some_and(|names| OF_GO.iter().any(|go| names.windows(go.len()).any(|at| at == *go)));
    Ok(Elf { machine: machine(header)?, interpreter, go })
}

/// Returns the names of all sections, separated by zero bytes. A look-up of single names would read the file for each
/// name.
fn section_names<'data, H, R>(header: &H, endian: Endianness, data: R) -> Option<&'data [u8]>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let sections = header.section_headers(endian, data).ok()?;
    let names = sections.get(usize::try_from(header.shstrndx(endian, data).ok()?).ok()?)?;
    names.data(endian, data).ok()
}
