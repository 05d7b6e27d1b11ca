//! The graph: rows that look back, built through checks and never edited.

use std::collections::BTreeMap;
use std::fmt;

use crate::dtype::DType;
use crate::einsum::{Einsum, EinsumError, Label};
use crate::expr::Row;
use crate::kernel::{Kernel, Signature};
use crate::monoid::Monoid;
use crate::op::{InputKind, Op};
use crate::region::Region;
use crate::view::{View, ViewError};

/// A tensor of a graph: the result of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

impl TensorId {
    /// Position of its node.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// Element type and shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// A type.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.elements() as u64 * self.dtype.bytes() as u64
    }

    /// The whole tensor as a region.
    pub fn whole(&self) -> Region {
        Region::whole(&self.shape)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

/// One row of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Unique name, for messages and text.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// Its operands: earlier rows.
    pub inputs: Vec<TensorId>,
    /// The type of its result.
    pub ty: TensorType,
}

/// A computation. Rows name only earlier rows.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    outputs: Vec<(String, TensorId)>,
    names: BTreeMap<String, TensorId>,
}

/// Why a row was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Two rows of one name.
    #[error("the name `{name}` is taken: names are unique")]
    Name {
        /// The name.
        name: String,
    },
    /// An operand is not an earlier row.
    #[error("`{name}` reads {tensor}, which is not an earlier tensor")]
    Operand {
        /// The row.
        name: String,
        /// The operand.
        tensor: TensorId,
    },
    /// An operand has the wrong type, rank or extent.
    #[error("`{name}` ({operation}): operand {operand} `{tensor}` is {found}, but {expected}")]
    Type {
        /// The row.
        name: String,
        /// Its operation.
        operation: String,
        /// Which operand.
        operand: usize,
        /// Which of its axes, if one is at fault.
        axis: Option<usize>,
        /// The operand's name.
        tensor: String,
        /// What it is.
        found: String,
        /// What would work.
        expected: String,
    },
    /// A fold over nothing that has no identity.
    #[error("`{name}`: {monoid} over label `{label}` of extent 0 has no value; give it at least one element")]
    EmptyFold {
        /// The row.
        name: String,
        /// The monoid.
        monoid: &'static str,
        /// The empty label.
        label: String,
    },
    /// The operation itself is not well formed.
    #[error("`{name}`: {reason}")]
    Malformed {
        /// The row.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The einsum is not well formed.
    #[error("`{name}`: {source}")]
    Einsum {
        /// The row.
        name: String,
        /// Why.
        source: EinsumError,
    },
    /// The view does not fit.
    #[error("`{name}`: {source}")]
    View {
        /// The row.
        name: String,
        /// Why.
        source: ViewError,
    },
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rows, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Ids of all rows, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = TensorId> + use<> {
        (0..self.nodes.len() as u32).map(TensorId)
    }

    /// One row.
    pub fn node(&self, id: TensorId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The type of a tensor.
    pub fn ty(&self, id: TensorId) -> &TensorType {
        &self.node(id).ty
    }

    /// The tensor with this name.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        self.names.get(name).copied()
    }

    /// The named results.
    pub fn outputs(&self) -> &[(String, TensorId)] {
        &self.outputs
    }

    /// Inputs of one kind, in order.
    pub fn inputs(&self, kind: InputKind) -> Vec<TensorId> {
        self.ids().filter(|&id| self.node(id).op == Op::Input(kind)).collect()
    }

    /// Types of a row's operands.
    pub fn operand_dtypes(&self, id: TensorId) -> Vec<DType> {
        self.node(id).inputs.iter().map(|&i| self.ty(i).dtype).collect()
    }

    /// The spec of a row; `None` for inputs and views.
    pub fn spec(&self, id: TensorId) -> Option<crate::spec::Spec> {
        self.node(id).op.spec(&self.operand_dtypes(id))
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, kind: InputKind, ty: TensorType) -> Result<TensorId, GraphError> {
        self.push(Node { name: name.into(), op: Op::Input(kind), inputs: vec![], ty })
    }

    /// Adds an einsum.
    pub fn einsum(&mut self, name: &str, einsum: Einsum, inputs: &[TensorId]) -> Result<TensorId, GraphError> {
        self.check_operands(name, inputs)?;
        self.check_einsum(name, &einsum, inputs)?;
        let ty = TensorType::new(einsum.dtype, einsum.shape());
        self.push(Node { name: name.into(), op: Op::Einsum(einsum), inputs: inputs.to_vec(), ty })
    }

    /// Adds a contraction in einsum notation, such as `bsk,nk->bsn`. The result has the operands' type.
    pub fn contraction(&mut self, name: &str, spec: &str, inputs: &[TensorId]) -> Result<TensorId, GraphError> {
        self.check_operands(name, inputs)?;
        let shapes: Vec<&[usize]> = inputs.iter().map(|&i| self.ty(i).shape.as_slice()).collect();
        let dtype = inputs.first().map_or(DType::F32, |&i| self.ty(i).dtype);
        let einsum = Einsum::contraction(spec, &shapes, dtype)
            .map_err(|source| GraphError::Einsum { name: name.into(), source })?;
        self.einsum(name, einsum, inputs)
    }

    /// Adds a view.
    pub fn view(&mut self, name: &str, view: View, inputs: &[TensorId]) -> Result<TensorId, GraphError> {
        self.check_operands(name, inputs)?;
        let shapes: Vec<&[usize]> = inputs.iter().map(|&i| self.ty(i).shape.as_slice()).collect();
        let malformed = |reason: String| GraphError::Malformed { name: name.into(), reason };
        let Some(&first) = inputs.first() else { return Err(malformed("a view needs an operand".into())) };
        let dtype = self.ty(first).dtype;
        for (operand, &i) in inputs.iter().enumerate() {
            if self.ty(i).dtype != dtype {
                return Err(self.type_error(
                    name,
                    view.name(),
                    (operand, None),
                    i,
                    &format!("all parts must be {dtype}"),
                ));
            }
        }
        let shape = view.shape(&shapes).map_err(|source| GraphError::View { name: name.into(), source })?;
        self.push(Node {
            name: name.into(),
            op: Op::View(view),
            inputs: inputs.to_vec(),
            ty: TensorType::new(dtype, shape),
        })
    }

    /// Adds a kernel.
    pub fn kernel(&mut self, name: &str, kernel: Kernel, inputs: &[TensorId]) -> Result<TensorId, GraphError> {
        self.check_operands(name, inputs)?;
        let operation = kernel.name();
        let malformed = |reason: String| GraphError::Malformed { name: name.into(), reason };
        if let Some(reason) = kernel.fault() {
            return Err(malformed(reason));
        }
        let Signature { operands, result } = kernel.signature();
        if inputs.len() != operands.len() {
            return Err(malformed(format!("{operation} takes {} operands, not {}", operands.len(), inputs.len())));
        }
        for (operand, (&id, (dtypes, shape))) in inputs.iter().zip(&operands).enumerate() {
            let ty = self.ty(id);
            if !dtypes.contains(&ty.dtype) || ty.shape != *shape {
                let want = dtypes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
                return Err(self.type_error(
                    name,
                    operation,
                    (operand, None),
                    id,
                    &format!("{want}{shape:?} is expected"),
                ));
            }
        }
        self.push(Node { name: name.into(), op: Op::Kernel(kernel), inputs: inputs.to_vec(), ty: result })
    }

    /// Names a result. A tensor may be named more than once.
    pub fn output(&mut self, name: &str, tensor: TensorId) -> Result<(), GraphError> {
        self.check_operands(name, &[tensor])?;
        if self.outputs.iter().any(|(n, _)| n == name) {
            return Err(GraphError::Name { name: name.into() });
        }
        self.outputs.push((name.into(), tensor));
        Ok(())
    }

    fn push(&mut self, node: Node) -> Result<TensorId, GraphError> {
        let id = TensorId(self.nodes.len() as u32);
        if self.names.contains_key(&node.name) {
            return Err(GraphError::Name { name: node.name });
        }
        // So that sizes and offsets can be computed without a thought of overflow.
        let bytes = node.ty.shape.iter().try_fold(node.ty.dtype.bytes(), |n, &e| n.checked_mul(e.max(1)));
        if bytes.is_none_or(|n| n > isize::MAX as usize) {
            let reason = format!("a tensor of shape {:?} is more than can be addressed", node.ty.shape);
            return Err(GraphError::Malformed { name: node.name, reason });
        }
        self.names.insert(node.name.clone(), id);
        self.nodes.push(node);
        Ok(id)
    }

    fn check_operands(&self, name: &str, inputs: &[TensorId]) -> Result<(), GraphError> {
        match inputs.iter().find(|i| i.index() >= self.nodes.len()) {
            Some(&tensor) => Err(GraphError::Operand { name: name.into(), tensor }),
            None => Ok(()),
        }
    }

    fn type_error(
        &self,
        name: &str,
        operation: &str,
        (operand, axis): (usize, Option<usize>),
        id: TensorId,
        expected: &str,
    ) -> GraphError {
        GraphError::Type {
            name: name.into(),
            operation: operation.into(),
            operand,
            axis,
            tensor: self.node(id).name.clone(),
            found: self.ty(id).to_string(),
            expected: expected.into(),
        }
    }

    fn check_einsum(&self, name: &str, e: &Einsum, inputs: &[TensorId]) -> Result<(), GraphError> {
        let malformed = |reason: String| GraphError::Malformed { name: name.into(), reason };
        if e.rank > e.labels.len() {
            return Err(malformed(format!("rank {} but only {} labels", e.rank, e.labels.len())));
        }
        for (n, l) in e.labels.iter().enumerate() {
            if e.labels[..n].iter().any(|o| o.name == l.name) {
                return Err(malformed(format!("label `{}` is listed twice", l.name)));
            }
        }
        if e.join.rows().is_empty() {
            return Err(malformed("the join has no rows".into()));
        }
        if inputs.len() != e.accesses.len() || e.join.operands() > inputs.len() {
            let (a, j, i) = (e.accesses.len(), e.join.operands(), inputs.len());
            return Err(malformed(format!("{i} operands are given, {a} accessed and {j} read by the join")));
        }
        match e.monoid {
            Monoid::Attend | Monoid::Once | Monoid::Top(_) | Monoid::Affine => {
                return Err(malformed(format!("{} is the monoid of a kernel, not of an einsum", e.monoid.name())));
            }
            Monoid::Moments | Monoid::SoftMax if !e.dtype.is_float() => {
                return Err(malformed(format!("{} needs a float type, not {}", e.monoid.name(), e.dtype)));
            }
            Monoid::Sum | Monoid::Prod if e.dtype == DType::Bool && e.labels.len() > e.rank => {
                return Err(malformed(format!("{} of bool: use max (any) or min (all), or cast", e.monoid.name())));
            }
            _ => {}
        }
        for (row, dtype) in e.join.rows() {
            match *row {
                Row::Operand(n) if self.ty(inputs[n]).dtype != *dtype => {
                    return Err(self.type_error(
                        name,
                        "einsum",
                        (n, None),
                        inputs[n],
                        &format!("the join reads {dtype}"),
                    ));
                }
                Row::Index(l) if l >= e.labels.len() => {
                    return Err(malformed(format!("the join reads label {l} of {}", e.labels.len())));
                }
                _ => {}
            }
        }
        for (operand, (access, &id)) in e.accesses.iter().zip(inputs).enumerate() {
            let shape = &self.ty(id).shape;
            let wrong =
                |axis: Option<usize>, what: String| Err(self.type_error(name, "einsum", (operand, axis), id, &what));
            if access.axes.len() != shape.len() {
                return wrong(None, format!("rank {} is accessed", access.axes.len()));
            }
            for (axis, (index, &extent)) in access.axes.iter().zip(shape).enumerate() {
                let here = Some(axis);
                if index.terms.iter().any(|t| t.0 >= e.labels.len() || t.1 == 0) {
                    return wrong(here, format!("axis {axis} is read at a missing label or with a stride of 0"));
                }
                if (1..index.terms.len()).any(|n| index.terms[..n].iter().any(|t| t.0 == index.terms[n].0)) {
                    return wrong(here, format!("axis {axis} is read at a label twice; add up its strides"));
                }
                if index.terms.iter().any(|t| e.labels[t.0].extent == 0) {
                    continue;
                }
                // A plain label must span its axis, so that a mistyped extent is not a silent slice.
                if let Some(l) = index.as_label().filter(|&l| e.labels[l].extent != extent) {
                    let Label { name, extent } = &e.labels[l];
                    return wrong(here, format!("axis {axis} is label `{name}` of extent {extent}"));
                }
                let (lo, hi) = reach(index, e);
                if lo < 0 || hi >= extent as i64 {
                    return wrong(here, format!("axis {axis} is read at indices {lo} to {hi}"));
                }
            }
        }
        let needs_element = matches!(e.monoid, Monoid::Max | Monoid::Min | Monoid::Moments | Monoid::SoftMax);
        if needs_element && let Some(l) = e.labels[e.rank..].iter().find(|l| l.extent == 0) {
            return Err(GraphError::EmptyFold { name: name.into(), monoid: e.monoid.name(), label: l.name.clone() });
        }
        Ok(())
    }
}

/// Lowest and highest index over all labels.
fn reach(index: &crate::einsum::Affine, e: &Einsum) -> (i64, i64) {
    let (mut lo, mut hi) = (index.offset, index.offset);
    for &(l, s) in &index.terms {
        // Saturated is far outside any axis.
        let end = s.saturating_mul(e.labels[l].extent as i64 - 1);
        lo = lo.saturating_add(end.min(0));
        hi = hi.saturating_add(end.max(0));
    }
    (lo, hi)
}
