//! Finds a unit and its drop-ins like systemd.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Unit;
use sovia_cli::similar::suggestion;

/// Folders of units, in order of precedence.
const FOLDERS: &[&str] = &[
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
];
/// Type of the units that start programs.
const SERVICE: &str = ".service";
/// Folder for an administrator's drop-ins.
pub(crate) const DROP_INS: &str = "etc/systemd/system";

/// Error of reading a unit.
#[derive(Debug, Error)]
pub(crate) enum UnitError {
    #[error("cannot find the unit {name} in systemd's folders below {root}{suggestion}")]
    None { name: String, root: String, suggestion: String },
    #[error("cannot use {0}: the unit is masked; run `systemctl unmask {0}`")]
    Masked(String),
    #[error("cannot use {0}: only services can start with Sovia; expected NAME or NAME.service")]
    NoService(String),
    #[error("cannot use {0}: expected a unit's name, as in `systemctl status NAME`, not a path")]
    Path(String),
    #[error("cannot read {path}: {error}")]
    Io { path: String, error: io::Error },
}

impl UnitError {
    fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), error }
    }
}

/// Files of a system, below its root. The root is `/` except for images and tests.
#[derive(Debug)]
pub(crate) struct Place {
    root: PathBuf,
}

impl Place {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns a path of the system as this process sees it.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Reads a unit and its drop-ins, except the drop-in named `but_for`.
    pub(crate) fn unit(&self, asked: &str, but_for: &str) -> Result<Unit, UnitError> {
        let asked = full_name(asked)?;
        let fragment = self.fragment(&asked)?;
        let mut unit = Unit { name: own_name(&asked, &fragment), ..Unit::default() };
        let read =
            |path: &Path| fs::read_to_string(path).map_err(|error| UnitError::io(path, error));
        unit.read(fragment.clone(), &read(&fragment)?);
        for path in self.drop_ins(&unit.name)? {
            if path.file_name().is_none_or(|name| name != but_for) {
                unit.read(path.clone(), &read(&path)?);
            }
        }
        Ok(unit)
    }

    /// Returns the unit's file. For an instance, its own file or the template's.
    fn fragment(&self, name: &str) -> Result<PathBuf, UnitError> {
        let template = template(name);
        for name in [Some(name), template.as_deref()].into_iter().flatten() {
            for folder in FOLDERS {
                let path = self.path(folder).join(name);
                let Ok(found) = self.followed(&path) else { continue };
                if found.starts_with("/dev/null")
                    || found.metadata().is_ok_and(|file| file.len() == 0)
                {
                    return Err(UnitError::Masked(name.to_owned()));
                }
                return Ok(found);
            }
        }
        let services = self.services();
        let known = services.iter().map(String::as_str);
        Err(UnitError::None {
            name: name.to_owned(),
            root: self.root.display().to_string(),
            suggestion: suggestion(name.trim_end_matches(SERVICE), known),
        })
    }

    /// Returns the names of all services, without their type.
    fn services(&self) -> Vec<String> {
        let entries = FOLDERS.iter().filter_map(|folder| fs::read_dir(self.path(folder)).ok());
        let names = entries.flatten().flatten().map(|entry| entry.file_name());
        let service = |name: &OsString| Some(name.to_str()?.strip_suffix(SERVICE)?.to_owned());
        names.filter_map(|name| service(&name)).collect()
    }

    /// Follows symbolic links to a file of the system. Absolute links begin at the system's root.
    fn followed(&self, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..16 {
            match fs::read_link(&path) {
                Ok(target) if target == Path::new("/dev/null") => return Ok(target),
                Ok(target) if target.is_absolute() => path = self.path(target),
                Ok(target) => path = path.parent().unwrap_or(&self.root).join(target),
                Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(path),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP))
    }

    /// Returns the drop-ins in the order of their names, from all folders. Of two with the same name, only the first
    /// folder's counts.
    fn drop_ins(&self, name: &str) -> Result<Vec<PathBuf>, UnitError> {
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for named in [Some(name.to_owned()), template(name), Some("service".into())] {
            let Some(named) = named else { continue };
            for folder in FOLDERS {
                let folder = self.path(folder).join(format!("{named}.d"));
                for entry in fs::read_dir(&folder).into_iter().flatten() {
                    let entry = entry.map_err(|error| UnitError::io(&folder, error))?;
                    let file = entry.file_name().to_string_lossy().into_owned();
                    if file.ends_with(".conf") && !found.iter().any(|(name, _)| *name == file) {
                        found.push((file, entry.path()));
                    }
                }
            }
        }
        found.sort();
        // A link to /dev/null hides the drop-ins of this name.
        let hidden =
            |path: &PathBuf| self.followed(path).is_ok_and(|path| path == Path::new("/dev/null"));
        Ok(found.into_iter().map(|(_, path)| path).filter(|path| !hidden(path)).collect())
    }
}

