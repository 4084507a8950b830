//! The machine that was measured, by name.

use std::fs;

use serde::Serialize;

/// What figures depend on.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) processor: String,
    /// How many this process may use.
    pub(super) processors: usize,
    /// Those of the two ends.
    pub(super) used: (usize, usize),
    pub(super) memory_gb: f64,
    pub(super) kernel: String,
    pub(super) hypervisor: bool,
    pub(super) governor: Option<String>,
    /// Load when the measurement began; two ends alone would make it two.
    pub(super) load: String,
    pub(super) version: &'static str,
    pub(super) build: &'static str,
}

impl Machine {
    pub(super) fn this(used: (usize, usize)) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kilobytes: f64 =
            memory.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0.0);
        let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        Self {
            processor: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            used,
            memory_gb: (kilobytes / 1048576.0 * 10.0).round() / 10.0,
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            hypervisor: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            governor: Some(governor.trim().to_owned()).filter(|it| !it.is_empty()),
            load: read("/proc/loadavg").split(' ').take(1).collect(),
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }

    /// In one line.
    pub(super) fn describe(&self) -> String {
        let kind = if self.hypervisor { "virtual processors" } else { "processors" };
        let (first, second) = self.used;
        let governor =
            self.governor.as_ref().map_or(String::new(), |it| format!(", governor {it}"));
        format!(
            "{}, {} {kind} (the ends on {first} and {second}), {} GB, {}{governor}; load {} when it began; Sovia {}, {} build",
            self.processor,
            self.processors,
            self.memory_gb,
            self.kernel,
            self.load,
            self.version,
            self.build
        )
    }
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.split(':').next().is_some_and(|found| found.trim() == name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_name() {
        let text = "processor\t: 0\nmodel name\t: A: B 7\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A: B 7"));
        assert_eq!(field(text, "nothing"), None);
        let machine = Machine::this((0, 1));
        assert!(machine.processors >= 1 && machine.memory_gb > 0.0);
        assert!(machine.describe().contains("Linux"));
    }
}
