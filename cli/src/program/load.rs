//! Checks whether a program's dynamic linker can load the library. If the linker cannot, it ends the program.

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

/// Smallest data limit, in bytes, for a program with the library. With less, the dynamic linker ends the program.
const DATA: u64 = 2560 << 10;

/// A library that another library needs, and the required versions.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    file: Vec<u8>,
    versions: Vec<Vec<u8>>,
}

/// Returns the reason why `linker`, a program's dynamic linker, cannot load `library`. Returns `None` if it can, or if
/// the answer is unknown.
///
/// Libraries beside the linker, such as libc, are checked here. The linker is started only if that is not enough.
pub fn refusal(linker: &Path, library: &Path) -> Option<String> {
    let why_not = match std::fs::metadata(library) {
        // Opening a pipe would block until another process writes to it.
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

/// Runs the linker, and returns the reason that it prints.
fn asked(linker: &Path, library: &Path) -> Option<String> {
    // The kernel takes a name without a slash as a file in the current folder. `Command` would search PATH for it.
    let mut list = Command::new(Path::new(".").join(linker));
    list.arg("--list")
        .arg(library)
        .env_remove("LD_PRELOAD")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    let said = list.output().ok()?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    // The linker also lists missing libraries, without an error status.
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

/// Returns the symbol versions that a library defines.
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
        // The first name is the version's own. The others are versions that it extends.
        if let Some(name) = defined?.1.next()? {
            names.push(name.name(endian, strings)?.to_vec());
        }
    }
    Ok(names)
}
