//! Callbacks and signals that wait for something to be done, counted: they come though no thread of the program's looks.

use std::sync::Arc;

/// The count, and whether one has been added since that was last asked.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    /// Shared with each that is registered.
    all: Arc<()>,
    is_new: bool,
}

/// A callback or a signal that is registered for as long as this is there.
pub(crate) struct Registered<F> {
    callback: F,
    _one: Arc<()>,
}

impl Registrations {
    pub(crate) fn add<F>(&mut self, callback: F) -> Registered<F> {
        self.is_new = true;
        Registered { callback, _one: self.all.clone() }
    }

    pub(crate) fn any(&self) -> bool {
        Arc::strong_count(&self.all) > 1
    }

    pub(crate) fn take_new(&mut self) -> bool {
        core::mem::take(&mut self.is_new)
    }
}

impl<F> Registered<F> {
    pub(crate) fn end(self) -> F {
        self.callback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_or_is_dropped_is_registered_no_longer() {
        let mut all = Registrations::default();
        assert!(!all.any() && !all.take_new());
        let (one, other) = (all.add(1), all.add(2));
        assert!(all.take_new() && !all.take_new());
        assert_eq!(one.end(), 1);
        assert!(all.any());
        drop(other);
        assert!(!all.any());
    }
}
