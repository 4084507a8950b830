//! FTP servers with accounts of their own, each in a folder with the files to serve.

use sovia_tests::{
    Outcome, Running, Service, Stack, TempDir, free_port, installed, sovia, unpacked,
};
use std::fmt::Write;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Password `x`, hashed by crypt(3).
const HASH: &str = "$6$sovia$TTzeR9MgXmaqjhqw91OidAXR2Q.ierp6Aq9gXQs/knrZehVvKA9MxjW1XJ/eVW3KWHEorGtSldbfMdAcxEDsl1";
/// User id of the account `guest`.
pub(crate) const GUEST: u32 = 1234;
/// Folder with room for 4 MB, which only the server sees.
pub(crate) const SMALL: &str = "small";

#[derive(Debug)]
pub(crate) struct Programs {
    inetd: PathBuf,
    ftpd: PathBuf,
    pure_ftpd: PathBuf,
    /// inetutils' client.
    pub(crate) ftp: PathBuf,
    /// Programs built by `scripts/papers-ftp`.
    pub(crate) changed: Option<Changed>,
}

/// inetutils' programs with SOCK_VIA for the data connection.
#[derive(Debug)]
pub(crate) struct Changed {
    ftpd: PathBuf,
    pub(crate) ftp: PathBuf,
}

/// Returns `None`, and prints that the test is skipped, if something is missing.
pub(crate) fn programs(test: &str) -> Option<Programs> {
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: {test}: only root can run a server that logs users in");
        return None;
    }
    let found = (|| {
        Some(Programs {
            inetd: unpacked("openbsd-inetd", "usr/sbin/inetd")?,
            ftpd: unpacked("inetutils-ftpd", "usr/sbin/ftpd")?,
            pure_ftpd: unpacked("pure-ftpd", "usr/sbin/pure-ftpd")?,
            ftp: unpacked("inetutils-ftp", "usr/bin/inetutils-ftp")?,
            changed: unpacked("papers-ftp", "ftpd")
                .zip(unpacked("papers-ftp", "ftp"))
                .map(|(ftpd, ftp)| Changed { ftpd, ftp }),
        })
    })();
    let missing = ["tnftp", "curl", "lftp", "vsftpd", "unshare", "python3", "mkfifo"]
        .into_iter()
        .find(|name| installed(name).is_none());
    if found.is_none() || missing.is_some() {
        println!(
            "SKIPPED: {test}: not there: {}",
            missing.unwrap_or("openbsd-inetd, pure-ftpd or inetutils' FTP")
        );
        return None;
    }
    found
}

/// Kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// inetutils' ftpd under inetd: a process for each session.
    Inetutils,
    /// Runs by itself: two processes for each session. The process that speaks with the client has dropped most
    /// privileges.
    Pure,
    /// Runs by itself: limits its address space, and filters the system calls of its sessions.
    Vsftpd,
}

/// A server with accounts of its own, in a folder with the files to serve.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
    service: Service,
}

impl Server {
    pub(crate) fn start(programs: &Programs, stack: Stack) -> Server {
        Self::of(Kind::Inetutils, programs, stack)
    }

    /// Starts the server under Sovia; its sessions trust all users.
    pub(crate) fn trusting(programs: &Programs) -> Server {
        Self::with(Kind::Inetutils, programs, Stack::Sovia, "--trust any ")
    }

    /// Starts the server under `sovia run -v`, unless inetd starts it.
    pub(crate) fn of(kind: Kind, programs: &Programs, stack: Stack) -> Server {
        Self::with(kind, programs, stack, "")
    }

