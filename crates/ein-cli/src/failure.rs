//! How a command ends when it does not end well: a message and an exit code.

use std::fmt::Display;

/// A failure, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A run failed (exit code 1).
    #[error("{0}")]
    Run(String),
    /// The request cannot be understood, or what it names cannot be read (exit code 2).
    #[error("{0}")]
    Request(String),
    /// The computation does not fit the machine (exit code 3).
    #[error("{0}")]
    DoesNotFit(String),
    /// The result differs from the reference, a text from its layout, or a plan from another (exit code 4).
    #[error("{0}")]
    Differs(String),
}

impl Failure {
    /// A request that cannot be met as asked.
    pub fn request(reason: impl Display) -> Self {
        Self::Request(reason.to_string())
    }

    /// A run that failed.
    pub fn run(reason: impl Display) -> Self {
        Self::Run(reason.to_string())
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Run(_) => 1,
            Self::Request(_) => 2,
            Self::DoesNotFit(_) => 3,
            Self::Differs(_) => 4,
        }
    }
}
