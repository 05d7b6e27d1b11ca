//! Where the parts of a statement stand, so that what the graph refuses is shown at the part that it names.

use crate::einsum::EinsumError;
use crate::graph::GraphError;
use crate::view::{Misfit, ViewError};

/// Bytes at which parts of a statement start.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The name that is given.
    pub name: usize,
    /// The word of the operation.
    pub operation: usize,
    /// Every operand, where it is first read.
    pub operands: Vec<usize>,
    /// For every operand of an einsum, the index of each axis.
    pub axes: Vec<Vec<usize>>,
    /// Labels in order, by name.
    pub labels: Vec<(String, usize)>,
    /// Settings of a kernel, the monoid of an einsum, the axis of a concatenation.
    pub settings: Vec<(String, usize)>,
    /// The list of a view, and its items.
    pub list: Option<usize>,
    pub items: Vec<usize>,
    /// The string of a contraction, behind its quote.
    pub string: Option<usize>,
}

impl Places {
    /// Those of a statement that starts here.
    pub fn new(at: usize) -> Self {
        Self { name: at, operation: at, ..Self::default() }
    }

    /// The part that an error names; the operation where it names none.
    pub fn of(&self, error: &GraphError) -> usize {
        match error {
            GraphError::Name { .. } | GraphError::Operand { .. } => self.name,
            GraphError::Type { operand, axis, .. } => axis
                .and_then(|axis| self.axes.get(*operand)?.get(axis).copied())
                .or_else(|| self.operands.get(*operand).copied())
                .unwrap_or(self.operation),
            GraphError::EmptyFold { label, .. } => self.label(label).unwrap_or(self.operation),
            GraphError::Malformed { reason, .. } => self.mentioned(reason).unwrap_or(self.operation),
            GraphError::Einsum { source, .. } => match source {
                EinsumError::Notation { spec, reason, .. } => {
                    // A reason names a letter in quotes; which one of the string, the last is as good as any.
                    let letter = reason.split('`').nth(1).filter(|l| l.chars().count() == 1);
                    let within = letter.and_then(|l| spec.rfind(l)).unwrap_or(0);
                    self.string.map_or(self.operation, |at| at + within)
                }
                EinsumError::Axes { operand, .. } | EinsumError::Extent { operand, .. } => {
                    self.operands.get(*operand).copied().unwrap_or(self.operation)
                }
            },
            GraphError::View { source: ViewError::Misfit { at, shape, .. }, .. } => match *at {
                // Axes are counted from the last: a list may say more of them than the tensor has.
                Misfit::Axis(axis) => {
                    let item = (self.items.len() + axis).checked_sub(shape.len());
                    item.and_then(|n| self.items.get(n).copied()).or(self.list)
                }
                Misfit::Input(n) => self.operands.get(n).copied(),
                Misfit::Whole => self.list.or_else(|| self.settings.first().map(|s| s.1)),
            }
            .unwrap_or(self.operation),
        }
    }

    /// A setting that a sentence names, or what it names in quotes: the last of equal labels is the one too many.
    pub fn mentioned(&self, sentence: &str) -> Option<usize> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let named = |word: &str| sentence.split(|c| !is_word(c)).any(|w| w == word);
        let setting = self.settings.iter().rev().find(|(word, _)| named(word)).map(|s| s.1);
        setting.or_else(|| sentence.split('`').skip(1).step_by(2).find_map(|quoted| self.label(quoted)))
    }

    fn label(&self, name: &str) -> Option<usize> {
        self.labels.iter().rev().find(|(label, _)| label == name).map(|l| l.1)
    }
}
