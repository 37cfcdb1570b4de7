//! Random numbers of the kernel.

use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;

use crate::error::{Result, system};

/// # Safety
/// Every pattern of bits must be a value of `T`.
pub(crate) unsafe fn random<T>() -> Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes of `value`, which are initialized.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>()) };
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(bytes))
        .map_err(system("read random numbers"))?;
    // SAFETY: the caller's.
    Ok(unsafe { value.assume_init() })
}