    fn with(kind: Kind, programs: &Programs, stack: Stack, options: &str) -> Server {
        let folder = TempDir::new();
        let path = folder.path();
        let shown = path.display();
        for (part, mode) in [("", 0o777), ("empty", 0o755), (SMALL, 0o777)] {
            let part = path.join(part);
            fs::create_dir_all(&part).expect("a folder");
            fs::set_permissions(part, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let port = free_port();
        let mut passwd = format!("root:x:0:0:root:{shown}:/bin/sh\n");
        writeln!(passwd, "guest:x:{GUEST}:{GUEST}:guest:{shown}:/bin/sh").expect("memory");
        let shadow = format!("root:{HASH}:19000:0:99999:7:::\nguest:{HASH}:19000:0:99999:7:::\n");
        let run = match stack {
            Stack::Sovia => {
                format!("{0} sovia run {options}-- {1}", sovia().display(), programs.ftpd.display())
            }
            Stack::Native => {
                let changed = programs.changed.as_ref().expect("they are there");
                format!("{} ftpd", changed.ftpd.display())
            }
            Stack::Kernel => format!("{} ftpd", programs.ftpd.display()),
        };
        for (name, text) in [
            ("passwd", passwd),
            ("shadow", shadow),
            ("group", format!("root:x:0:\nguest:x:{GUEST}:\n")),
            ("ftpusers", String::new()),
            ("inetd.conf", format!("127.0.0.1:{port} stream tcp nowait root {run} -l\n")),
            (
                "vsftpd.conf",
                format!(
                    "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nanonymous_enable=NO\n\
                     local_enable=YES\n                     write_enable=YES\nasync_abor_enable=YES\nascii_upload_enable=YES\n\
                     ascii_download_enable=YES\nsecure_chroot_dir={shown}/empty\n"
                ),
            ),
        ] {
            fs::write(path.join(name), text).expect("a file");
        }
        let accounts = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-ftp/with-accounts");
        let alone = match stack {
            Stack::Sovia => format!("{} run -v -- ", sovia().display()),
            _ => String::new(),
        };
        let server = match kind {
            Kind::Inetutils => format!("{} -i {shown}/inetd.conf", programs.inetd.display()),
            // Root may log in, and the server looks up no client in the DNS.
            Kind::Pure => format!(
                "{alone}{} -S 127.0.0.1,{port} -l unix -u 0 -H",
                programs.pure_ftpd.display()
            ),
            Kind::Vsftpd => format!("{alone}vsftpd {shown}/vsftpd.conf"),
        };
        let line = format!("unshare --mount {} {shown} {server}", accounts.display());
        let service = Service::start(Stack::Kernel, &line, port);
        Server { folder, port, service }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.file(name), bytes).expect("a file");
    }

    /// Returns true if two files have the same bytes.
    pub(crate) fn same(&self, one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|name| fs::read(self.file(name)));
        one.is_ok_and(|one| other.is_ok_and(|other| one == other))
    }

    /// Returns true if a file is a part of another one from its beginning, but not all of it.
    pub(crate) fn begins(&self, part: &str, whole: &str) -> bool {
        let [part, whole] = [part, whole].map(|name| fs::read(self.file(name)).unwrap_or_default());
        !part.is_empty() && part.len() < whole.len() && whole.starts_with(&part)
    }

    /// Waits until inetd has no server for a session any more.
    pub(crate) fn await_no_session(&self) {
        let inetd = self.service.id();
        let children = format!("/proc/{inetd}/task/{inetd}/children");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !fs::read_to_string(&children).expect("inetd runs").is_empty() {
            assert!(Instant::now() < deadline, "a server is left of a session");
            sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn end(self) -> Outcome {
        self.service.end(libc::SIGTERM)
    }
}

/// A named pipe at which a transfer stops. This test holds both ends, so no open waits.
#[derive(Debug)]
pub(crate) struct Pipe(File);

impl Pipe {
    pub(crate) fn new(path: PathBuf) -> Self {
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo starts").success());
        let mut options = OpenOptions::new();
        Self(
            options
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path)
                .expect("a pipe"),
        )
    }

    /// Calls `is_done` until it returns true, while the client runs.
    pub(crate) fn until(
        &mut self,
        mut client: Running,
        mut is_done: impl FnMut(&mut File) -> bool,
    ) -> Running {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_done(&mut self.0) {
            if client.has_ended() || Instant::now() > deadline {
                panic!("a transfer does not begin: {:#?}", client.finish(Duration::ZERO));
            }
            sleep(Duration::from_millis(1));
        }
        client
    }
}

/// Returns bytes without a repeated pattern that would hide a lost piece.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Returns replies of the server without text that differs from run to run: numbers, and a line that Pure-FTPd adds
/// by chance (its `MSG_WINNER`).
pub(crate) fn replies(told: &str) -> Vec<String> {
    let is_reply = |line: &&str| {
        let (code, rest) = line.split_at_checked(3).unwrap_or_default();
        rest.starts_with([' ', '-']) && code.bytes().all(|byte| byte.is_ascii_digit())
    };
    told.lines()
        .filter(is_reply)
        .filter(|line| !line.ends_with("Trust the computer"))
        .map(|line| {
            let (code, rest) = line.split_at(4);
            let rest = rest.split('(').next().unwrap_or_default();
            let words = rest.split(|letter: char| letter.is_ascii_digit() || letter == '.');
            format!("{code}{}", words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("#"))
        })
        .collect()
}
