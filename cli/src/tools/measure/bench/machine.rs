//! Description of the measured machine.

use std::fs;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Facts on which figures depend.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(super) processor: String,
    /// Number of processors that this process may use.
    pub(super) processors: usize,
    /// Processors of the two ends.
    pub(super) used: (usize, usize),
    pub(super) memory_gb: f64,
    pub(super) kernel: String,
    pub(super) hypervisor: bool,
    pub(super) governor: Option<String>,
    /// Load average at the beginning. The two ends alone would make it 2.
    pub(super) load: String,
    /// Processor time of other programs just before the measurement, in percent of all processors.
    pub(super) others_percent: f64,
    /// Date of the measurement (UTC).
    pub(super) date: String,
    pub(super) version: String,
    pub(super) build: String,
}

impl Machine {
    pub(crate) fn this(used: (usize, usize)) -> Self {
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
            others_percent: others(),
            date: date(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
    }

    /// Returns true if other programs used the processors when the measurement began.
    pub(crate) fn is_busy(&self) -> bool {
        self.others_percent > BUSY_PERCENT
    }

    /// Returns true if QEMU translates the instructions, which makes the machine several times slower.
    pub(crate) fn is_emulated(&self) -> bool {
        self.processor.contains("QEMU TCG")
    }

    /// Describes the load by other programs.
    pub(super) fn busy_text(&self) -> String {
        format!(
            "other programs used {:.0} % of the processors (load {})",
            self.others_percent, self.load
        )
    }

    /// Returns the machine, the date and the load, for a picture.
    pub(crate) fn short(&self) -> String {
        format!(
            "{}, {} processors, {}; {}, load {}; {} build",
            self.processor, self.processors, self.kernel, self.date, self.load, self.build
        )
    }

    /// Describes the machine in one line.
    pub(super) fn describe(&self) -> String {
        let kind = if self.hypervisor { "virtual processors" } else { "processors" };
        let (first, second) = self.used;
        let governor =
            self.governor.as_ref().map_or(String::new(), |it| format!(", governor {it}"));
        format!(
            "{}, {} {kind} (the ends on {first} and {second}), {} GB, {}{governor}; {}; {} at the start; Sovia {}, {} build",
            self.processor,
            self.processors,
            self.memory_gb,
            self.kernel,
            self.date,
            self.busy_text(),
            self.version,
            self.build
        )
    }
}

/// Load by other programs from which on the machine counts as busy.
const BUSY_PERCENT: f64 = 10.0;
/// Time for which the load by other programs is measured.
const LOOK: Duration = Duration::from_millis(250);

/// Returns the load by other programs while this process sleeps, in percent of all processors.
fn others() -> f64 {
    let before = processor_time();
    std::thread::sleep(LOOK);
    let (before, after) = (before.unwrap_or_default(), processor_time().unwrap_or_default());
    let (idle, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    if all == 0 { 0.0 } else { 100.0 * (1.0 - idle as f64 / all as f64) }
}

/// Returns the idle ticks and all ticks of all processors since boot.
fn processor_time() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    // The sum has idle time and time waiting for a device. User time already contains guests' time.
    Some((ticks.get(3)? + ticks.get(4)?, ticks.iter().take(8).sum()))
}

/// Returns the date of today in UTC.
fn date() -> String {
    let days = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    civil(days.map_or(0, |since| since.as_secs() / 86_400))
}

/// Returns the Gregorian date of a day, counted from 1 January 1970.
fn civil(days: u64) -> String {
    let (mut year, mut left) = (1970, days);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        (year, left) = (year + 1, left - length);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        (month, left) = (month + 1, left - length);
    }
    format!("{year:04}-{month:02}-{:02}", left + 1)
}

/// Returns the value of the first line `name : value`.
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
        assert!(machine.describe().contains("Linux") && machine.short().contains(&machine.date));
        assert!((0.0..=100.0).contains(&machine.others_percent));
        assert!(Machine { others_percent: 50.0, ..machine.clone() }.is_busy());
        let named =
            |processor: &str| Machine { processor: processor.to_owned(), ..machine.clone() };
        assert!(named("QEMU TCG CPU version 2.5+").is_emulated());
        assert!(!named("AMD EPYC").is_emulated() && !named("QEMU Virtual CPU").is_emulated());
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&text).unwrap().date, machine.date);
    }

    #[test]
    fn days_have_dates() {
        assert_eq!(
            [0, 58, 59, 365].map(civil),
            ["1970-01-01", "1970-02-28", "1970-03-01", "1971-01-01"]
        );
        assert_eq!([11_016, 20_146].map(civil), ["2000-02-29", "2025-02-27"]);
    }
}
