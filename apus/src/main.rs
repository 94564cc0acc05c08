//! The program `apus`.

fn main() -> std::process::ExitCode {
    apus::run_program()
}
