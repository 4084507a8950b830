//! Applies atomic operations to elements. The target's progress applies them one after the other. Therefore they are
//! atomic with respect to each other, whichever peers request them.

use crate::error::Error;

/// An operation, a data type and a form, as a word of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// `enum fi_op`.
    pub op: u8,
    /// `enum fi_datatype`.
    pub datatype: u8,
    /// Set if the message carries operands for the comparison, after the other operands.
    pub compares: bool,
    /// Set if the target sends back the old elements.
    pub fetches: bool,
}

/// `enum fi_op`.
#[derive(Debug, Clone, Copy)]
enum Op {
    Min,
    Max,
    Sum,
    Product,
    LogicalOr,
    LogicalAnd,
    Or,
    And,
    LogicalXor,
    Xor,
    Read,
    Write,
    /// Replaces the element if the comparison operand and the element are in this order.
    Swap(fn(core::cmp::Ordering) -> bool),
    /// Replaces the bits that are set in the comparison operand.
    MaskedSwap,
}

const READ: u8 = 10;
const SWAP: u8 = 12;

impl Op {
    fn read(op: u8) -> Option<Op> {
        use core::cmp::Ordering;
        Some(match op {
            0 => Op::Min,
            1 => Op::Max,
            2 => Op::Sum,
            3 => Op::Product,
            4 => Op::LogicalOr,
            5 => Op::LogicalAnd,
            6 => Op::Or,
            7 => Op::And,
            8 => Op::LogicalXor,
            9 => Op::Xor,
            READ => Op::Read,
            11 => Op::Write,
            SWAP => Op::Swap(Ordering::is_eq),
            13 => Op::Swap(Ordering::is_ne),
            14 => Op::Swap(Ordering::is_le),
            15 => Op::Swap(Ordering::is_lt),
            16 => Op::Swap(Ordering::is_ge),
            17 => Op::Swap(Ordering::is_gt),
            18 => Op::MaskedSwap,
            _ => return None,
        })
    }
}

impl Code {
    /// Encodes the operation as a word.
    pub fn word(self) -> u64 {
        u64::from(self.op)
            | u64::from(self.datatype) << 8
            | u64::from(self.compares) << 16
            | u64::from(self.fetches) << 17
    }

    /// Decodes a word; `None` if the word is no offered operation.
    pub fn read(word: u64) -> Option<Code> {
        let code = Code {
            op: word as u8,
            datatype: (word >> 8) as u8,
            compares: word >> 16 & 1 == 1,
            fetches: word >> 17 & 1 == 1,
        };
        (word >> 18 == 0 && code.is_offered()).then_some(code)
    }

    /// Returns the bytes of one element; `None` for an unknown data type.
    pub fn size(self) -> Option<usize> {
        Some(match self.datatype {
            0 | 1 => 1,
            2 | 3 => 2,
            4 | 5 | 8 => 4,
            6 | 7 | 9 | 10 => 8,
            11 => 16,
            _ => return None,
        })
    }

    /// Returns true if [`Code::apply`] can execute the operation, and the form fits the operation.
    pub fn is_offered(self) -> bool {
        let zero = [0; 16];
        let compares = self.op >= SWAP;
        let mut element = zero;
        let offered = self.size().is_some_and(|size| {
            self.apply(&mut element[..size], &zero[..size], &zero[..size]).is_ok()
        });
        offered && self.compares == compares && (self.op != READ || self.fetches)
    }

