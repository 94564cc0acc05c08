//! The `apus` program: see [`apus::cli`].

fn main() -> std::process::ExitCode {
    apus::cli::main()
}
