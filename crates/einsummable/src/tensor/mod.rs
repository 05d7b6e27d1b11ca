//! Lazy tensors with `PyTorch`'s method names, broadcasting and type promotion.
//!
//! A [`Tensor`] is a node of an expression: nothing is computed when a method is called.
//! [`Session::compile`](crate::session::Session::compile) turns the expressions of some outputs into a
//! [`Graph`], plans it for a machine and makes it ready to run.
//!
//! Methods return tensors, so that they chain as in `PyTorch`. A mistake (shapes that do not broadcast, a
//! missing axis) makes a tensor that carries the error; whatever is computed from it carries it on, and
//! compiling returns the first one. [`Tensor::check`] asks earlier.
//!
//! ```
//! use einsummable::{DType, Tensor};
//! let x = Tensor::input("x", [8, 16], DType::F32);
//! let w = Tensor::parameter("w", [32, 16], DType::F32);
//! let y = (x.matmul(&w.t()) + 1.0).relu();
//! assert_eq!(y.shape(), [8, 32]);
//! let wrong = y.matmul(&x).exp();
//! assert!(wrong.check().unwrap_err().to_string().starts_with("matmul of [8, 32], [8, 16]: axis -1"));
//! ```

pub mod activation;
pub mod adaptive;
pub mod arithmetic;
pub mod attention;
mod axes;
pub mod bits;
mod channel_norm;
pub mod compare;
pub mod contract;
pub mod conv;
pub mod conv_transpose;
pub mod create;
pub mod cross_entropy;
pub mod cumulative;
pub mod error;
pub(crate) mod formula;
pub mod functions;
pub mod index;
pub mod interpolate;
pub mod loss;
pub(crate) mod map;
pub mod norm;
pub mod operand;
mod operators;
pub mod pad;
mod parts;
pub mod pool;
pub mod products;
pub mod promote;
pub mod random;
pub mod recurrence;
pub mod reduce;
mod repeat;
pub mod shape;
mod shuffle;
pub mod sort;
pub mod triangle;
pub mod unfold;
pub mod window;

pub use error::TensorError;
pub use operand::Operand;

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::Einsum;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::kernel::Kernel;
use ein_ir::op::{InputKind, Op};
use ein_ir::view::View;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A tensor that will be computed. Cloning is cheap and shares the computation.
#[derive(Clone)]
pub struct Tensor(Arc<Node>);

struct Node {
    /// Creation order, which is the order of rows in the graph.
    serial: u64,
    name: OnceLock<String>,
    made: Result<Made, TensorError>,
}

/// What a valid tensor is made of.
pub(crate) struct Made {
    pub ty: TensorType,
    pub op: Op,
    pub inputs: Vec<Tensor>,
    /// The value of a constant, which the graph knows as a parameter.
    pub data: Option<Arc<Dense>>,
    /// The method that made it, from which unnamed rows get a name.
    pub method: &'static str,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Drop for Node {
    /// Long chains are taken apart in a loop: recursion would overflow the stack.
    fn drop(&mut self) {
        let take = |made: &mut Result<Made, TensorError>| match made {
            Ok(m) => std::mem::take(&mut m.inputs),
            Err(_) => Vec::new(),
        };
        let mut rest = take(&mut self.made);
        while let Some(tensor) = rest.pop() {
            if let Some(mut node) = Arc::into_inner(tensor.0) {
                rest.append(&mut take(&mut node.made));
            }
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.made {
            Ok(m) => write!(f, "Tensor({} {})", self.explicit_name().unwrap_or(m.method), m.ty),
            Err(e) => write!(f, "Tensor(error: {e})"),
        }
    }
}

impl Tensor {
    /// A tensor that arrives at each run under this name.
    pub fn input(name: &str, shape: impl Into<Vec<usize>>, dtype: DType) -> Self {
        Self::external(name, InputKind::Input, TensorType::new(dtype, shape), None)
    }

