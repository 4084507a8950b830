//! A queue that can remove elements from its middle. It allocates only when it becomes longer than ever before.

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Node<T> {
    value: Option<T>,
    previous: u32,
    next: u32,
}

/// Position of an element, valid until the list changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place(u32);

/// Elements in the order in which they were pushed.
#[derive(Debug)]
pub(crate) struct List<T> {
    nodes: Vec<Node<T>>,
    first: u32,
    last: u32,
    /// First node of the list of free nodes, which are linked by `next`.
    free: u32,
    len: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List { nodes: Vec::new(), first: NONE, last: NONE, free: NONE, len: 0 }
    }
}

impl<T> List<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an element at the end.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        if self.free == NONE {
            self.grow();
        }
        let at = self.free;
        let last = core::mem::replace(&mut self.last, at);
        let node = &mut self.nodes[at as usize];
        self.free = node.next;
        (node.previous, node.next) = (last, NONE);
        node.value = Some(value);
        match self.nodes.get_mut(last as usize) {
            Some(last) => last.next = at,
            None => self.first = at,
        }
        self.len += 1;
    }

    /// Adds a free node.
    #[cold]
    fn grow(&mut self) {
        self.free = u32::try_from(self.nodes.len()).expect("fewer than 2^32 elements");
        self.nodes.push(Node { value: None, previous: NONE, next: NONE });
    }

    /// Returns the first element for which `which` returns true.
    pub(crate) fn find(&self, mut which: impl FnMut(&T) -> bool) -> Option<&T> {
        let mut at = self.first;
        while let Some(node) = self.nodes.get(at as usize) {
            if let Some(value) = node.value.as_ref().filter(|value| which(value)) {
                return Some(value);
            }
            at = node.next;
        }
        None
    }

    /// Returns the first element for which `which` returns true, and its position. The caller may change the element.
    #[inline]
    pub(crate) fn find_mut(
        &mut self,
        mut which: impl FnMut(&T) -> bool,
    ) -> Option<(Place, &mut T)> {
        let mut at = self.first;
        while let Some(node) = self.nodes.get(at as usize) {
            if node.value.as_ref().is_some_and(&mut which) {
                let value = self.nodes[at as usize].value.as_mut();
                return value.map(|value| (Place(at), value));
            }
            at = node.next;
        }
        None
    }

    /// Removes the element at a position that has just been found.
    #[inline]
    pub(crate) fn take_at(&mut self, Place(at): Place) -> Option<T> {
        let node = self.nodes.get_mut(at as usize)?;
        let value = node.value.take()?;
        let (previous, next) = (node.previous, node.next);
        node.next = self.free;
        self.free = at;
        self.join(previous, next);
        self.len -= 1;
        Some(value)
    }

    /// Removes and returns the first element for which `which` returns true.
    #[inline]
    pub(crate) fn take(&mut self, which: impl FnMut(&T) -> bool) -> Option<T> {
        let (place, _) = self.find_mut(which)?;
        self.take_at(place)
    }

    /// Makes two nodes neighbours. Either may be `NONE`.
    #[inline]
    fn join(&mut self, previous: u32, next: u32) {
        match self.nodes.get_mut(previous as usize) {
            Some(node) => node.next = next,
            None => self.first = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(node) => node.previous = previous,
            None => self.last = previous,
        }
    }
}
