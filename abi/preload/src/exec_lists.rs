//! `execl`, `execlp` and `execle`. Rust cannot define variadic functions, so these functions are written in assembly.
//! They make a list of their arguments, and call the function of the same family that takes a list.

use crate::process::{execve, execvp, inherited_environment};
use libc::{c_char, c_int};
use smallvec::SmallVec;

/// Number of variadic arguments that are in registers. The others are on the stack.
const IN_REGISTERS: usize = if cfg!(target_arch = "x86_64") { 5 } else { 7 };

/// Variadic arguments of a call: pointers to C strings up to a null pointer.
#[derive(Clone, Copy)]
struct Arguments {
    registers: *const *const c_char,
    stack: *const *const c_char,
}

type List = SmallVec<[*const c_char; 64]>;

impl Arguments {
    /// Returns the argument with number `n`.
    ///
    /// # Safety
    /// The call must have this argument.
    unsafe fn get(self, n: usize) -> *const c_char {
        // SAFETY: the first arguments are in the registers, which the hook has stored. The caller guarantees that the
        // program has put the others on the stack.
        unsafe {
            match n.checked_sub(IN_REGISTERS) {
                None => *self.registers.add(n),
                Some(n) => *self.stack.add(n),
            }
        }
    }

    /// Returns all arguments up to the null pointer, and the null pointer.
    ///
    /// # Safety
    /// The call must have a null pointer among its arguments.
    unsafe fn list(self) -> List {
        let mut list = List::new();
        while list.last().is_none_or(|last| !last.is_null()) {
            // SAFETY: no argument before this one is the null pointer.
            list.push(unsafe { self.get(list.len()) });
        }
        list
    }
}

unsafe extern "C" fn by_path(
    path: *const c_char,
    registers: *const *const c_char,
    stack: *const *const c_char,
) -> c_int {
    // SAFETY: the contract of `execl` is that of `execve` and of `Arguments::list`.
    unsafe {
        let list = Arguments { registers, stack }.list();
        execve(path, list.as_ptr(), inherited_environment())
    }
}

unsafe extern "C" fn by_name(
    name: *const c_char,
    registers: *const *const c_char,
    stack: *const *const c_char,
) -> c_int {
    // SAFETY: the contract of `execlp` is that of `execvp` and of `Arguments::list`.
    unsafe { execvp(name, Arguments { registers, stack }.list().as_ptr()) }
}

unsafe extern "C" fn with_environment(
    path: *const c_char,
    registers: *const *const c_char,
    stack: *const *const c_char,
) -> c_int {
    let arguments = Arguments { registers, stack };
    // SAFETY: the contract of `execle` is that of `execve` and of `Arguments::list`. The environment follows the null
    // pointer.
    unsafe {
        let list = arguments.list();
        execve(path, list.as_ptr(), arguments.get(list.len()).cast())
    }
}

macro_rules! with_list {
    ($($name:ident calls $by_list:ident;)*) => {
        $(
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(
                    "push r9", "push r8", "push rcx", "push rdx", "push rsi",
                    "mov rsi, rsp",
                    // The arguments on the stack follow the five registers and the return address.
                    "lea rdx, [rsp + 48]",
                    "call {by_list}",
                    "add rsp, 40",
                    "ret",
                    by_list = sym $by_list,
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    "stp x29, x30, [sp, #-16]!",
                    "sub sp, sp, #64",
                    "stp x1, x2, [sp]", "stp x3, x4, [sp, #16]",
                    "stp x5, x6, [sp, #32]", "str x7, [sp, #48]",
                    "mov x1, sp",
                    "add x2, sp, #80",
                    "bl {by_list}",
                    "add sp, sp, #64",
                    "ldp x29, x30, [sp], #16",
                    "ret",
                    by_list = sym $by_list,
                );
            }
        )*
    };
}

with_list! {
    execl calls by_path;
    execlp calls by_name;
    execle calls with_environment;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_arguments_of_registers_and_stack() {
        let text = [0 as c_char; 16];
        let all: Vec<*const c_char> = text.iter().map(core::ptr::from_ref).collect();
        for count in 0..all.len() {
            let mut given = all.clone();
            given[count] = core::ptr::null();
            let (registers, stack) = given.split_at(IN_REGISTERS);
            let arguments = Arguments { registers: registers.as_ptr(), stack: stack.as_ptr() };
            // SAFETY: the null pointer is among the arguments.
            assert_eq!(unsafe { arguments.list() }[..], given[..=count]);
        }
    }
}
