//! A lane between two network namespaces.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::hosts::Hosts;
use crate::workspace::{TempDir, sovia};

/// Transport of the NICs of two lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneNics {
    /// Shared memory: both processes in this network namespace, their devices in the two others.
    Shm,
    /// UDP, each process in a namespace of its own.
    Udp,
    /// The Ethernet devices between the namespaces.
    Eth,
}

impl LaneNics {
    /// All kinds.
    pub const ALL: [LaneNics; 3] = [LaneNics::Shm, LaneNics::Udp, LaneNics::Eth];
}

/// Two namespaces for lanes, with addresses of their own.
#[derive(Debug)]
pub struct LaneScene {
    hosts: Hosts,
    nics: LaneNics,
    mtu: usize,
    folder: TempDir,
    /// Each NIC's place, for `--nic` and `--peer`.
    places: [[String; 2]; 2],
}

impl LaneScene {
    /// The addresses of the lanes.
    pub const ADDRESSES: [&str; 2] = ["10.91.8.2", "10.91.8.3"];
    /// IPv6 addresses of the lanes.
    pub const ADDRESSES_V6: [&str; 2] = ["fd91::2", "fd91::3"];
    /// Name of the lanes' devices.
    pub const DEVICE: &str = "lane7";

    /// Makes the scene. Returns `None` if this process may make no namespace, or the kernel has no
    /// TUN devices.
    pub fn new(nics: LaneNics, mtu: usize) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_err() {
            return None;
        }
        let hosts = Hosts::new()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let places = [0, 1].map(|host| match nics {
            LaneNics::Shm => {
                let name = format!("shm:lane-{}-{number}-{host}", std::process::id());
                [name.clone(), name]
            }
            LaneNics::Udp => {
                let place = format!("udp:{}:7600", Hosts::ADDRESSES[host]);
                [place.clone(), place]
            }
            LaneNics::Eth => ["eth:way".to_owned(), format!("mac:{}", mac(&hosts, host))],
        });
        Some(Self { hosts, nics, mtu, folder: TempDir::new(), places })
    }

    /// Returns the namespaces.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns the folder for files.
    pub fn folder(&self) -> &TempDir {
        &self.folder
    }

    /// Returns the command of a host's lane, without its words for the device.
    pub fn command(&self, host: usize) -> Command {
        let other = 1 - host;
        let mut command = match self.nics {
            LaneNics::Shm => {
                let mut command = Command::new(sovia());
                command.args(["lane", "up", "--netns", self.hosts.name(host)]);
                command
            }
            LaneNics::Udp | LaneNics::Eth => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", self.hosts.name(host)]);
                command.arg(sovia()).args(["lane", "up"]);
                command
            }
        };
        command.args(["--nic", &self.places[host][0], "--mtu", &self.mtu.to_string()]);
        for addresses in [Self::ADDRESSES, Self::ADDRESSES_V6] {
            command.arg("--peer").arg(format!("{}={}", addresses[other], self.places[other][1]));
        }
        command
    }

    /// Starts the lane of a host, and waits until it is up.
    ///
    /// # Panics
    /// If the lane does not come up.
    pub fn start(&self, host: usize) -> LaneEnd {
        let says = self.folder.path().join(format!("{host}.says"));
        let errors = std::fs::File::options().create(true).append(true).open(&says);
        let mut child = self
            .command(host)
            .args(["--device", Self::DEVICE])
            .args(["--address", &format!("{}/24", Self::ADDRESSES[host])])
            .args(["--address", &format!("{}/64", Self::ADDRESSES_V6[host])])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.expect("a file"))
            .spawn()
            .expect("sovia lane starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says when it is up");
        let end = LaneEnd { child, output, says };
        assert_eq!(line, format!("{} is up\n", Self::DEVICE), "{}", end.said());
        end
    }

    /// Runs a program on a host to its end. Returns true if it succeeded, and its output.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn run(&self, host: usize, words: &[&str]) -> (bool, String) {
        let output = Command::new("ip")
            .args(["netns", "exec", self.hosts.name(host)])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("ip starts");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Starts a program on a host. Dropping the value kills it.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn serve(&self, host: usize, words: &[&str]) -> Served {
        let child = Command::new("ip")
            .args(["netns", "exec", self.hosts.name(host)])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ip starts");
        Served(child)
    }

    /// Returns true if the host's device exists.
    pub fn has_device(&self, host: usize) -> bool {
        self.run(host, &["ip", "link", "show", Self::DEVICE]).0
    }
}

/// Returns the Ethernet address of a host's device.
fn mac(hosts: &Hosts, host: usize) -> String {
    let words = ["-n", hosts.name(host), "-o", "link", "show", "way"];
    let output = Command::new("ip").args(words).output().expect("ip starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let (_, behind) = text.split_once("link/ether ").expect("an Ethernet device");
    behind.split(' ').next().expect("an address").to_owned()
}

/// A serving program, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A lane that is up, which is killed when this value is dropped.
#[derive(Debug)]
pub struct LaneEnd {
    child: Child,
    output: BufReader<ChildStdout>,
    says: PathBuf,
}

impl LaneEnd {
    /// Returns the messages about peers and errors that it, and other lanes of its host, have
    /// printed so far.
    ///
    /// # Panics
    /// If the file with the messages cannot be read.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.says).expect("what it says")
    }

    /// Ends the lane by a signal, and returns its exit status and its last message.
    ///
    /// # Panics
    /// If the lane does not end.
    pub fn end(mut self, signal: i32) -> (ExitStatus, String) {
        // SAFETY: kill has no memory effects; the child has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
        let mut last = String::new();
        self.output.read_to_string(&mut last).expect("its output");
        (self.child.wait().expect("it ends"), last)
    }
}

impl Drop for LaneEnd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
