//! Runs a scenario program in every pairing, and compares it with its transcript on the kernel.

use std::env;
use std::ffi::OsString;
use std::fmt::Write;
use std::time::Duration;

use crate::apps::App;
use crate::launch::{Launch, Outcome, finish};
use crate::pairing::{Pairing, Stack};
use crate::reference::{self, Key};
use crate::summary::accelerated;
use crate::transcript::difference;
use crate::turn::Turn;
use crate::workspace::{TempDir, kernel_only};

/// Numbers of transfers before a scenario, so that the switch to shared memory comes before it,
/// during it or after it.
const ROUNDS_BEFORE: [u8; 7] = [0, 1, 2, 3, 4, 5, 6];

/// One case of a scenario program.
#[derive(Clone, Debug)]
pub struct Scenario {
    app: App,
    case: String,
    single: bool,
    native: bool,
    watchdog: Duration,
    accelerates: bool,
    environment: Vec<(String, String)>,
    before: Vec<String>,
    strangers: bool,
    detailed: bool,
}

/// Transcripts that both ends of one run wrote.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Outcomes, the server's first; one, if a single process holds both ends.
    pub ends: Vec<(&'static str, Outcome)>,
    commands: Vec<String>,
}

/// A run to compare with the one over the kernel.
#[derive(Debug)]
struct Run {
    scenario: Scenario,
    pairing: Pairing,
    seen: Observation,
    /// Describes the run's configuration in an error.
    condition: String,
}

/// Environment of an end that must grant early: it meets the peer before the first transfer, and transfers nothing
/// before the scenario.
const EARLY: [(&str, &str); 2] = [("SOVIA_MEET", "0"), ("SOVIA_TEST_WARMUP", "0")];

fn with_early_grant(launch: Launch, acceptor: &str) -> Launch {
    let launch = EARLY.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
    launch.env("SOVIA_TEST_KNOWN", acceptor)
}

impl Scenario {
    /// A case of the C program `apps-c/NAME.c`.
    pub fn c(name: &'static str, case: &str) -> Self {
        Self::new(App::C(name), case)
    }

    /// A case of the C program, built with AddressSanitizer.
    pub fn sanitized(name: &'static str, case: &str) -> Self {
        Self::new(App::Sanitized(name), case)
    }

    /// A case of the Python program `apps-py/NAME.py`.
    pub fn python(name: &'static str, case: &str) -> Self {
        Self::new(App::Python(name), case)
    }

    fn new(app: App, case: &str) -> Self {
        Self {
            app,
            case: case.into(),
            single: false,
            native: false,
            watchdog: watchdog(120),
            accelerates: true,
            environment: Vec::new(),
            before: Vec::new(),
            strangers: env::var_os("SOVIA_TESTS_STRANGERS").is_some(),
            detailed: false,
        }
    }

    /// Runs one process that holds both ends, and may stay on TCP.
    #[must_use]
    pub fn single(mut self) -> Self {
        self.single = true;
        self.accelerates = false;
        self
    }

    /// Builds the program at one end, or at both, against libsovia.
    #[must_use]
    pub fn native(mut self) -> Self {
        self.native = true;
        self
    }

    /// Sets the time after which a run counts as hanging.
    #[must_use]
    pub fn watchdog(mut self, seconds: u64) -> Self {
        self.watchdog = watchdog(seconds);
        self
    }

    /// Allows connections to stay on TCP, or no process to report them.
    #[must_use]
    pub fn may_stay_on_tcp(mut self) -> Self {
        self.accelerates = false;
        self
    }

    /// The ends meet within one call of each process. NICs in software between the ends need time of their own, so
    /// the call may be over before.
    #[must_use]
    pub fn meets_in_its_call(self) -> Self {
        if env::var_os("SOVIA_TESTS_UNTIL_MET").is_some() { self.may_stay_on_tcp() } else { self }
    }

