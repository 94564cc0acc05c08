#![allow(unsafe_code, reason = "advice to the processor and to the system about memory")]

/// The least memory for which huge pages are requested, in huge pages.
const HUGE_PAGES_MIN: usize = 4;

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
    if count * size_of::<T>() >= HUGE_PAGES_MIN * huge_page_bytes() {
        use rustix::mm::{Advice, madvise};
        let start = items.as_ptr().addr();
        let page = rustix::param::page_size();
        let skipped = start.next_multiple_of(page) - start;
        let bytes = (count * size_of::<T>() - skipped) / page * page;
        let first = items.as_ptr().wrapping_byte_add(skipped).cast_mut();
        // SAFETY: these are whole pages of the vector's own memory; the advice changes no byte.
        let _ = unsafe { madvise(first.cast(), bytes, Advice::LinuxHugepage) };
    }
    items
}

/// Returns the size of a huge page, which is what one page full of page table entries maps: 2 MiB
/// with pages of 4 KiB, 32 MiB with the 16 KiB of some ARM systems.
#[cfg(target_os = "linux")]
fn huge_page_bytes() -> usize {
    let page = rustix::param::page_size();
    page / size_of::<u64>() * page
}

/// Asks the processor to load the one or two cache lines of `value`. Does nothing on processors
/// other than x86-64 and ARM of 64 bits.
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
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::asm;
        let first = std::ptr::from_ref(value).cast::<u8>();
        let last = first.wrapping_add(size_of::<T>() - 1);
        // SAFETY: a prefetch has no effect that the program can observe, whatever the address.
        unsafe {
            asm!(
                "prfm pldl1keep, [{first}]",
                "prfm pldl1keep, [{last}]",
                first = in(reg) first,
                last = in(reg) last,
                options(nomem, nostack, preserves_flags)
            );
        }
    }
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    let _ = value;
}