    /// Applies the operation to one element.
    ///
    /// # Errors
    /// Returns [`Error::NOT_SUPPORTED`] if the operation is not defined for the data type.
    pub fn apply(self, element: &mut [u8], operand: &[u8], compare: &[u8]) -> Result<(), Error> {
        let op = Op::read(self.op).ok_or(Error::NOT_SUPPORTED)?;
        macro_rules! elements {
            ($($code:pat => $type:ty, $new:ident;)+) => {
                match self.datatype {
                    $($code => {
                        let load = |bytes: &[u8]| -> Option<$type> {
                            Some(<$type>::from_ne_bytes(bytes.try_into().ok()?))
                        };
                        let words = (load(element), load(operand), load(compare));
                        let (Some(old), Some(operand), Some(compare)) = words else {
                            return Err(Error::INVALID);
                        };
                        let new: Option<$type> = $new!(op, old, operand, compare, $type);
                        element.copy_from_slice(&new.ok_or(Error::NOT_SUPPORTED)?.to_ne_bytes());
                        Ok(())
                    })+
                    10 => complex::<f32>(op, element, operand, compare),
                    11 => complex::<f64>(op, element, operand, compare),
                    _ => Err(Error::NOT_SUPPORTED),
                }
            };
        }
        elements! {
            0 => i8, integer;
            1 => u8, integer;
            2 => i16, integer;
            3 => u16, integer;
            4 => i32, integer;
            5 => u32, integer;
            6 => i64, integer;
            7 => u64, integer;
            8 => f32, float;
            9 => f64, float;
        }
    }
}

macro_rules! integer {
    ($op:expr, $old:expr, $operand:expr, $compare:expr, $type:ty) => {{
        let (old, operand, compare) = ($old, $operand, $compare);
        let logical = |value: bool| <$type>::from(value);
        Some(match $op {
            Op::Min => old.min(operand),
            Op::Max => old.max(operand),
            Op::Sum => old.wrapping_add(operand),
            Op::Product => old.wrapping_mul(operand),
            Op::LogicalOr => logical(old != 0 || operand != 0),
            Op::LogicalAnd => logical(old != 0 && operand != 0),
            Op::LogicalXor => logical((old != 0) != (operand != 0)),
            Op::Or => old | operand,
            Op::And => old & operand,
            Op::Xor => old ^ operand,
            Op::Read => old,
            Op::Write => operand,
            Op::Swap(holds) => {
                if holds(compare.cmp(&old)) {
                    operand
                } else {
                    old
                }
            }
            Op::MaskedSwap => operand & compare | old & !compare,
        })
    }};
}
macro_rules! float {
    ($op:expr, $old:expr, $operand:expr, $compare:expr, $type:ty) => {{
        let (old, operand, compare) = ($old, $operand, $compare);
        let logical = |value: bool| Some(<$type>::from(u8::from(value)));
        match $op {
            Op::Min => Some(old.min(operand)),
            Op::Max => Some(old.max(operand)),
            Op::Sum => Some(old + operand),
            Op::Product => Some(old * operand),
            Op::LogicalOr => logical(old != 0.0 || operand != 0.0),
            Op::LogicalAnd => logical(old != 0.0 && operand != 0.0),
            Op::LogicalXor => logical((old != 0.0) != (operand != 0.0)),
            Op::Read => Some(old),
            Op::Write => Some(operand),
            Op::Swap(holds) => {
                let replace = match compare.partial_cmp(&old) {
                    Some(order) => holds(order),
                    // NaN differs from every number.
                    None => holds(core::cmp::Ordering::Less) && holds(core::cmp::Ordering::Greater),
                };
                Some(if replace { operand } else { old })
            }
            Op::Or | Op::And | Op::Xor | Op::MaskedSwap => None,
        }
    }};
}
use {float, integer};

/// The two parts of a complex number.
trait Part: Copy + PartialEq + core::ops::Add<Output = Self> + core::ops::Mul<Output = Self> {
    fn minus(self, other: Self) -> Self;
    fn of(value: bool) -> Self;
    fn load(bytes: &[u8]) -> Option<(Self, Self)>;
    fn store(self, other: Self, bytes: &mut [u8]);
}

macro_rules! part {
    ($type:ty, $size:expr) => {
        impl Part for $type {
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn of(value: bool) -> Self {
                <$type>::from(u8::from(value))
            }
            fn load(bytes: &[u8]) -> Option<(Self, Self)> {
                let (real, imaginary) = bytes.split_at_checked($size)?;
                let part = |bytes: &[u8]| Some(<$type>::from_ne_bytes(bytes.try_into().ok()?));
                Some((part(real)?, part(imaginary)?))
            }
            fn store(self, other: Self, bytes: &mut [u8]) {
                let (real, imaginary) = bytes.split_at_mut($size);
                real.copy_from_slice(&self.to_ne_bytes());
                imaginary.copy_from_slice(&other.to_ne_bytes());
            }
        }
    };
}
part!(f32, 4);
part!(f64, 8);

