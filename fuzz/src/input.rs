//! The fuzzer's bytes, read as choices.

/// Unread bytes of an input. After the last byte come zeros, so every input is complete.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of an input.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes steps until nothing is left, `most` at the most.
    pub fn each(&mut self, most: usize, mut step: impl FnMut(&mut Input<'a>)) {
        for _ in 0..most {
            if self.is_empty() {
                break;
            }
            step(self);
        }
    }

    /// Up to `n` bytes.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut all = [0; N];
        let some = self.bytes(N);
        all[..some.len()].copy_from_slice(some);
        all
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n <= 256 { usize::from(self.u8()) % n } else { usize::from(self.u16()) % n }
    }

    /// One of two.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 != 0
    }
}
