//! Builds the programs of `apps-rpc`, and starts them over each transport.

use sovia_tests::{Client, Pairing, Service, Stack, TempDir, free_port, libsovia, skipped};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Carrier of an end's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Transport "tcp" of libtirpc, over a stack.
    Tcp(Stack),
    /// Transport "via" of libsovia-rpc.
    Via(Stack),
}

impl End {
    pub(crate) const KERNEL: Self = Self::Tcp(Stack::Kernel);
    pub(crate) const SOVIA: Self = Self::Tcp(Stack::Sovia);
    /// "via" at both ends, by libsovia alone.
    pub(crate) const VIA: Self = Self::Via(Stack::Kernel);
    /// Both transports under `sovia run`.
    pub(crate) const BOTH: Self = Self::Via(Stack::Sovia);

    fn stack(self) -> Stack {
        match self {
            Self::Tcp(stack) | Self::Via(stack) => stack,
        }
    }

    /// Returns the program of a role, and its last argument.
    fn words(self, role: &str) -> (String, &'static str) {
        match self {
            Self::Tcp(_) => (role.to_owned(), ""),
            Self::Via(_) => (format!("{role}-via"), "via"),
        }
    }
}

/// Ends of the server and the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) server: End,
    pub(crate) client: End,
}

impl Ends {
    pub(crate) const KERNEL: Self = Self { server: End::KERNEL, client: End::KERNEL };

    pub(crate) fn of(pairing: Pairing) -> Self {
        Self { server: End::Tcp(pairing.server), client: End::Tcp(pairing.client) }
    }

    fn pairing(self) -> Pairing {
        Pairing { server: self.server.stack(), client: self.client.stack() }
    }

    /// Returns how to run the client.
    pub(crate) fn client(self) -> Client {
        Client::of(self.pairing())
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {:?}, client {:?}", self.server, self.client)
    }
}

/// Folder with the programs, built once.
#[derive(Debug)]
pub(crate) struct Programs {
    folder: TempDir,
}

impl Programs {
    /// Starts a server for a test, and returns a client's command.
    pub(crate) fn serve(&self, ends: Ends) -> (Service, impl Fn(&str) -> String) {
        let (port, folder) = (free_port(), self.folder.path());
        let (server, netid) = ends.server.words("server");
        let line = format!("{} {port} {netid}", folder.join(server).display());
        let server = Service::start(ends.server.stack(), &line, port);
        let (client, netid) = ends.client.words("client");
        let client = folder.join(client).display().to_string();
        (server, move |case: &str| format!("{client} {port} {case} {netid}"))
    }
}

fn run(folder: &Path, program: &str, words: &[&str]) {
    let mut command = Command::new(program);
    let done = command.args(words).current_dir(folder).status().expect("it starts");
    assert!(done.success(), "{program} {words:?}");
}

/// Returns the folder of sources and headers.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the programs without "via", or `None` if something is missing that they are built from.
pub(crate) fn programs() -> Option<&'static Programs> {
    static BUILT: OnceLock<Option<Programs>> = OnceLock::new();
    let build = || {
        if skipped("rpc", &["rpcgen"]) {
            return None;
        }
        if !Path::new("/usr/include/tirpc/rpc/rpc.h").exists() {
            println!("SKIPPED: rpc: not installed: libtirpc-dev");
            return None;
        }
        let folder = TempDir::new();
        let path = folder.path();
        for entry in fs::read_dir(workspace().join("tests/apps-rpc")).expect("the sources") {
            let source = entry.expect("an entry");
            fs::copy(source.path(), path.join(source.file_name())).expect("a source file");
        }
        for (what, file) in [
            ("-h", "service.h"),
            ("-c", "service_xdr.c"),
            ("-l", "service_clnt.c"),
            ("-m", "service_svc.c"),
        ] {
            run(path, "rpcgen", &[what, "-o", file, "service.x"]);
        }
        compile(path, "", &[]);
        Some(Programs { folder })
    };
    BUILT.get_or_init(build).as_ref()
}

/// Like `programs`, with those for "via".
pub(crate) fn programs_for_via() -> Option<&'static Programs> {
    static BUILT: OnceLock<()> = OnceLock::new();
    let programs = programs()?;
    let library = library_folder("rpc over via")?;
    BUILT.get_or_init(|| {
        let include = workspace().join("include");
        let paths = [
            format!("-I{}", include.display()),
            format!("-L{}", library.display()),
            format!("-Wl,-rpath,{}", library.display()),
        ];
        let mut words = vec!["-DVIA"];
        words.extend(paths.iter().map(String::as_str));
        words.extend(["-lsovia-rpc", "-lsovia"]);
        compile(programs.folder.path(), "-via", &words);
    });
    Some(programs)
}

/// Returns the folder of libsovia and libsovia-rpc. Prints that the test is skipped if `make build`
/// has left libsovia-rpc out.
pub(crate) fn library_folder(test: &str) -> Option<PathBuf> {
    let folder = libsovia().parent().expect("a library lies in a folder").to_path_buf();
    let there = folder.join("libsovia-rpc.so").exists();
    if !there {
        println!("SKIPPED: {test}: not built: libsovia-rpc.so");
    }
    there.then_some(folder)
}

fn compile(folder: &Path, suffix: &str, words: &[&str]) {
    let sources: [(&str, &[&str]); 2] = [
        ("server", &["server.c", "service_svc.c"]),
        ("client", &["client.c", "handle.c", "hostile.c", "service_clnt.c"]),
    ];
    for (program, sources) in sources {
        let name = format!("{program}{suffix}");
        let mut line = vec!["-O1", "-w", "-I", "/usr/include/tirpc", "-o", &name];
        line.extend(sources);
        line.push("service_xdr.c");
        line.extend(words);
        line.push("-ltirpc");
        run(folder, "cc", &line);
    }
}
