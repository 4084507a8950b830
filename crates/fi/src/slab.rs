//! Stores values by id. A freed slot is used again with another generation, so an id is not reused soon.

/// Slots, each with its generation: the number of times its value was removed.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

fn split(id: u64) -> (usize, u32) {
    ((id as u32) as usize, (id >> 32) as u32)
}

impl<T> Slab<T> {
    /// Stores a value and returns its id. The id may be sent to other processes.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.entries.push((0, None));
                (self.entries.len() - 1) as u32
            }
        };
        let entry = &mut self.entries[at as usize];
        entry.1 = Some(value);
        u64::from(at) | u64::from(entry.0) << 32
    }

    /// Returns the value with this id.
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let (at, generation) = split(id);
        self.entries.get_mut(at).filter(|entry| entry.0 == generation)?.1.as_mut()
    }

    /// Removes and returns the value with this id.
    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        let (at, generation) = split(id);
        let entry = self.entries.get_mut(at).filter(|entry| entry.0 == generation)?;
        let value = entry.1.take()?;
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(at as u32);
        Some(value)
    }

    /// Returns the ids of the values for which `which` returns true.
    pub(crate) fn ids(&self, mut which: impl FnMut(&T) -> bool) -> Vec<u64> {
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| entry.1.as_ref().is_some_and(&mut which))
            .map(|(at, entry)| at as u64 | u64::from(entry.0) << 32)
            .collect()
    }
}
