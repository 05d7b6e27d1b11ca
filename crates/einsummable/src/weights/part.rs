//! A part of a stored tensor as a parameter of its own.

use std::fmt;
use std::ops::Range;

/// Indices of one axis of a stored tensor, and how many there are. A parameter named `NAME[2:4/6]` is rows 2 and 3 of
/// the six of the tensor `NAME`; `NAME[:,2:4/6]` is columns.
///
/// So what a file fuses into one tensor (queries, keys and values, for one) is several parameters to a graph: each goes
/// where its own reader wants it, and of the file only the bytes of the part are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The axis.
    pub axis: usize,
    /// Its indices.
    pub range: Range<usize>,
    /// Its extent in the stored tensor.
    pub of: usize,
}

impl Part {
    /// The parameter's name for the tensor `name`.
    pub fn named(&self, name: &str) -> String {
        format!("{name}[{self}]")
    }

    /// The tensor that a parameter is of, and the part, if its name has one.
    pub fn parse(name: &str) -> (&str, Option<Self>) {
        let found = || {
            let (tensor, inside) = name.strip_suffix(']')?.rsplit_once('[')?;
            let mut axes = inside.split(',').rev();
            let (range, of) = axes.next()?.split_once('/')?;
            let (lo, hi) = range.split_once(':')?;
            let part = Self { axis: 0, range: lo.parse().ok()?..hi.parse().ok()?, of: of.parse().ok()? };
            let mut axis = 0;
            for whole in axes {
                if whole != ":" {
                    return None;
                }
                axis += 1;
            }
            (part.range.start <= part.range.end && part.range.end <= part.of).then_some((tensor, Self { axis, ..part }))
        };
        found().map_or((name, None), |(tensor, part)| (tensor, Some(part)))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = ":,".repeat(self.axis);
        write!(f, "{whole}{}:{}/{}", self.range.start, self.range.end, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for axis in 0..3 {
            let part = Part { axis, range: 2..4, of: 6 };
            assert_eq!(Part::parse(&part.named("a.weight")), ("a.weight", Some(part)));
        }
        assert_eq!(Part { axis: 1, range: 0..5, of: 5 }.named("w"), "w[:,0:5/5]");
        for plain in ["w", "w[", "w[]", "w[2]", "w[2:4]", "w[4:2/6]", "w[2:7/6]", "w[2:4/6,:]", "w[a:b/c]", "[x]w"] {
            assert_eq!(Part::parse(plain), (plain, None), "{plain}");
        }
    }
}
