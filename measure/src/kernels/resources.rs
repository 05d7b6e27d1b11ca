//! What kernels take of a multiprocessor, as the compiler says it.

use std::collections::BTreeMap;
use std::fmt;

/// Of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    /// Registers of a thread; 0 where nothing is said.
    pub(super) registers: u32,
    /// Bytes of static shared memory of a block.
    pub(super) shared: u32,
    /// Bytes of a thread's stack.
    pub(super) stack: u32,
    /// Bytes that a thread writes for lack of registers.
    pub(super) stores: u32,
    /// Bytes that it reads back.
    pub(super) loads: u32,
}

impl Resources {
    /// Whether there were too few registers.
    pub(super) fn spilled(&self) -> bool {
        self.stores + self.loads > 0
    }

    /// The larger of each.
    pub(super) fn largest(self, other: Self) -> Self {
        Self {
            registers: self.registers.max(other.registers),
            shared: self.shared.max(other.shared),
            stack: self.stack.max(other.stack),
            stores: self.stores.max(other.stores),
            loads: self.loads.max(other.loads),
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registers, shared, stack, stores, loads } = self;
        write!(f, "{registers} registers, {shared} bytes shared, stack {stack}, {stores} written, {loads} read back")
    }
}

/// What a log of `--ptxas-options=-v` says of every kernel.
pub(super) fn read(log: &str) -> BTreeMap<String, Resources> {
    let mut all: BTreeMap<String, Resources> = BTreeMap::new();
    let (mut entry, mut function) = ("", "");
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            entry = rest.split('\'').next().unwrap_or_default();
        } else if let Some(rest) = line.split("Function properties for ").nth(1) {
            function = rest.trim();
        } else if line.contains("bytes stack frame") {
            let own = all.entry(function.to_owned()).or_default();
            (own.stack, own.stores, own.loads) =
                (before(line, " bytes stack"), before(line, " bytes spill stores"), before(line, " bytes spill loads"));
        } else if line.contains(" registers") {
            let own = all.entry(entry.to_owned()).or_default();
            (own.registers, own.shared) = (before(line, " registers"), before(line, " bytes smem"));
        }
    }
    all
}

/// The number before some words; 0 where they are not there.
fn before(line: &str, words: &str) -> u32 {
    let number = |at| line[..at].rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
    line.find(words).and_then(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'map_1' for 'sm_80'\n\
                   ptxas info    : Function properties for map_1\n    \
                   8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n\
                   ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 380 bytes cmem[0]\n\
                   ptxas info    : Compiling entry function 'top_2' for 'sm_80'\n\
                   ptxas info    : Function properties for top_2\n    \
                   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                   ptxas info    : Used 9 registers, 380 bytes cmem[0]\n";
        let all = read(log);
        let first = Resources { registers: 40, shared: 1024, stack: 8, stores: 12, loads: 16 };
        assert_eq!(all["map_1"], first);
        assert!(first.spilled());
        assert_eq!(all["top_2"], Resources { registers: 9, ..Resources::default() });
        assert_eq!(all.len(), 2);
    }
}
