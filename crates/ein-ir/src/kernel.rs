//! Kernels: operations that an einsum cannot say.
//!
//! A kernel is one file below this one. Its `Definition` says everything that the rest of the system knows of
//! it: operands, how it is written, its join-agg spec, and what it means. The list at the end of this file names
//! them once; a device has one function for each (`ein-run/src/cpu/kernels.rs`).

mod attention;
mod gather;
mod gather_along;
mod last_state;
mod recurrence;
mod scan;
mod scatter;
mod scatter_along;
mod settings;
mod top;

pub use attention::Attention;
pub use gather::Gather;
pub use gather_along::GatherAlong;
pub use last_state::LastState;
pub use recurrence::Recurrence;
pub use scan::{Scan, ScanFunction};
pub use scatter::Scatter;
pub use scatter_along::ScatterAlong;
pub(crate) use settings::Written;
pub use settings::{Setting, Settings};
pub use top::TopK;

use crate::dtype::DType;
use crate::graph::TensorType;
use crate::reference::{Column, EvalError, Operand};
use crate::region::Region;
use crate::spec::Spec;

/// What a kernel takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Accepted types and the shape of every operand.
    pub operands: Vec<(Vec<DType>, Vec<usize>)>,
    /// The type of the result.
    pub result: TensorType,
}

/// Everything that a kernel says of itself.
pub(crate) trait Definition: Sized {
    /// The name in text forms and messages.
    const NAME: &'static str;

    /// The kernel that is written with these operands and settings, or what is wrong with them.
    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String>;

    /// The settings as they are written, in order; those at their default are left out.
    fn settings(&self) -> Vec<(&'static str, Setting)>;

    /// What is wrong with it, whatever its operands; `None` if it is well formed.
    fn fault(&self) -> Option<String>;

    /// What it takes and gives.
    fn signature(&self) -> Signature;

    /// Its join-agg spec; the operands' types are filled in by the caller.
    fn spec(&self) -> Spec;

    /// A block over `labels`: one column for each field of the monoid. With `idle` nothing is read, and the result
    /// is the monoid's identity.
    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError>;
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $kernel:ident,)*) => {
        /// An operation with a kernel of its own.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Kernel {
            $($(#[$doc])* $kernel($kernel),)*
        }

        impl Kernel {
            /// The names of all kernels.
            pub const NAMES: &'static [&'static str] = &[$($kernel::NAME),*];

            /// The name in text forms and messages.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$kernel(_) => $kernel::NAME,)* }
            }

            /// The kernel that is written with this name, operands and settings, or what is wrong with them.
            pub fn read(name: &str, operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
                $(if name == $kernel::NAME {
                    return $kernel::read(operands, settings).map(Self::$kernel);
                })*
                Err(format!("there is no kernel `{name}`"))
            }

            /// The settings as they are written, in order; those at their default are left out.
            pub fn settings(&self) -> Vec<(&'static str, Setting)> {
                match self { $(Self::$kernel(k) => k.settings(),)* }
            }

            /// What is wrong with it, whatever its operands; `None` if it is well formed.
            pub fn fault(&self) -> Option<String> {
                match self { $(Self::$kernel(k) => k.fault(),)* }
            }

            /// What it takes and gives.
            pub fn signature(&self) -> Signature {
                match self { $(Self::$kernel(k) => k.signature(),)* }
            }

            pub(crate) fn spec(&self) -> Spec {
                match self { $(Self::$kernel(k) => k.spec(),)* }
            }

            pub(crate) fn block(
                &self,
                labels: &Region,
                operands: &[Option<Operand>],
                idle: bool,
            ) -> Result<Vec<Column>, EvalError> {
                match self { $(Self::$kernel(k) => k.block(labels, operands, idle),)* }
            }
        }
    };
}

kernels! {
    /// Scaled dot-product attention with grouped key/value heads.
    Attention,
    /// Slices of a table by their ids.
    Gather,
    /// Elements of a tensor, each by an index along one axis.
    GatherAlong,
    /// Slices folded into the rows that ids name.
    Scatter,
    /// Elements folded into the places that indices along one axis name.
    ScatterAlong,
    /// The first elements along the last axis in sorted order.
    TopK,
    /// Running folds along an axis.
    Scan,
    /// Linear recurrences along an axis, every state.
    Recurrence,
    /// The last states of linear recurrences along an axis.
    LastState,
}
