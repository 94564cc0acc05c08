#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| apus_fuzz::run("spent_coins", data));
