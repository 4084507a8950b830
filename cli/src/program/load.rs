//! Whether the dynamic linker of a program can load the library: with one that it cannot load to the end, it ends the program.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{Resource, getrlimit};
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::FileHeader;
use object::{Endianness, ReadCache, ReadRef};

type Header = FileHeader64<Endianness>;

/// Bytes of data that a program with the library needs at least. With less the dynamic linker ends the program.
const DATA: u64 = 2560 << 10;

/// A library that another one needs, and the versions that it asks that one for.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    file: Vec<u8>,
    versions: Vec<Vec<u8>>,
}

/// Why `linker`, a program's dynamic linker, cannot load `library`; `None` where it can, or where that cannot be told.
///
/// What lies beside the linker, as libc does, is looked at here. Only where that is not all, the linker is started and asked.
pub fn refusal(linker: &Path, library: &Path) -> Option<String> {
    let why_not = match std::fs::metadata(library) {
        // To open a pipe would take until something writes to it.
        Ok(about) if !about.is_file() => Some("not a regular file".to_owned()),
        Ok(_) => File::open(library).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why_not {
        return Some(format!("{}: {why}", library.display()));
    }
    if getrlimit(Resource::RLIMIT_DATA).is_ok_and(|(limit, _)| limit < DATA) {
        return Some(
            "the limit on the data segment (ulimit -d) leaves no room for the library".to_owned(),
        );
    }
    let is_all_there = || {
        let linker = std::fs::canonicalize(linker).ok()?;
        let folder = linker.parent()?;
        let needs = needs(&ReadCache::new(File::open(library).ok()?)).ok()?;
        let has = |need: &Need| {
            let file = File::open(folder.join(OsStr::from_bytes(&need.file))).ok()?;
            let there = versions(&ReadCache::new(file)).ok()?;
            Some(need.versions.iter().all(|it| there.contains(it)))
        };
        Some(needs.iter().all(|need| has(need) == Some(true)))
    };
    if is_all_there() == Some(true) { None } else { asked(linker, library) }
}

/// What the linker itself says.
fn asked(linker: &Path, library: &Path) -> Option<String> {
    // The kernel takes a name without a slash as a file of the current folder, `Command` as one to be searched for.
    let mut list = Command::new(Path::new(".").join(linker));
    list.arg("--list")
        .arg(library)
        .env_remove("LD_PRELOAD")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    let said = list.output().ok()?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // It lists what is missing as well, and calls that no failure.
    let missing = text.lines().find(|line| line.contains("not found"));
    let failure = || text.lines().next().filter(|_| !said.status.success());
    let why = missing.or_else(failure)?.rsplit("shared libraries: ").next()?;
    Some(why.trim().to_owned())
}

fn needs<'data>(data: impl ReadRef<'data>) -> object::Result<Vec<Need>> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let table = sections.dynamic_table(endian, data)?;
    let names = table.iter().filter(|entry| entry.tag == DT_NEEDED);
    let names = names.map(|entry| table.string(entry));
    let mut needs = names
        .map(|file| Ok(Need { file: file?.to_vec(), versions: Vec::new() }))
        .collect::<object::Result<Vec<Need>>>()?;
    let Some((asked, strings)) = sections.gnu_verneed(endian, data)? else { return Ok(needs) };
    let strings = sections.strings(endian, data, strings)?;
    for asked in asked {
        let (of, versions) = asked?;
        let file = of.file(endian, strings)?;
        for version in versions {
            let name = version?.name(endian, strings)?.to_vec();
            needs
                .iter_mut()
                .filter(|need| need.file == file)
                .for_each(|need| need.versions.push(name.clone()));
        }
    }
    Ok(needs)
}

/// The versions of symbols that a library has.
fn versions<'data>(data: impl ReadRef<'data>) -> object::Result<Vec<Vec<u8>>> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let Some((defined, strings)) = sections.gnu_verdef(endian, data)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, data, strings)?;
    let mut names = Vec::new();
    for defined in defined {
        // The first name is its own, the others are of those that it goes on from.
        if let Some(name) = defined?.1.next()? {
            names.push(name.name(endian, strings)?.to_vec());
        }
    }
    Ok(names)
}
