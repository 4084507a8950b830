//! FTP: Debian's server under inetd and its clients, unmodified. The server's connection is its standard input, output and
//! error; its data connections are the ones that carry files.
//!
//! For root: the server logs users in, by accounts that it alone sees.

use sovia_tests::{Client, Pairing, Service, Stack, TempDir, free_port, installed, sovia};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Of `x`, by crypt(3).
const HASH: &str = "$6$sovia$TTzeR9MgXmaqjhqw91OidAXR2Q.ierp6Aq9gXQs/knrZehVvKA9MxjW1XJ/eVW3KWHEorGtSldbfMdAcxEDsl1";
/// The number of the user whose account is `guest`.
const GUEST: u32 = 1234;

/// A program out of a package that `make setup` has unpacked.
fn unpacked(package: &str, path: &str) -> Option<PathBuf> {
    let build = sovia();
    let target = build.ancestors().nth(2).expect("the build lies two folders deep");
    Some(target.join("unpacked").join(package).join(path)).filter(|file| file.exists())
}

struct Programs {
    inetd: PathBuf,
    ftpd: PathBuf,
    /// inetutils' client.
    ftp: PathBuf,
}

/// `None` if something is missing, which is said.
fn programs(test: &str) -> Option<Programs> {
    // SAFETY: reads nothing but this process's user id.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: {test}: only root can run a server that logs users in");
        return None;
    }
    let found = (|| {
        Some(Programs {
            inetd: unpacked("openbsd-inetd", "usr/sbin/inetd")?,
            ftpd: unpacked("inetutils-ftpd", "usr/sbin/ftpd")?,
            ftp: unpacked("inetutils-ftp", "usr/bin/inetutils-ftp")?,
        })
    })();
    let missing =
        ["tnftp", "curl", "lftp", "unshare"].into_iter().find(|name| installed(name).is_none());
    if found.is_none() || missing.is_some() {
        println!(
            "SKIPPED: {test}: not there: {}",
            missing.unwrap_or("openbsd-inetd or inetutils' FTP")
        );
        return None;
    }
    found
}

/// A server with accounts of its own, in a folder that has what it serves.
struct Server {
    folder: TempDir,
    port: u16,
    service: Service,
}

impl Server {
    fn start(programs: &Programs, stack: Stack) -> Server {
        let folder = TempDir::new();
        let path = folder.path();
        let shown = path.display();
        let everyone = fs::Permissions::from_mode(0o777);
        fs::set_permissions(path, everyone).expect("the folder is ours");
        let port = free_port();
        let run = match stack {
            Stack::Sovia => {
                format!("{0} sovia run -- {1}", sovia().display(), programs.ftpd.display())
            }
            _ => format!("{} ftpd", programs.ftpd.display()),
        };
        let mut passwd = format!("root:x:0:0:root:{shown}:/bin/sh\n");
        writeln!(passwd, "guest:x:{GUEST}:{GUEST}:guest:{shown}:/bin/sh").expect("memory");
        let shadow = format!("root:{HASH}:19000:0:99999:7:::\nguest:{HASH}:19000:0:99999:7:::\n");
        for (name, text) in [
            ("passwd", passwd),
            ("shadow", shadow),
            ("group", format!("root:x:0:\nguest:x:{GUEST}:\n")),
            ("ftpusers", String::new()),
            ("inetd.conf", format!("127.0.0.1:{port} stream tcp nowait root {run} -l\n")),
        ] {
            fs::write(path.join(name), text).expect("a file");
        }
        let accounts = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps-ftp/with-accounts");
        let line = format!(
            "unshare --mount {} {shown} {} -i {shown}/inetd.conf",
            accounts.display(),
            programs.inetd.display()
        );
        let service = Service::start(Stack::Kernel, &line, port);
        Server { folder, port, service }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.file(name), bytes).expect("a file");
    }

    /// Whether two files have the same bytes.
    fn same(&self, one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|name| fs::read(self.file(name)));
        one.is_ok_and(|one| other.is_ok_and(|other| one == other))
    }

    fn end(self) {
        let _ = self.service.end(libc::SIGTERM);
    }
}

