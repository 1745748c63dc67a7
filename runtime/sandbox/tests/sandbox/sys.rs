//! System calls by their numbers, for probes and attacks.

use std::io;

/// A system call, with whatever arguments a probe wants.
pub fn call(number: libc::c_long, arguments: [usize; 6]) -> io::Result<i64> {
    let [one, two, three, four, five, six] = arguments;
    // SAFETY: a probe passes integers, null pointers, and pointers to values that outlive the call.
    let result = unsafe { libc::syscall(number, one, two, three, four, five, six) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Up to six arguments, the rest zero.
pub fn arguments(some: &[usize]) -> [usize; 6] {
    let mut all = [0; 6];
    all[..some.len()].copy_from_slice(some);
    all
}

/// The address of a C string.
pub fn text(text: &'static std::ffi::CStr) -> usize {
    text.as_ptr() as usize
}

/// The address of a value.
pub fn address<T>(value: &T) -> usize {
    std::ptr::from_ref(value) as usize
}

/// Asks for the process id through the 32-bit interface.
#[cfg(target_arch = "x86_64")]
pub fn old_interface() -> i64 {
    let result: i64;
    // SAFETY: getpid takes nothing and changes nothing but the result; r8 to r11 may be lost on the way.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    result
}

/// Calls `fork` as a C program does. `true` in the child.
pub fn fork() -> io::Result<bool> {
    // SAFETY: attacks fork processes with one thread only.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid == 0),
    }
}
