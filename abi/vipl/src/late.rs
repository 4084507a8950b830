//! Callbacks for which no thread could be started.
//!
//! They run in the program's own calls that poll or wait, after the call has released its objects. So such a callback
//! may call any function. It may destroy any object except the one that the waiting call uses.

use crate::handle::Using;
use crate::nic::Core;
use core::time::Duration;
use std::sync::Arc;
use via::Nic;
use via::error::WaitError;

/// Time between a waiting thread's checks for callbacks.
const SLICE: Duration = Duration::from_secs(1);

/// An object of a NIC.
pub(crate) trait OfNic {
    fn nic(&self) -> &Arc<Core>;
}

/// Releases an object at the end of a call, and runs waiting callbacks.
#[inline]
pub(crate) fn let_go<T: OfNic>(open: Using<T>) {
    if open.nic().nic.callbacks_wait() {
        run(open);
    }
}

#[cold]
fn run<T: OfNic>(open: Using<T>) {
    let nic = open.nic().clone();
    drop(open);
    nic.nic.run_callbacks();
}

/// Waits for at most the given time, and runs callbacks meanwhile.
pub(crate) fn patiently<R>(
    nic: &Core,
    timeout: Option<Duration>,
    wait: impl FnMut(Option<Duration>) -> Result<R, WaitError>,
) -> Result<R, WaitError> {
    in_slices(timeout, || nic.nic.run_callbacks(), wait)
}

fn in_slices<R>(
    timeout: Option<Duration>,
    before: impl Fn(),
    mut wait: impl FnMut(Option<Duration>) -> Result<R, WaitError>,
) -> Result<R, WaitError> {
    let mut left = timeout;
    loop {
        before();
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        let result = wait(Some(slice));
        // A slice takes its time, or a little longer.
        left = left.map(|left| left - slice);
        match result {
            Err(WaitError::Timeout) if left != Some(Duration::ZERO) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slices of a wait that succeeds after `vain` slices.
    fn slices(timeout: Option<u64>, vain: usize) -> (Result<(), WaitError>, Vec<u64>) {
        let mut all = Vec::new();
        let result = in_slices(
            timeout.map(Duration::from_millis),
            || (),
            |slice| {
                let ms = slice.expect("no slice lasts for ever").as_millis() as u64;
                all.push(ms);
                if all.len() > vain { Ok(()) } else { Err(WaitError::Timeout) }
            },
        );
        (result, all)
    }

    #[test]
    fn slices_make_up_the_timeout() {
        let over = Err(WaitError::Timeout);
        assert_eq!(slices(Some(0), 9), (over, vec![0]));
        assert_eq!(slices(Some(1000), 9), (over, vec![1000]));
        assert_eq!(slices(Some(2500), 9), (over, vec![1000, 1000, 500]));
    }

    #[test]
    fn an_outcome_ends_a_wait_in_slices() {
        assert_eq!(slices(Some(2500), 1), (Ok(()), vec![1000, 1000]));
        assert_eq!(slices(None, 3), (Ok(()), vec![1000; 4]));
        let empty = in_slices::<()>(None, || (), |_| Err(WaitError::Empty));
        assert_eq!(empty, Err(WaitError::Empty));
    }
}
