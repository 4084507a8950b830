//! What programs follow that have the library by /etc/ld.so.preload. It cannot tell anyone of a mistake there.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sovia_control::{Rules, env};
use sovia_sys::{Errno, call};

use super::Finding;

pub(super) fn rules() -> Finding {
    let (what, path) = ("system's rules", env::SYSTEM_RULES.to_string_lossy());
    match read(env::SYSTEM_RULES) {
        Ok(None) => Finding::good(what, format!("no {path}")),
        Ok(Some(rules)) if rules.is_empty() => Finding::good(what, format!("{path}: none")),
        Ok(Some(rules)) => Finding::good(what, format!("{path}: {rules}")),
        Err(why) => Finding::note(
            what,
            format!("{path}: {why}"),
            "programs that have the library by /etc/ld.so.preload stay on TCP until it is right",
        ),
    }
}

/// The rules of a file, if it is there, as the library reads them; or why programs of some user find none to follow.
fn read(path: &CStr) -> Result<Option<Rules>, String> {
    let file = Path::new(OsStr::from_bytes(path.to_bytes()));
    let may_all = |path: &Path, right| fs::metadata(path).map_or(true, |it| it.mode() & right != 0);
    if !file.parent().is_none_or(|folder| may_all(folder, 0o001)) {
        return Err("not all users may look into the folder".to_owned());
    }
    let text = match call::contents(path, env::SYSTEM_RULES_MAX) {
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::EFBIG) => return Err(format!("more than {} bytes", env::SYSTEM_RULES_MAX)),
        Err(Errno::ESPIPE) => return Err("it is a pipe".to_owned()),
        text => {
            text.map_err(|errno| std::io::Error::from_raw_os_error(errno.into_raw()).to_string())?
        }
    };
    if !may_all(file, 0o004) {
        return Err("not all users may read it".to_owned());
    }
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    Rules::parse_file(&text).map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_leaves_programs_without_rules_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let (file, text) = (folder.path().join("rules"), "only:program=app\n");
        let path = CString::new(file.as_os_str().as_bytes()).unwrap();
        let mode = |of: &Path, mode| {
            fs::set_permissions(of, fs::Permissions::from_mode(mode)).unwrap();
        };
        let why = || read(&path).unwrap_err();
        mode(folder.path(), 0o755);
        assert_eq!(read(&path), Ok(None));
        fs::write(&file, text).unwrap();
        mode(&file, 0o644);
        assert_eq!(read(&path), Ok(Some(Rules::parse(text.trim()).unwrap())));
        mode(&file, 0o600);
        assert!(why().contains("read it"));
        mode(&file, 0o644);
        mode(folder.path(), 0o700);
        assert!(why().contains("the folder"));
        mode(folder.path(), 0o755);
        fs::write(&file, "#\n".repeat(env::SYSTEM_RULES_MAX)).unwrap();
        assert!(why().contains("more than 65536 bytes"));
        fs::write(&file, b"\xff").unwrap();
        assert!(why().contains("utf-8"));
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
        assert!(why().contains("a pipe"));
    }
}
