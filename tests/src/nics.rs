//! Two NICs in software with a lossy way between them, for tests of connections that they carry.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::workspace::{TempDir, sovia};

/// What befalls frames: of each hundred two get lost, one arrives twice, two too late, and one damaged.
pub const LOSSY: &[&str] =
    &["--lose", "20000", "--duplicate", "10000", "--delay", "20000", "--corrupt", "10000"];

/// A pair of NICs, which end with it.
#[derive(Debug)]
pub struct Nics {
    names: [String; 2],
    agents: [Child; 2],
    _folder: TempDir,
}

impl Nics {
    /// Two NICs that serve, with these options.
    ///
    /// # Panics
    /// If one of them does not come up.
    pub fn start(options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = TempDir::new();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|end| format!("test-{}-{number}-{end}", std::process::id()));
        let port = |end: &str| folder.path().join(end);
        let agent = |name: &str, own: &str, peer: &str| {
            let mut agent = Command::new(sovia())
                .args(["agent", "--name", name, "--port"])
                .arg(port(own))
                .arg("--peer")
                .arg(port(peer))
                .args(options)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .expect("sovia agent starts");
            let mut line = String::new();
            let mut output = BufReader::new(agent.stdout.take().expect("a pipe"));
            output.read_line(&mut line).expect("it says when it is ready");
            assert_eq!(line, format!("the NIC {name} is ready\n"));
            agent
        };
        let agents = [agent(&names[0], "a", "b"), agent(&names[1], "b", "a")];
        Self { names, agents, _folder: folder }
    }

    /// The rules by which ends that connect use the first, and ends that accept the second.
    pub fn rules(&self) -> String {
        let [a, b] = &self.names;
        format!("nic:name={a},end=connector;nic:name={b},end=acceptor")
    }

    /// Their process ids.
    pub fn ids(&self) -> [u32; 2] {
        self.agents.each_ref().map(Child::id)
    }

    /// The name of the first.
    pub fn name(&self) -> &str {
        &self.names[0]
    }
}

impl Drop for Nics {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}