/// Returns the unit's name with its type.
fn full_name(asked: &str) -> Result<String, UnitError> {
    if asked.contains('/') || asked.starts_with('.') || asked.is_empty() {
        return Err(UnitError::Path(asked.to_owned()));
    }
    const OTHERS: &[&str] = &[
        "socket",
        "target",
        "device",
        "mount",
        "automount",
        "swap",
        "path",
        "timer",
        "slice",
        "scope",
    ];
    match asked.rsplit_once('.') {
        Some((_, "service")) => Ok(asked.to_owned()),
        Some((_, kind)) if OTHERS.contains(&kind) => Err(UnitError::NoService(asked.to_owned())),
        _ => Ok(format!("{asked}.service")),
    }
}

/// Returns the template's name of an instance: `a@.service` for `a@b.service`.
fn template(name: &str) -> Option<String> {
    let (before, instance) = name.split_once('@')?;
    (instance != ".service").then(|| format!("{before}@.service"))
}

/// Returns the unit's own name if the user gave an alias. For a template's file, returns the instance's name.
fn own_name(asked: &str, fragment: &Path) -> String {
    let file = fragment.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match (file.split_once('@'), asked.split_once('@')) {
        (Some((before, ".service")), Some((_, instance))) => format!("{before}@{instance}"),
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let place = Place::new(folder.path());
        (folder, place)
    }

    #[test]
    fn drop_ins_follow_the_unit_by_their_names_and_etc_hides_lib() {
        let (_folder, place) = system(&[
            ("lib/systemd/system/a.service", "[Service]\nExecStart=/a\nUser=a\n"),
            ("lib/systemd/system/a.service.d/20.conf", "[Service]\nUser=lib20\n"),
            ("etc/systemd/system/a.service.d/20.conf", "[Service]\nUser=etc20\n"),
            ("run/systemd/system/a.service.d/10.conf", "[Service]\nUser=run10\nGroup=run10\n"),
            ("etc/systemd/system/a.service.d/sovia.conf", "[Service]\nUser=sovia\n"),
        ]);
        let unit = place.unit("a", "sovia.conf").unwrap();
        assert_eq!((unit.name.as_str(), unit.files.len()), ("a.service", 3));
        assert_eq!((unit.value("User"), unit.value("Group")), (Some("etc20"), Some("run10")));
    }

    #[test]
    fn aliases_lead_to_the_unit_and_instances_to_their_template() {
        let (folder, place) = system(&[
            ("usr/lib/systemd/system/b.service", "[Service]\nExecStart=/b\n"),
            ("usr/lib/systemd/system/c@.service", "[Service]\nExecStart=/c\n"),
            ("etc/systemd/system/c@.service.d/x.conf", "[Service]\nUser=c\n"),
        ]);
        let alias = folder.path().join("etc/systemd/system/alias.service");
        symlink("/usr/lib/systemd/system/b.service", alias).unwrap();
        assert_eq!(place.unit("alias", "").unwrap().name, "b.service");
        let unit = place.unit("c@1", "").unwrap();
        assert_eq!((unit.name.as_str(), unit.value("User")), ("c@1.service", Some("c")));
    }

    #[test]
    fn what_is_no_unit_of_a_service_is_refused_with_the_reason() {
        let (folder, place) = system(&[
            ("etc/systemd/system/a.service", "[Service]\n"),
            ("lib/systemd/system/redis.service", "[Service]\n"),
        ]);
        symlink("/dev/null", folder.path().join("etc/systemd/system/m.service")).unwrap();
        for (name, reason) in [
            ("none", "cannot find the unit none"),
            ("redsi", "did you mean `redis`?"),
            ("m", "masked"),
            ("a.socket", "services"),
            ("/etc/a.service", "not a path"),
        ] {
            let error = place.unit(name, "").unwrap_err().to_string();
            assert!(error.contains(reason), "{name}: {error}");
        }
    }
}
