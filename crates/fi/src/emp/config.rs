//! The configuration of a station, from the environment.

use crate::error::Error;
use core::net::{Ipv4Addr, SocketAddr};
use emp_eth::{Config, Mode, Place};
use sovia_port::impair::Faults;
use sovia_sys::interface::Interfaces;

/// The address of the station, in [`Place`]'s format, or `off` for no station.
const PLACE: &str = "FI_SOVIA_PLACE";
/// Selects the thread that drives the NIC: `calls`, `thread`, `thread:PROCESSOR` or `auto`.
const PROGRESS: &str = "FI_SOVIA_PROGRESS";
/// Number of attempts to reach a silent peer, before this end treats the peer as dead.
const TRIES: &str = "FI_SOVIA_TRIES";
/// For tests: how many of a million frames have each fault, and a seed after a colon.
const FAULTS: &str = "FI_SOVIA_FAULTS";
/// `on`: the endpoint reaches peers on this host by shared memory. `off`: it reaches them like peers on other hosts.
const SHM: &str = "FI_SOVIA_SHM";
/// Variables in which MPI launchers put the number of the job's processes on this host.
const LOCAL: [&str; 4] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"];

/// Reads the station's configuration; `None` if the environment asks for no station.
///
/// # Errors
/// Returns [`Error::INVALID`] for invalid values.
pub(super) fn config(
    key: u64,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Config>, Error> {
    let place = match variable(PLACE).as_deref() {
        Some("off") => return Ok(None),
        Some(place) => place.parse().map_err(|_| Error::INVALID)?,
        None => match own_address() {
            Some(address) => Place::Udp(SocketAddr::new(address.into(), 0)),
            None => return Ok(None),
        },
    };
    let mut config = Config { takes_strangers: true, ..Config::new(place, key) };
    config.mode = mode(&variable)?;
    if let Some(tries) = variable(TRIES) {
        config.timing.tries = Some(tries.parse().map_err(|_| Error::INVALID)?);
    }
    if let Some(faults) = variable(FAULTS) {
        let (share, seed) = faults.split_once(':').unwrap_or((&faults, "0"));
        let number = |text: &str| text.parse::<u32>().map_err(|_| Error::INVALID);
        let seed = u64::from(number(seed)?) ^ key;
        config.faults = Some(Faults { seed, ..Faults::each(number(share)?) });
    }
    Ok(Some(config))
}

/// Returns true if shared memory is to reach peers on this host.
///
/// # Errors
/// Returns [`Error::INVALID`] for invalid values.
pub(crate) fn uses_shm(variable: impl Fn(&str) -> Option<String>) -> Result<bool, Error> {
    match variable(SHM).as_deref() {
        None | Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(_) => Err(Error::INVALID),
    }
}

fn mode(variable: impl Fn(&str) -> Option<String>) -> Result<Mode, Error> {
    let text = variable(PROGRESS);
    match text.as_deref().unwrap_or("auto") {
        "calls" => Ok(Mode::Calls),
        "thread" => Ok(Mode::Thread { processor: None }),
        "auto" => {
            // Number of processors that this process may run on.
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let local = LOCAL.iter().find_map(|name| variable(name)?.parse::<usize>().ok());
            // A NIC thread needs a processor of its own: one for each process, one for each NIC, and one for everything
            // else. If the number of processes is unknown, no processor is spare.
            let is_spare = local.is_some_and(|local| processors > local.saturating_mul(2));
            Ok(if is_spare { Mode::Thread { processor: None } } else { Mode::Calls })
        }
        text => {
            let processor = text.strip_prefix("thread:").ok_or(Error::INVALID)?;
            let processor = processor.parse().map_err(|_| Error::INVALID)?;
            Ok(Mode::Thread { processor: Some(processor) })
        }
    }
}

/// Returns this host's first address that other hosts may reach.
fn own_address() -> Option<Ipv4Addr> {
    let addresses = Interfaces::watch().ok()?.addresses().ok()?;
    addresses.into_iter().find(|address| !address.is_loopback() && !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(given: &[(&str, &str)]) -> Result<Option<Config>, Error> {
        config(1, |name| {
            let found = given.iter().find(|(its, _)| *its == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn what_the_environment_says_is_read() {
        assert_eq!(with(&[(PLACE, "off")]), Ok(None));
        let place = (PLACE, "udp:10.0.0.1:7000");
        let config = with(&[place, (PROGRESS, "thread:3"), (TRIES, "5")]).unwrap().unwrap();
        assert_eq!(config.place.to_string(), "udp:10.0.0.1:7000");
        assert_eq!(config.mode, Mode::Thread { processor: Some(3) });
        assert_eq!(config.timing.tries, Some(5));
        assert!(config.takes_strangers && config.faults.is_none());
        let faults = with(&[place, (FAULTS, "1000:2")]).unwrap().unwrap().faults.unwrap();
        assert_eq!((faults.lost, faults.seed), (1000, 3));
        assert_eq!(with(&[place]).unwrap().unwrap().mode, Mode::Calls);
        let crowded = with(&[place, (LOCAL[0], "100000")]).unwrap().unwrap();
        assert_eq!(crowded.mode, Mode::Calls);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let place = (PLACE, "udp:10.0.0.1:7000");
        assert_eq!(with(&[(PLACE, "somewhere")]), Err(Error::INVALID));
        for (name, value) in
            [(PROGRESS, "often"), (PROGRESS, "thread:x"), (TRIES, "-"), (FAULTS, "1:x")]
        {
            assert_eq!(with(&[place, (name, value)]), Err(Error::INVALID), "{name}");
        }
    }
}