fn complex<P: Part>(
    op: Op,
    element: &mut [u8],
    operand: &[u8],
    compare: &[u8],
) -> Result<(), Error> {
    let words = (P::load(element), P::load(operand), P::load(compare));
    let (Some(old), Some(operand), Some(compare)) = words else { return Err(Error::INVALID) };
    let zero = (P::of(false), P::of(false));
    let logical = |value: bool| (P::of(value), P::of(false));
    let (real, imaginary) = match op {
        Op::Sum => (old.0 + operand.0, old.1 + operand.1),
        Op::Product => {
            ((old.0 * operand.0).minus(old.1 * operand.1), old.0 * operand.1 + old.1 * operand.0)
        }
        Op::LogicalOr => logical(old != zero || operand != zero),
        Op::LogicalAnd => logical(old != zero && operand != zero),
        Op::LogicalXor => logical((old != zero) != (operand != zero)),
        Op::Read => old,
        Op::Write => operand,
        Op::Swap(holds) => {
            use core::cmp::Ordering;
            // Complex numbers can be equal, but have no order.
            let equal = holds(Ordering::Equal);
            if holds(Ordering::Less) != holds(Ordering::Greater) || equal == holds(Ordering::Less) {
                return Err(Error::NOT_SUPPORTED);
            }
            if (compare == old) == equal { operand } else { old }
        }
        Op::Min | Op::Max | Op::Or | Op::And | Op::Xor | Op::MaskedSwap => {
            return Err(Error::NOT_SUPPORTED);
        }
    };
    real.store(imaginary, element);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(op: u8, datatype: u8) -> Code {
        Code { op, datatype, compares: op >= SWAP, fetches: op == READ }
    }

    fn on_i32(op: u8, old: i32, operand: i32, compare: i32) -> i32 {
        let mut element = old.to_ne_bytes();
        code(op, 4).apply(&mut element, &operand.to_ne_bytes(), &compare.to_ne_bytes()).unwrap();
        i32::from_ne_bytes(element)
    }

    #[test]
    fn elements_become_what_the_operation_says() {
        let of = |op| on_i32(op, 12, 10, 12);
        assert_eq!([of(0), of(1), of(2), of(3)], [10, 12, 22, 120]);
        assert_eq!([of(4), of(5), of(6), of(7), of(8), of(9)], [1, 1, 14, 8, 0, 6]);
        assert_eq!([of(10), of(11)], [12, 10]);
        // Comparisons in order: equal, not equal, at most, less, at least, more. The comparison operand is on the left.
        assert_eq!([of(12), of(13), of(14), of(15), of(16), of(17)], [10, 12, 10, 12, 10, 12]);
        assert_eq!(on_i32(15, 12, 10, 11), 10);
        assert_eq!(on_i32(18, 0b1100, 0b1010, 0b0110), 0b1010);
        assert_eq!(on_i32(2, i32::MAX, 1, 0), i32::MIN);
    }

    #[test]
    fn complex_numbers_are_multiplied() {
        let pair = |a: f32, b: f32| [a.to_ne_bytes(), b.to_ne_bytes()].concat();
        let mut element = pair(1.0, 2.0);
        code(3, 10).apply(&mut element, &pair(3.0, 4.0), &pair(0.0, 0.0)).unwrap();
        assert_eq!(element, pair(-5.0, 10.0));
    }

    #[test]
    fn what_makes_no_sense_is_not_offered() {
        for (op, datatype) in [(6, 9), (18, 8), (0, 10), (14, 11), (19, 4), (2, 12), (2, 255)] {
            assert!(!code(op, datatype).is_offered(), "{op}, {datatype}");
        }
        assert!(code(13, 11).is_offered() && code(18, 7).is_offered());
        for word in 0..1 << 19 {
            assert!(Code::read(word).is_none_or(|code| code.word() == word));
        }
    }
}
