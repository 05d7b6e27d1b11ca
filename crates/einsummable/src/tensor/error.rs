//! What can be wrong with a tensor expression.

use ein_ir::dtype::DType;
use ein_ir::expr::ExprError;
use ein_ir::graph::{GraphError, TensorType};

/// Why a tensor has no value. Methods of [`Tensor`](super::Tensor) return tensors so that they chain; the
/// first error of a chain is kept and [`Session::compile`](crate::session::Session::compile) returns it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// Two shapes that do not broadcast.
    #[error(
        "{operation}: shapes {left:?} and {right:?} do not broadcast: axis {axis} from the right is {l} long in one and {r} in the other"
    )]
    Broadcast {
        /// The operation.
        operation: &'static str,
        /// One shape.
        left: Vec<usize>,
        /// The other.
        right: Vec<usize>,
        /// The axis, counted from the right, starting at 1.
        axis: usize,
        /// Its extent in `left`.
        l: usize,
        /// Its extent in `right`.
        r: usize,
    },
    /// An axis that the tensor does not have.
    #[error("{operation}: axis {axis} of a tensor of shape {shape:?}; {axes}", axes = axes(shape.len()))]
    Axis {
        /// The operation.
        operation: &'static str,
        /// The axis that was asked for.
        axis: i64,
        /// The tensor's shape.
        shape: Vec<usize>,
    },
    /// The shapes do not fit the operation.
    #[error("{operation} of {shapes}: {reason}", shapes = list(shapes))]
    Shape {
        /// The operation.
        operation: &'static str,
        /// The operands' shapes.
        shapes: Vec<Vec<usize>>,
        /// What is wrong, with axis and sizes, and what would work.
        reason: String,
    },
    /// The types do not fit the operation.
    #[error("{operation} of {types}: {reason}", types = join(dtypes))]
    Type {
        /// The operation.
        operation: &'static str,
        /// The operands' types.
        dtypes: Vec<DType>,
        /// What is wrong, and what would work.
        reason: String,
    },
    /// A number that makes no sense, of an operation without operands.
    #[error("{operation} {reason}")]
    Argument {
        /// The operation.
        operation: &'static str,
        /// The numbers, what is wrong with them, and what would work.
        reason: String,
    },
    /// An einsum string that is not well formed or does not fit.
    #[error("einsum `{spec}`: {reason}")]
    Einsum {
        /// The string.
        spec: String,
        /// What is wrong.
        reason: String,
    },
    /// A scalar expression that is not well typed.
    #[error("{operation}: {source}")]
    Expr {
        /// The operation.
        operation: &'static str,
        /// Why.
        source: ExprError,
    },
    /// Two inputs or parameters of one name that differ.
    #[error("two inputs are named `{name}`, one {first}, the other {second}; inputs of one name must be the same")]
    Input {
        /// The name.
        name: String,
        /// The first one's type.
        first: TensorType,
        /// The other's type.
        second: TensorType,
    },
    /// The graph refused a row.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

fn axes(rank: usize) -> String {
    if rank == 0 { "it has no axes".into() } else { format!("axes run from -{rank} to {rank} exclusive") }
}

fn list(shapes: &[Vec<usize>]) -> String {
    shapes.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ")
}

fn join(dtypes: &[DType]) -> String {
    dtypes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
