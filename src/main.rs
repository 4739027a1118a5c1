use std::process::ExitCode;

fn main() -> ExitCode {
    hearthcast::cli::main()
}
