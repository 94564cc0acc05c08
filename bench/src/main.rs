//! The `apus-bench` program: see [`apus_bench`].

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os(apus_bench::process::AS_APUS).is_some() {
        return apus::run_program();
    }
    apus_bench::cli::main()
}
