//! The arguments of a workload: sizes, pairs of sizes, and words.

use super::WorkloadError;
use ein_ir::dtype::DType;

/// What stands behind the name of a workload.
pub(super) struct Arguments<'a> {
    text: &'a str,
    expected: &'static str,
    pub(super) list: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    /// The arguments of a line, and the type that ends them if one does.
    pub(super) fn read(text: &'a str, expected: &'static str, arguments: &'a str) -> (Self, Option<DType>) {
        let mut list: Vec<&str> =
            if arguments.is_empty() { vec![] } else { arguments.split(',').map(str::trim).collect() };
        let dtype = list.last().and_then(|a| DType::parse(a));
        if dtype.is_some() {
            list.pop();
        }
        (Self { text, expected, list }, dtype)
    }

    pub(super) fn wrong(&self, reason: String) -> WorkloadError {
        WorkloadError::Arguments { text: self.text.into(), reason, expected: self.expected }
    }

    pub(super) fn size(&self, text: &str) -> Result<usize, WorkloadError> {
        // Products of several sizes must not overflow either.
        text.parse()
            .ok()
            .filter(|&n| n > 0 && n <= 1 << 31)
            .ok_or_else(|| self.wrong(format!("`{text}` is not a size from 1 to {}", 1_u64 << 31)))
    }

    pub(super) fn sizes<const N: usize>(&self) -> Result<[usize; N], WorkloadError> {
        let mut sizes = [0; N];
        if self.list.len() != N {
            return Err(self.wrong(format!("{} arguments, not {N}", self.list.len())));
        }
        for (size, text) in sizes.iter_mut().zip(&self.list) {
            *size = self.size(text)?;
        }
        Ok(sizes)
    }

    /// Batch and sequence, the first argument.
    pub(super) fn batch(&self) -> Result<(usize, usize), WorkloadError> {
        self.pair(self.list.first().copied().unwrap_or(""), "BATCHxSEQ, such as 8x1024")
    }

    /// Two sizes with an `x` between them.
    pub(super) fn pair(&self, text: &str, form: &str) -> Result<(usize, usize), WorkloadError> {
        let Some((first, second)) = text.split_once('x') else {
            return Err(self.wrong(format!("`{text}` is not {form}")));
        };
        Ok((self.size(first)?, self.size(second)?))
    }

    /// What follows `name=` in the first argument, if it is that.
    pub(super) fn setting(&self, name: &str, form: &str) -> Result<Option<&'a str>, WorkloadError> {
        let Some(rest) = self.list.first().and_then(|a| a.strip_prefix(name)) else { return Ok(None) };
        rest.strip_prefix('=').map(Some).ok_or_else(|| self.wrong(format!("`{name}` takes {form}")))
    }
}