    /// A resident weight, read once from the session's parameter source under this name.
    pub fn parameter(name: &str, shape: impl Into<Vec<usize>>, dtype: DType) -> Self {
        Self::external(name, InputKind::Parameter, TensorType::new(dtype, shape), None)
    }

    /// What lives between runs in the layout that the plan gives it, such as a cache of keys, under this name.
    pub fn state(name: &str, shape: impl Into<Vec<usize>>, dtype: DType) -> Self {
        Self::external(name, InputKind::State, TensorType::new(dtype, shape), None)
    }

    /// A constant with these elements. To the graph it is a parameter.
    pub fn constant(name: &str, value: Dense) -> Self {
        Self::external(name, InputKind::Parameter, value.ty(), Some(Arc::new(value)))
    }

    fn external(name: &str, kind: InputKind, ty: TensorType, data: Option<Arc<Dense>>) -> Self {
        Self::made_of(Made { ty, op: Op::Input(kind), inputs: vec![], data, method: "input" }).named(name)
    }

    fn new(made: Result<Made, TensorError>) -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Node { serial, name: OnceLock::new(), made }))
    }

    /// Names the row of the graph that this tensor becomes. The first name given stays.
    pub fn named(self, name: &str) -> Self {
        self.0.name.get_or_init(|| name.to_owned());
        self
    }

    /// The shape. Empty if the tensor carries an error.
    pub fn shape(&self) -> &[usize] {
        self.0.made.as_ref().map_or(&[], |m| &m.ty.shape)
    }

    /// Number of axes.
    pub fn dim(&self) -> usize {
        self.shape().len()
    }

    /// The extent of one axis, counted from the end if negative; 0 if there is no such axis.
    pub fn size(&self, axis: i64) -> usize {
        let rank = self.dim() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        usize::try_from(axis).ok().and_then(|a| self.shape().get(a)).copied().unwrap_or(0)
    }

    /// The element type. `F32` if the tensor carries an error.
    pub fn dtype(&self) -> DType {
        self.0.made.as_ref().map_or(DType::F32, |m| m.ty.dtype)
    }

    /// The error this tensor carries, if any.
    pub fn check(&self) -> Result<(), TensorError> {
        self.made().map(|_| ())
    }

    /// The tensor that carries this error, for models that find a mistake themselves.
    pub fn poisoned(error: TensorError) -> Self {
        Self::new(Err(error))
    }

    /// Any einsum over these tensors: for what the methods do not say. `name` is used in messages.
    pub fn from_einsum(name: &'static str, einsum: Einsum, inputs: &[&Tensor]) -> Self {
        Self::attempt(|| {
            let types: Result<Vec<_>, _> = inputs.iter().map(|t| t.ty()).collect();
            let mut graph = Graph::new();
            let mut ids: Vec<TensorId> = Vec::new();
            for (n, ty) in types?.into_iter().enumerate() {
                ids.push(graph.input(&format!("operand {n}"), InputKind::Input, ty.clone())?);
            }
            graph.einsum(name, einsum.clone(), &ids)?;
            Ok(Self::row_einsum(name, einsum, inputs))
        })
    }

    pub(crate) fn attempt(make: impl FnOnce() -> Result<Tensor, TensorError>) -> Tensor {
        make().unwrap_or_else(|error| Self::new(Err(error)))
    }

    pub(crate) fn made(&self) -> Result<&Made, TensorError> {
        self.0.made.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn ty(&self) -> Result<&TensorType, TensorError> {
        self.made().map(|m| &m.ty)
    }

    pub(crate) fn serial(&self) -> u64 {
        self.0.serial
    }

    pub(crate) fn explicit_name(&self) -> Option<&str> {
        self.0.name.get().map(String::as_str)
    }

    /// A row whose einsum is known to be well formed.
    pub(crate) fn row_einsum(method: &'static str, einsum: Einsum, inputs: &[&Tensor]) -> Self {
        let ty = TensorType::new(einsum.dtype, einsum.shape());
        Self::row(method, Op::Einsum(einsum), inputs, ty)
    }

    pub(crate) fn row_kernel(method: &'static str, kernel: Kernel, inputs: &[&Tensor], ty: TensorType) -> Self {
        Self::row(method, Op::Kernel(kernel), inputs, ty)
    }

    pub(crate) fn row_view(method: &'static str, view: View, inputs: &[&Tensor]) -> Result<Self, TensorError> {
        let mut shapes: Vec<&[usize]> = Vec::new();
        for tensor in inputs {
            shapes.push(&tensor.ty()?.shape);
        }
        let shape = view.shape(&shapes).map_err(|e| {
            let shapes = shapes.iter().map(|s| s.to_vec()).collect();
            let ein_ir::view::ViewError::Misfit { reason, .. } = e;
            TensorError::Shape { operation: method, shapes, reason }
        })?;
        let ty = TensorType::new(inputs[0].dtype(), shape);
        Ok(Self::row(method, Op::View(view), inputs, ty))
    }

    fn row(method: &'static str, op: Op, inputs: &[&Tensor], ty: TensorType) -> Self {
        let inputs = inputs.iter().map(|&t| t.clone()).collect();
        Self::made_of(Made { ty, op, inputs, data: None, method })
    }

    /// Refuses what could not be addressed, so that no later size overflows.
    fn made_of(made: Made) -> Self {
        let bytes = made.ty.shape.iter().try_fold(made.ty.dtype.bytes(), |n, &extent| n.checked_mul(extent));
        let shapes = || vec![made.ty.shape.clone()];
        match bytes {
            Some(bytes) if isize::try_from(bytes).is_ok() => Self::new(Ok(made)),
            _ => {
                let reason = "it has more bytes than can be addressed".into();
                Self::new(Err(TensorError::Shape { operation: made.method, shapes: shapes(), reason }))
            }
        }
    }

    /// An axis counted from either end, as an index below `rank`.
    pub(crate) fn axis(&self, operation: &'static str, axis: i64) -> Result<usize, TensorError> {
        let shape = &self.ty()?.shape;
        resolve_axis(axis, shape.len()).ok_or_else(|| TensorError::Axis { operation, axis, shape: shape.clone() })
    }

    /// Several distinct axes, sorted; all of them when none is given.
    pub(crate) fn axes(&self, operation: &'static str, axes: &[i64]) -> Result<Vec<usize>, TensorError> {
        let rank = self.ty()?.shape.len();
        if axes.is_empty() || rank == 0 && axes.len() == 1 && stands_for_none(axes[0]) {
            return Ok((0..rank).collect());
        }
        let mut found = Vec::new();
        for &axis in axes {
            let a = self.axis(operation, axis)?;
            if found.contains(&a) {
                let shapes = vec![self.shape().to_vec()];
                return Err(TensorError::Shape { operation, shapes, reason: format!("axis {axis} is named twice") });
            }
            found.push(a);
        }
        found.sort_unstable();
        Ok(found)
    }

    pub(crate) fn shape_error(&self, operation: &'static str, reason: String) -> TensorError {
        TensorError::Shape { operation, shapes: vec![self.shape().to_vec()], reason }
    }

    pub(crate) fn type_error(&self, operation: &'static str, reason: &str) -> TensorError {
        TensorError::Type { operation, dtypes: vec![self.dtype()], reason: reason.into() }
    }
}

/// Whether it may be given as the axis of a tensor of rank 0, which has none: `PyTorch` takes 0 and -1.
pub(crate) fn stands_for_none(axis: i64) -> bool {
    matches!(axis, 0 | -1)
}

/// An axis counted from either end.
pub(crate) fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let from_start = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(from_start).ok().filter(|&a| a < rank)
}
