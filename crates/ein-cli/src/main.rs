//! The `ein` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ein_cli::main()
}
