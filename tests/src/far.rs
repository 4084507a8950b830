//! Agents of two hosts, which know each other by keys and carry connections between their programs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::nics::between;
use crate::programs::free_port;
use crate::workspace::{TempDir, sovia};

/// A key in a file.
#[derive(Debug, Clone)]
pub struct Key {
    file: PathBuf,
    /// Public key, by which other agents know this agent.
    pub public: String,
}

impl Key {
    /// Makes a key with this name in a folder.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(folder: &TempDir, name: &str) -> Self {
        let file = folder.path().join(name);
        let output = Command::new(sovia()).args(["agent", "--new-key"]).arg(&file).output();
        let output = output.expect("sovia agent starts");
        assert!(output.status.success(), "{output:?}");
        let public = String::from_utf8(output.stdout).expect("text").trim().to_owned();
        Self { file, public }
    }

    /// Returns the key's file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// An agent with a NIC in software, which ends with this value.
#[derive(Debug)]
pub struct FarNic {
    child: Child,
    says: PathBuf,
    listens_at: String,
}

impl FarNic {
    /// Starts a NIC with this name, which listens at `listen` and whose peer is `KEY@IP:PORT`. `prefix` may name
    /// another command that starts it.
    ///
    /// # Errors
    /// The agent's output.
    ///
    /// # Panics
    /// If the agent cannot be started at all.
    pub fn start(
        folder: &TempDir,
        prefix: &str,
        name: &str,
        (listen, key): (&str, &Key),
        peer: &str,
        options: &[&str],
    ) -> Result<Self, String> {
        let options = [&["--peer", peer], options].concat();
        Self::start_with(folder, prefix, name, (listen, key), &options)
    }

    /// Like `start`, with the peers among the options.
    ///
    /// # Errors
    /// The agent's output.
    ///
    /// # Panics
    /// If the agent cannot be started at all.
    pub fn start_with(
        folder: &TempDir,
        prefix: &str,
        name: &str,
        (listen, key): (&str, &Key),
        options: &[&str],
    ) -> Result<Self, String> {
        let says = folder.path().join(format!("{name}-{listen}.says"));
        let sovia = sovia();
        let mut words = prefix.split_whitespace().map(PathBuf::from).chain([sovia]);
        let mut child = Command::new(words.next().expect("a program"))
            .args(words)
            .args(["agent", "--name", name, "--listen", listen, "--key"])
            .arg(key.file())
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&says).expect("a file"))
            .spawn()
            .expect("sovia agent starts");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut line).expect("it says when it is ready");
        let nic = Self { child, says, listens_at: listen.to_owned() };
        if line == format!("the NIC {name} is ready\n") { Ok(nic) } else { Err(nic.said()) }
    }

    /// Prints that the test is skipped, if an agent has printed the reason instead of starting.
    ///
    /// # Panics
    /// If the reason is another one.
    pub fn cannot(test: &str, said: &str) {
        assert!(said.contains("needs CAP_BPF"), "{said}");
        println!("SKIPPED: {test}: {}", said.trim());
    }

    /// Returns the output of this agent, and of those before it at the same place.
    ///
    /// # Panics
    /// If the output cannot be read.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.says).expect("what it says")
    }

    /// Returns how often this agent, and those before it at the same place, have met another agent.
    pub fn meetings(&self) -> usize {
        self.said().matches("connected to the agent at").count()
    }

    /// Returns the address on which it receives from the other agent.
    pub fn listens_at(&self) -> &str {
        &self.listens_at
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the agent.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory effects; the child has not been waited for, so the id is still its own.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }
}

impl Drop for FarNic {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two agents on one host, over loopback, and a name for each.
#[derive(Debug)]
pub struct FarPair {
    nics: [FarNic; 2],
    names: [String; 2],
    _folder: TempDir,
}

impl FarPair {
    /// Starts two agents with these options. Returns `None`, and prints that the test is skipped, if there can
    /// be none here.
    pub fn start(test: &str, options: &[&str]) -> Option<Self> {
        Self::start_each(test, [options, options])
    }

    /// Like `start`, with options for each agent.
    pub fn start_each(test: &str, options: [&[&str]; 2]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = TempDir::new();
        let names = ["a", "b"].map(|end| format!("far-{}-{number}-{end}", std::process::id()));
        let keys = ["a", "b"].map(|end| Key::new(&folder, end));
        let places = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let start = |own: usize| {
            let peer = format!("{}@{}", keys[1 - own].public, places[1 - own]);
            let at = (places[own].as_str(), &keys[own]);
            FarNic::start(&folder, "", &names[own], at, &peer, options[own])
        };
        match (start(0), start(1)) {
            (Ok(a), Ok(b)) => Some(Self { nics: [a, b], names, _folder: folder }),
            (Err(said), _) | (_, Err(said)) => {
                FarNic::cannot(test, &said);
                None
            }
        }
    }

    /// Returns the two agents.
    pub fn nics(&self) -> &[FarNic; 2] {
        &self.nics
    }

    /// Returns rules by which connecting ends use the first agent, and accepting ends the second.
    pub fn rules(&self) -> String {
        between(&self.names)
    }
}
