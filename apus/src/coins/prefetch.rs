#![allow(unsafe_code, reason = "prefetching is an instruction of the processor")]

/// Asks the processor to load the cache lines that `value` lies in, of which there are at most two.
/// On processors without such an instruction, nothing happens.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        let last = first.wrapping_add(size_of::<T>() - 1);
        // SAFETY: a prefetch reads nothing that the program could see, whatever the address.
        unsafe {
            _mm_prefetch(first, _MM_HINT_T0);
            _mm_prefetch(last, _MM_HINT_T0);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
