//! BPF programs, which the kernel runs over a packet (`bpf(2)`). This process runs a program by a call, or a
//! network device runs the program for each arriving packet.

mod device;

pub use device::{Attached, Mode, SocketMap};

use crate::call::{Errno, RawFd, Result, Sysno};
use crate::fd::Fd;

/// One instruction: operation, registers, offset and constant, as in `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation of the instruction.
    pub code: u8,
    /// Destination register in the lower four bits, source register in the upper four.
    pub registers: u8,
    /// Offset of a jump (in instructions) or of an access (in bytes).
    pub offset: i16,
    /// Constant operand.
    pub constant: i32,
}

/// A loaded program.
#[derive(Debug)]
pub struct Program(Fd);

const PROG_LOAD: usize = 5;
const PROG_TEST_RUN: usize = 10;
const SCHED_CLS: u32 = 3;
const XDP: u32 = 6;
/// Flag for a program that reads only the beginning of a packet, so a packet may consist of several fragments.
const XDP_HAS_FRAGS: u32 = 1 << 5;

/// The part of `union bpf_attr` for loading.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The part of `union bpf_attr` for running.
#[repr(C)]
struct Run {
    program: u32,
    result: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// The part of `union bpf_attr` for a query.
#[repr(C)]
struct Query {
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
}

/// Returns the number of programs that the kernel runs over packets of a control group's sockets, including
/// inherited programs. `group`: a descriptor of the group's folder.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EINVAL` if the kernel does not support such programs.
pub fn programs_of_group(group: RawFd) -> Result<u32> {
    const EFFECTIVE: u32 = 1;
    const INGRESS: u32 = 0;
    const EGRESS: u32 = 1;
    Ok(count(group as u32, INGRESS, EFFECTIVE)? + count(group as u32, EGRESS, EFFECTIVE)?)
}

/// Returns the number of programs (tcx) that the kernel runs over packets of a device. The device is in the
/// calling thread's network namespace.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EINVAL` before Linux 6.6.
pub fn programs_at_device(index: i32) -> Result<u32> {
    const INGRESS: u32 = 46;
    const EGRESS: u32 = 47;
    Ok(count(index as u32, INGRESS, 0)? + count(index as u32, EGRESS, 0)?)
}

/// Returns the number of programs that are attached in one way.
fn count(target: u32, attach_type: u32, query_flags: u32) -> Result<u32> {
    const PROG_QUERY: usize = 16;
    let mut query =
        Query { target, attach_type, query_flags, attach_flags: 0, programs: 0, count: 0 };
    match bpf(PROG_QUERY, &mut query) {
        // ENOENT: the kernel has no list of programs for that target.
        Ok(_) | Err(Errno::ENOENT) => Ok(query.count),
        Err(error) => Err(error),
    }
}

fn bpf<T>(command: usize, attributes: &mut T) -> Result<usize> {
    let attributes = core::ptr::from_mut(attributes);
    // SAFETY: the attributes outlive the call and have the stated length. Each caller has borrowed the memory
    // that they point to for the time of the call.
    unsafe { syscalls::syscall!(Sysno::bpf, command, attributes, size_of::<T>()) }
}

impl Program {
    /// Loads a program that classifies packets (`BPF_PROG_TYPE_SCHED_CLS`).
    ///
    /// # Errors
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`; `EACCES` or `EINVAL` if the kernel rejects the program.
    pub fn load(code: &[Instruction]) -> Result<Program> {
        Program::load_as(SCHED_CLS, 0, code)
    }

    /// Loads a program that decides about a packet that a network device has received (`BPF_PROG_TYPE_XDP`). The
    /// program reads the packet's first bytes.
    ///
    /// # Errors
    /// Those of [`load`](Program::load).
    pub fn load_for_device(code: &[Instruction]) -> Result<Program> {
        // Linux before 5.18 does not know packets in fragments.
        Program::load_as(XDP, XDP_HAS_FRAGS, code).or_else(|_| Program::load_as(XDP, 0, code))
    }

    fn load_as(kind: u32, flags: u32, code: &[Instruction]) -> Result<Program> {
        let mut attributes = Load {
            kind,
            instructions: code.len() as u32,
            code: code.as_ptr() as u64,
            license: c"Dual MIT/GPL".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags,
        };
        bpf(PROG_LOAD, &mut attributes).map(|fd| Program(Fd::adopt(fd as RawFd)))
    }

    /// Runs the program over a packet in the calling thread's network namespace. Returns the program's result and
    /// the packet as the program has changed it.
    ///
    /// # Errors
    /// Those of `bpf`; `EBADMSG` if the program has changed the packet's length.
    pub fn run<const N: usize>(&self, packet: &[u8; N]) -> Result<(u32, [u8; N])> {
        let mut out = [0; N];
        let mut attributes = Run {
            program: self.0.raw() as u32,
            result: 0,
            size_in: N as u32,
            size_out: N as u32,
            data_in: packet.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat: 1,
            duration: 0,
        };
        bpf(PROG_TEST_RUN, &mut attributes)?;
        if attributes.size_out as usize != N {
            return Err(Errno::EBADMSG);
        }
        Ok((attributes.result, out))
    }
}