/// Bytes without a pattern that a lost piece would leave whole.
fn noise(len: usize) -> Vec<u8> {
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

const LEN: usize = 5_000_001;

/// What a session of a client of the BSD kind asks for: both ways, both types, a list that the server has `ls` make.
fn session(server: &Server, mode: &str) -> PathBuf {
    let (shown, port) = (server.folder.path().display(), server.port);
    let wanted = server.file("wanted");
    let text = format!(
        "open 127.0.0.1 {port}\nuser root x\n{mode}binary\npwd\nget {shown}/served {shown}/one\ndir\n\
         put {shown}/served {shown}/two\nascii\nget {shown}/lines {shown}/three\n\
         put {shown}/lines {shown}/four\nget {shown}/missing {shown}/five\nquit\n"
    );
    fs::write(&wanted, text).expect("a file of commands");
    wanted
}

/// A session in every pairing. Data connections are short: on which path they are is not asked here.
fn of_the_bsd_kind(test: &str, client: impl Fn(&Programs) -> String, mode: &str) {
    let Some(programs) = programs(test) else { return };
    for pairing in Pairing::OTHERS {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        let lines: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
        server.write("lines", lines.as_bytes());
        let told = Client::of(pairing)
            .may_stay_on_tcp()
            .run_with_input(&client(&programs), Some(session(&server, mode)));
        for (one, other) in
            [("served", "one"), ("served", "two"), ("lines", "three"), ("lines", "four")]
        {
            assert!(server.same(one, other), "{pairing}: {other} is not {one}:\n{told}");
        }
        assert!(told.contains("221 Goodbye") && told.contains("550"), "{pairing}: {told}");
        assert!(told.contains("inetd.conf"), "{pairing}: no list of the folder:\n{told}");
        server.end();
    }
}

#[test]
fn tnftp_in_passive_mode() {
    of_the_bsd_kind("tnftp_in_passive_mode", |_| "tnftp -n -v".into(), "passive on\n");
}

#[test]
fn tnftp_in_active_mode() {
    of_the_bsd_kind("tnftp_in_active_mode", |_| "tnftp -n -v -A".into(), "");
}

#[test]
fn inetutils_ftp_in_passive_mode() {
    let client = |programs: &Programs| format!("{} -n -v -p", programs.ftp.display());
    of_the_bsd_kind("inetutils_ftp_in_passive_mode", client, "");
}

#[test]
fn inetutils_ftp_in_active_mode() {
    let client = |programs: &Programs| format!("{} -n -v", programs.ftp.display());
    of_the_bsd_kind("inetutils_ftp_in_active_mode", client, "");
}

#[test]
fn curl_gets_and_puts() {
    let Some(programs) = programs("curl_gets_and_puts") else { return };
    for pairing in Pairing::OTHERS {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        let (shown, port) = (server.folder.path().display(), server.port);
        let client = Client::of(pairing).may_stay_on_tcp();
        for way in ["", "-P - "] {
            client.run(&format!(
                "curl -sS {way}-u root:x ftp://127.0.0.1:{port}/served -o {shown}/one"
            ));
            client
                .run(&format!("curl -sS {way}-u root:x -T {shown}/one ftp://127.0.0.1:{port}/two"));
            assert!(
                server.same("served", "one") && server.same("served", "two"),
                "{pairing}, {way}"
            );
        }
        server.end();
    }
}

#[test]
fn lftp_gets_and_puts() {
    let Some(programs) = programs("lftp_gets_and_puts") else { return };
    for pairing in Pairing::OTHERS {
        let server = Server::start(&programs, pairing.server);
        server.write("served", &noise(LEN));
        let (shown, port) = (server.folder.path().display(), server.port);
        server.write(
            "wanted",
            format!(
                "set ftp:ssl-allow no\nopen -u root,x ftp://127.0.0.1:{port}\nget served -o {shown}/one\n\
                 put {shown}/one -o two\nls\nbye\n"
            )
            .as_bytes(),
        );
        let told = Client::of(pairing)
            .may_stay_on_tcp()
            .run_with_input("lftp --norc", Some(server.file("wanted")));
        assert!(server.same("served", "one") && server.same("served", "two"), "{pairing}: {told}");
        assert!(told.contains("inetd.conf"), "{pairing}: no list of the folder:\n{told}");
        server.end();
    }
}

/// Says what `sovia run -v` says of a transfer by curl as this user.
fn report(server: &Server, user: &str) -> String {
    let (shown, port) = (server.folder.path().display(), server.port);
    let line = format!("curl -sS -u {user}:x ftp://127.0.0.1:{port}/served -o {shown}/one");
    let told = Client::of(Pairing::SOVIA).may_stay_on_tcp().run_verbose(&line);
    assert!(server.same("served", "one"), "{told}");
    told
}

/// Whether the ends meet in time depends on the machine: of many transfers one does.
#[test]
fn data_connections_are_accelerated() {
    let Some(programs) = programs("data_connections_are_accelerated") else { return };
    let server = Server::start(&programs, Stack::Sovia);
    server.write("served", &noise(50_000_000));
    let reports: Vec<String> = (0..50)
        .map(|_| report(&server, "root"))
        .take_while(|told| !told.contains("accelerated: 1 end of a connection"))
        .collect();
    assert!(reports.len() < 50, "none of 50 transfers: {}", reports.last().map_or("", |told| told));
    server.end();
}

/// A server that has changed its user stays on TCP, and says so.
#[test]
fn a_server_that_changes_its_user_stays_on_tcp() {
    let Some(programs) = programs("a_server_that_changes_its_user_stays_on_tcp") else { return };
    let server = Server::start(&programs, Stack::Sovia);
    server.write("served", &noise(50_000_000));
    let told = report(&server, "guest");
    assert!(told.contains("accelerated: 0 ends"), "{told}");
    assert!(told.contains(&format!("to the user with id {GUEST}")), "{told}");
    server.end();
}
