//! Rules for programs that load the library by /etc/ld.so.preload, read like the library reads them.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sovia_control::{Rules, env};
use sovia_sys::{Errno, small_file};

/// Reads the rules in a file, if the file exists.
///
/// # Errors
/// The reason why programs of some users cannot read the rules.
pub fn read(path: &CStr) -> Result<Option<Rules>, String> {
    let file = Path::new(OsStr::from_bytes(path.to_bytes()));
    let may_all = |path: &Path, right| fs::metadata(path).map_or(true, |it| it.mode() & right != 0);
    if !file.parent().is_none_or(|folder| may_all(folder, 0o001)) {
        return Err("not all users may search the folder".to_owned());
    }
    let text = match small_file::read(path, env::SYSTEM_RULES_MAX) {
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::EFBIG) => {
            return Err(format!("the file has more than {} bytes", env::SYSTEM_RULES_MAX));
        }
        Err(Errno::ESPIPE) => return Err("the file is a pipe".to_owned()),
        text => {
            text.map_err(|errno| std::io::Error::from_raw_os_error(errno.into_raw()).to_string())?
        }
    };
    if !may_all(file, 0o004) {
        return Err("not all users may read the file".to_owned());
    }
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    Rules::parse_file(&text).map(Some).map_err(|error| error.to_string())
}

/// Source of the rules for a process with the library.
enum Source {
    /// Rules in the process's environment. If it names any, they apply.
    Own(Option<String>),
    /// Result of [`read`].
    System(Result<Option<Box<Rules>>, String>),
}

impl Source {
    /// Reads a process's environment once. So if the process executes another program meanwhile, the result fits one of
    /// the two programs.
    fn of(pid: i32) -> Option<Source> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = environment.split(|&byte| byte == 0);
        let value = |variable: &[u8], name: &str| {
            let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let rules = variables.clone().find_map(|variable| value(variable, env::RULES));
        let preload = variables.find_map(|variable| value(variable, "LD_PRELOAD"));
        if rules.is_some() || preload.is_some_and(|names| names.contains("/libsovia")) {
            return Some(Source::Own(rules));
        }
        let path = format!("/proc/{pid}/root{}", env::SYSTEM_RULES.to_string_lossy());
        let path = CString::new(path).ok()?;
        Some(Source::System(read(&path).map(|rules| rules.map(Box::new))))
    }
}

/// Returns the rules that a process with the library follows, with their file if they are the system's. Returns `None`
/// if it follows none.
pub fn followed_by(pid: i32) -> Option<String> {
    match Source::of(pid)? {
        Source::Own(rules) => rules,
        Source::System(Ok(Some(rules))) => {
            Some(format!("{rules} ({})", env::SYSTEM_RULES.to_string_lossy()))
        }
        Source::System(_) => None,
    }
}

/// Returns true if the system's rules allow a process with the library no connection, so that the library is inactive
/// in the process. The library matches rules with the name by which the program was started. The program may have
/// overwritten this name with a title, so this function also tries its other names.
pub fn leave_alone(pid: i32) -> bool {
    let read_of = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let (command, file) = (read_of("cmdline"), fs::read_link(format!("/proc/{pid}/exe")));
    let (title, comm, file) = (first_word(&command), read_of("comm"), file.unwrap_or_default());
    let names = [title, comm.trim_ascii_end(), file.as_os_str().as_bytes()];
    match Source::of(pid) {
        None | Some(Source::Own(_) | Source::System(Ok(None))) => false,
        Some(Source::System(Ok(Some(rules)))) => !names.iter().any(|name| rules.concern(name)),
        Some(Source::System(Err(_))) => true,
    }
}

fn first_word(command: &[u8]) -> &[u8] {
    command.split(|&byte| matches!(byte, 0 | b' ' | b':')).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    #[test]
    fn rules_file_that_cannot_be_used_is_an_error() {
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
        assert!(why().contains("read the file"));
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

    #[test]
    fn what_a_programs_environment_says_counts_more() {
        let shell = |name: &str, value: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            shell.env_remove("LD_PRELOAD").env_remove(env::RULES).env(name, value);
            let mut shell = shell.spawn().unwrap();
            // The shell's exec is over, so its environment is complete.
            shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            shell
        };
        for (name, value, rules) in [
            (env::RULES, "only:port=1", Some("only:port=1")),
            ("LD_PRELOAD", "/nowhere/libsovia_preload.so", None),
        ] {
            let mut child = shell(name, value);
            let pid = child.id() as i32;
            assert_eq!(followed_by(pid).as_deref(), rules, "{name}");
            assert!(matches!(Source::of(pid), Some(Source::Own(_))) && !leave_alone(pid), "{name}");
            child.kill().and_then(|()| child.wait()).unwrap();
        }
    }
}
