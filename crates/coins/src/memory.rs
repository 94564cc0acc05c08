#![allow(unsafe_code, reason = "advice to the processor and to the system about memory")]

/// The minimum memory, in bytes, for which huge pages are requested: a few of them, of 2 MiB each.
const HUGE_BYTES_MIN: usize = 8 << 20;

/// Returns an empty vector with capacity for `count` items, in huge pages if the system has them
/// and the vector is large: random lookups then rarely miss the TLB, which costs as much as a cache
/// miss. Memory is allocated when it is written to.
pub fn large_vec<T>(count: usize) -> Vec<T> {
    let mut items: Vec<T> = Vec::new();
    if items.try_reserve_exact(count).is_err() {
        // The capacity may exceed the available memory, if most of it is never written to.
        return items;
    }
    #[cfg(target_os = "linux")]
    if count * size_of::<T>() >= HUGE_BYTES_MIN {
        use rustix::mm::{Advice, madvise};
        let (start, page) = (items.as_ptr().addr(), rustix::param::page_size());
        let skipped = start.next_multiple_of(page) - start;
        let bytes = (count * size_of::<T>() - skipped) / page * page;
        let first = items.as_ptr().wrapping_byte_add(skipped).cast_mut();
        // SAFETY: these are whole pages of the vector's own memory; the advice changes no byte.
        let _ = unsafe { madvise(first.cast(), bytes, Advice::LinuxHugepage) };
    }
    items
}

/// Asks the processor to load the one or two cache lines of `value`. Does nothing on processors
/// without such an instruction.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        let last = first.wrapping_add(size_of::<T>() - 1);
        // SAFETY: a prefetch has no effect that the program can observe, whatever the address.
        unsafe {
            _mm_prefetch(first, _MM_HINT_T0);
            _mm_prefetch(last, _MM_HINT_T0);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