    /// Sets a variable in the environment of both ends.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.into(), value.to_string()));
        self
    }

    /// Starts both ends by another program, which gets these arguments before the command.
    #[must_use]
    pub fn by(mut self, program: &[&str]) -> Self {
        self.before = program.iter().map(ToString::to_string).collect();
        self
    }

    /// Starts ends under Sovia by `sovia run -vv`, for a summary that also lists ignored messages.
    #[must_use]
    pub fn detailed(mut self) -> Self {
        self.detailed = true;
        self
    }

    /// Forbids the two ends to trace each other. A rule allows them to share memory like processes
    /// of two users. For root.
    #[must_use]
    pub fn strangers(mut self) -> Self {
        self.strangers = true;
        self
    }

    /// Runs it once.
    pub fn observe(&self, pairing: Pairing) -> Observation {
        let folder = TempDir::new();
        let roles = if self.single {
            vec![("both", pairing.server)]
        } else {
            vec![("server", pairing.server), ("client", pairing.client)]
        };
        let verbose = pairing.is_accelerated();
        let until_met = verbose && env::var_os("SOVIA_TESTS_UNTIL_MET").is_some();
        let early = env::var("SOVIA_TESTS_EARLY").ok();
        let launches: Vec<Launch> = roles
            .iter()
            .map(|(role, stack)| self.launch(role, *stack, &folder, verbose))
            .map(|launch| match &early {
                Some(acceptor) => with_early_grant(launch, acceptor),
                None => launch,
            })
            .map(|launch| if until_met { launch.env("SOVIA_TEST_UNTIL_MET", "1") } else { launch })
            .collect();
        let running = launches.iter().map(Launch::start).collect();
        let outcomes = finish(running, self.watchdog);
        let ends = roles.iter().map(|(role, _)| *role).zip(outcomes);
        let commands = launches.iter().map(Launch::shell).collect();
        let ends: Vec<(&'static str, Outcome)> = ends.collect();
        for (role, outcome) in &ends {
            for line in outcome.stderr.lines().filter(|line| line.starts_with("note: ")) {
                println!("{pairing}, {role}: {line}");
            }
        }
        Observation { ends, commands }
    }

    fn launch(&self, role: &str, stack: Stack, folder: &TempDir, verbose: bool) -> Launch {
        let mut command: Vec<OsString> = self.before.iter().map(OsString::from).collect();
        command.extend(self.app.command(stack));
        command.extend([role.into(), folder.path().into(), self.case.clone().into()]);
        let mut launch = Launch::new(stack, command).verbose(verbose);
        if verbose && self.detailed {
            launch = launch.detailed();
        }
        if self.strangers {
            launch = launch.env("SOVIA_RULES", "trust:any");
            if role == "client" {
                // Root with fewer capabilities may not trace root with more.
                launch = launch.by(&["setpriv", "--bounding-set", "-sys_admin,-sys_ptrace", "--"]);
            }
        }
        let environment = self.environment.iter();
        environment.fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// Runs the case with both ends under Sovia. A connector that sends first grants the VI with its request. It
    /// does so to an acceptor that shares a segment with it, and to one that does not, which therefore does not
    /// answer.
    ///
    /// # Panics
    /// If any transcript is not the one over the kernel.
    pub fn run_with_early_grants(&self) {
        for acceptor in ["same", "worker"] {
            let mut scenario = self.clone().may_stay_on_tcp();
            for (name, value) in EARLY {
                scenario = scenario.env(name, value);
            }
            scenario.env("SOVIA_TEST_KNOWN", acceptor).run_accelerated();
        }
    }

    /// Runs it in the pairings of this turn.
    ///
    /// # Panics
    /// If any transcript differs from that over the kernel.
    pub fn run(&self) {
        let pairings: &[Pairing] = match (self.native, self.single) {
            (false, false) => &Pairing::OTHERS,
            (false, true) => &[Pairing::SOVIA],
            (true, false) => &Pairing::NATIVES,
            (true, true) => &[Pairing::NATIVE],
        };
        self.run_in(&Pairing::in_turn(pairings, self.turn()));
    }

    fn turn(&self) -> Turn {
        Turn::of((self.app.name(), &self.case))
    }

    /// Runs a long scenario only with both ends on the kernel, and with both on Sovia.
    ///
    /// # Panics
    /// If a transcript is not the one over the kernel.
    pub fn run_accelerated(&self) {
        self.run_in(if self.native { &[Pairing::NATIVE] } else { &[Pairing::SOVIA] });
    }

    fn run_in(&self, others: &[Pairing]) {
        if env::var_os("SOVIA_TESTS_ACROSS").is_some() {
            return self.run_across_the_switch();
        }
        let runs = others.iter().flat_map(|&pairing| (0..repetitions()).map(move |_| pairing));
        let runs = runs.map(|pairing| Run {
            scenario: self.clone(),
            pairing,
            seen: self.observe(pairing),
            condition: String::new(),
        });
        self.assert_as_over_the_kernel(&runs.collect::<Vec<_>>());
    }

    /// Runs both ends under Sovia with no to several transfers before the scenario, so that the switch comes during
    /// the scenario.
    ///
    /// # Panics
    /// If any transcript is not the one over the kernel.
    pub fn run_across_the_switch(&self) {
        let pairing = if self.native { Pairing::NATIVE } else { Pairing::SOVIA };
        let runs = self.turn().some_of(&ROUNDS_BEFORE, 3).into_iter().map(|rounds| {
            let scenario = self.clone().env("SOVIA_TEST_WARMUP", rounds).may_stay_on_tcp();
            let seen = scenario.observe(pairing);
            let condition = format!("\nwith {rounds} round trips before:");
            Run { scenario, pairing, seen, condition }
        });
        self.assert_as_over_the_kernel(&runs.collect::<Vec<_>>());
    }

    /// Compares runs with the transcript over the kernel. A stored transcript can only pass a run: after a
    /// difference, the scenario runs over the kernel again.
    fn assert_as_over_the_kernel(&self, runs: &[Run]) {
        let complaints = |reference: &[Outcome]| -> String {
            let complaint = |run: &Run| {
                let text = run.scenario.complaint(reference, run.pairing, &run.seen)?;
                Some(format!("{}{text}", run.condition))
            };
            runs.iter().filter_map(complaint).collect()
        };
        let key = self.key();
        if reference::load(&key).is_some_and(|stored| complaints(&stored).is_empty()) {
            return;
        }
        let reference: Vec<Outcome> =
            self.reference().ends.into_iter().map(|(_, outcome)| outcome).collect();
        let complaints = complaints(&reference);
        reference::store(&key, &reference.iter().collect::<Vec<_>>());
        assert!(complaints.is_empty(), "{complaints}");
    }

    /// Identifies this scenario's run over the kernel.
    fn key(&self) -> Key {
        let mut words = self.before.clone();
        words.extend(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        words.extend([format!("{:?}", self.app), self.case.clone()]);
        words.push(format!("single {} strangers {}", self.single, self.strangers));
        Key::new(&self.app.files(), &words)
    }

    fn reference(&self) -> Observation {
        let reference = self.observe(Pairing::KERNEL);
        for (role, outcome) in &reference.ends {
            // A program without this case prints nothing, and is no reference.
            let fine = outcome.status.is_some()
                && !outcome.stdout.contains("FAILED")
                && !outcome.stderr.contains(": no case ");
            assert!(
                fine,
                "{} {}: the {role} fails over the kernel alone\n{}{}",
                self.app.name(),
                self.case,
                outcome.transcript(),
                outcome.stderr
            );
        }
        reference
    }

    fn complaint(
        &self,
        reference: &[Outcome],
        pairing: Pairing,
        seen: &Observation,
    ) -> Option<String> {
        let mut text = String::new();
        for (expected, (role, outcome)) in reference.iter().zip(&seen.ends) {
            if let Some(lines) = difference(&expected.transcript(), &outcome.transcript()) {
                let _ = write!(text, "  the {role} (- kernel, + {pairing}):\n{lines}");
            }
            for process in &outcome.stuck {
                let _ = writeln!(text, "  still there: {process}");
            }
            let (expected, written) = (complaints(&expected.stderr), complaints(&outcome.stderr));
            if !pairing.is_accelerated() && expected != written {
                let _ = writeln!(text, "  the {role} also wrote: {}", written.join("\n"));
            }
        }
        if pairing.is_accelerated() && self.accelerates && !kernel_only() {
            text += &unaccelerated(seen);
        }
        if text.is_empty() {
            return None;
        }
        for (expected, (role, _)) in reference.iter().zip(&seen.ends) {
            if !expected.stderr.is_empty() {
                let _ = writeln!(
                    text,
                    "  {role}'s stderr over the kernel: {}",
                    expected.stderr.trim_end()
                );
            }
        }
        for (role, outcome) in &seen.ends {
            let _ = writeln!(text, "  the {role} in whole:\n{}", outcome.transcript());
            if !outcome.stderr.is_empty() {
                let _ = writeln!(text, "  {role}'s stderr: {}", outcome.stderr.trim_end());
            }
        }
        let commands = seen.commands.join(" &\n    ");
        Some(format!(
            "\n{} {}: {pairing}\n{text}  run:\n    {commands}\n",
            self.app.name(),
            self.case
        ))
    }
}

/// Returns the scenario's own watchdog times `SOVIA_TESTS_SCALE`, or `SOVIA_TESTS_WATCHDOG` seconds. Those may be fewer, to wait for a
/// known hang, or more, for a build whose threads stand still now and then.
fn watchdog(seconds: u64) -> Duration {
    let read = |name: &str| env::var(name).ok()?.parse::<f64>().ok();
    let scale = read("SOVIA_TESTS_SCALE").unwrap_or(1.0).max(1.0);
    Duration::from_secs_f64(read("SOVIA_TESTS_WATCHDOG").unwrap_or(seconds as f64 * scale))
}

/// Repeats each pairing `SOVIA_TESTS_REPEAT` times, to find rare failures.
fn repetitions() -> usize {
    env::var("SOVIA_TESTS_REPEAT").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Returns the lines of stderr without notes: those are shown, not compared.
fn complaints(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| !line.starts_with("note: ")).collect()
}

/// Returns the ends that did not report an accelerated connection.
fn unaccelerated(seen: &Observation) -> String {
    let mut text = String::new();
    for (role, outcome) in &seen.ends {
        match accelerated(&outcome.stderr) {
            Some(1..) => {}
            Some(0) => text += &format!("  the {role} stayed on TCP\n"),
            None => text += &format!("  the {role} gave no summary\n"),
        }
    }
    text
}
