//! Callbacks for which no thread could be started.
//!
//! They run in the program's own calls: in those that look for something or wait, once they have let
//! go of what they used. So such a callback, too, may call anything, and destroy anything but what a
//! call that it runs in waits for.

use crate::handle::Using;
use crate::nic::Core;
use core::time::Duration;
use std::sync::Arc;
use via::Nic;
use via::error::WaitError;

/// A thread that waits looks for callbacks as often as this.
const SLICE: Duration = Duration::from_secs(1);

/// What belongs to a NIC.
pub(crate) trait OfNic {
    fn nic(&self) -> &Arc<Core>;
}

/// A call is through with what it used.
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

/// Waits for as long as the program says, and runs callbacks meanwhile.
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
        // A slice lasts as long as it says, or a little longer.
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

    /// The slices of a wait that finds something after so many of them.
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
