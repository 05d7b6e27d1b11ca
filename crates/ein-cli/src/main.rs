//! The `ein` command.

fn main() {}
