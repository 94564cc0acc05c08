//! A memory allocator that ends the program if one allocation is larger than any input of a fuzz
//! target can explain. libFuzzer's own limit counts memory only once it is written.

use std::alloc::{GlobalAlloc, Layout, System};

/// The largest allocation that is granted, in bytes. Inputs have some kilobytes; the largest buffer
/// of a fixed size is in the decoder of compressed hints, with 0.7 MiB.
const ALLOCATION_BYTES_MAX: usize = 64 << 20;

struct Limited;

#[global_allocator]
static LIMITED: Limited = Limited;

// SAFETY: every call is passed on to the system's allocator, or answered with the null pointer,
// with which an allocator refuses.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() <= ALLOCATION_BYTES_MAX {

            // SAFETY: as promised by the caller.
unsafe { System.alloc(layout) }
} else {
std::ptr::null_mut()
}
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() <= ALLOCATION_BYTES_MAX {

            // SAFETY: as promised by the caller.
unsafe { System.alloc_zeroed(layout) }
} else {
std::ptr::null_mut()
}
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size <= ALLOCATION_BYTES_MAX {

            // SAFETY: as promised by the caller.
unsafe { System.realloc(memory, layout, size) }
} else {
std::ptr::null_mut()
}
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller; all memory comes from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}
