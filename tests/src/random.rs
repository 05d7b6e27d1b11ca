//! Random graphs over all operations, with inputs: what every plan and every device is tried on.
//!
//! [`graph`] draws a graph of rank at most 4 and small extents from a seed. With `exact` it holds only
//! operations that are exact on small integers and values that every type involved can hold, so that any
//! decomposition must give the same bits. Without, it also holds functions, statistics and attention, on
//! values of moderate size; operations that a rounding error could throw to another value (comparisons,
//! rounding down, floats to integers) are then left to integers. See [`tolerance`].

use std::collections::BTreeMap;

use crate::random_view;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Literal, RowId, Unary};
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::monoid::Monoid;
use ein_ir::op::InputKind;

/// `SplitMix64`: the same numbers everywhere, and enough for tests.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `lo..=hi`.
    pub fn range(&mut self, lo: usize, hi: usize) -> usize {
        lo + (self.draw() % (hi - lo + 1) as u64) as usize
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.range(1, n) == 1
    }

    /// One of some values.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.range(0, of.len() - 1)].clone()
    }

    /// The values in a random order.
    pub fn shuffled<T>(&mut self, mut values: Vec<T>) -> Vec<T> {
        for n in (1..values.len()).rev() {
            values.swap(n, self.range(0, n));
        }
        values
    }
}

/// A random graph and its inputs by name. Equal arguments give equal results.
pub fn graph(seed: u64, exact: bool) -> (Graph, BTreeMap<String, Dense>) {
    let mut maker = Maker {
        rng: Rng::new(seed.wrapping_mul(2).wrapping_add(u64::from(exact))),
        exact,
        graph: Graph::new(),
        inputs: BTreeMap::new(),
        bounds: Vec::new(),
    };
    for _ in 0..maker.rng.range(1, 3) {
        let shape = maker.shape(4);
        let dtype = maker.dtype();
        maker.input(dtype, &shape);
    }
    let rows = maker.rng.range(2, 8);
    for _ in 0..rows {
        maker.row();
    }
    maker.outputs();
    (maker.graph, maker.inputs)
}

/// How far a plan's output may be from the reference's, as a share of `max(1, largest magnitude)`. A graph
/// with a 16-bit float in it is rounded at other places when it is cut.
pub fn tolerance(graph: &Graph) -> f64 {
    let narrow = |dtype: DType| dtype.is_float() && dtype.bytes() == 2;
    if graph.nodes().iter().any(|n| narrow(n.ty.dtype)) { 0.1 } else { 1e-3 }
}

/// Most elements of a tensor, and most points of a label space.
pub(crate) const ELEMENTS: usize = 1_000;
const POINTS: usize = 6_000;

/// A graph in the making.
pub(crate) struct Maker {
    pub(crate) rng: Rng,
    pub(crate) exact: bool,
    pub(crate) graph: Graph,
    inputs: BTreeMap<String, Dense>,
    /// The largest magnitude of every tensor's elements.
    pub(crate) bounds: Vec<f64>,
}

/// A row of a join in the making, and the largest magnitude of its value.
type Value = (RowId, f64);

impl Maker {
    /// The largest magnitude that a value of a type may have.
    pub(crate) fn limit(&self, dtype: DType) -> f64 {
        let holds = match dtype {
            DType::F64 | DType::F32 | DType::I64 | DType::I32 => (1 << 22) as f64,
            DType::BF16 => 256.0,
            DType::F16 => 2048.0,
            DType::U8 => 255.0,
            DType::Bool => 1.0,
        };
        if self.exact { holds } else { holds.min(256.0) }
    }

    pub(crate) fn extent(&mut self) -> usize {
        if self.rng.one_in(60) { 0 } else { self.rng.range(1, 7) }
    }

    pub(crate) fn shape(&mut self, rank: usize) -> Vec<usize> {
        let rank = self.rng.range(0, rank);
        let mut shape: Vec<usize> = (0..rank).map(|_| self.extent()).collect();
        while shape.iter().product::<usize>() > ELEMENTS {
            shape.pop();
        }
        shape
    }

    pub(crate) fn dtype(&mut self) -> DType {
        if self.rng.one_in(3) { self.rng.pick(&DType::ALL) } else { DType::F32 }
    }

    pub(crate) fn name(&self, kind: &str) -> String {
        format!("{kind}{}", self.graph.nodes().len())
    }

    pub(crate) fn bound(&self, id: TensorId) -> f64 {
        self.bounds[id.index()]
    }

    /// Adds an input with random elements.
    pub(crate) fn input(&mut self, dtype: DType, shape: &[usize]) -> TensorId {
        let n = shape.iter().product();
        let values: Vec<f64> = (0..n)
            .map(|_| match dtype {
                DType::Bool => self.rng.range(0, 1) as f64,
                DType::U8 => self.rng.range(0, 3) as f64,
                _ if self.exact || !dtype.is_float() => self.rng.range(0, 6) as f64 - 3.0,
                _ => self.rng.range(0, 4_000) as f64 / 1_000.0 - 2.0,
            })
            .collect();
        self.given(Dense::from_f64(dtype, shape, &values), 3.0)
    }

    /// Adds an input with these elements.
    pub(crate) fn given(&mut self, data: Dense, bound: f64) -> TensorId {
        let (kind, prefix) = if self.rng.one_in(2) { (InputKind::Parameter, "p") } else { (InputKind::Input, "x") };
        let name = self.name(prefix);
        let id = self.graph.input(&name, kind, data.ty()).expect("a fresh name");
        self.inputs.insert(name, data);
        self.bounds.push(bound);
        id
    }

    pub(crate) fn pick(&mut self) -> TensorId {
        // Late rows more often, so that graphs are deep.
        let n = self.bounds.len();
        let lo = if self.rng.one_in(3) { 0 } else { n.saturating_sub(3) };
        TensorId(self.rng.range(lo, n - 1) as u32)
    }

    pub(crate) fn ty(&self, id: TensorId) -> TensorType {
        self.graph.ty(id).clone()
    }

    fn row(&mut self) {
        match self.rng.range(0, 11) {
            0..=4 => self.einsum(),
            5..=7 => self.view(),
            8 => self.gather(),
            9 | 10 => self.other_kernel(),
            _ if self.exact => self.einsum(),
            _ if self.rng.one_in(2) => self.softmax(),
            _ => self.attention(),
        }
    }

    fn view(&mut self) {
        let first = self.pick();
        let Some((view, inputs, bound)) = random_view::view(self, first) else { return };
        let shapes: Vec<TensorType> = inputs.iter().map(|&i| self.ty(i)).collect();
        let shapes: Vec<&[usize]> = shapes.iter().map(|t| t.shape.as_slice()).collect();
        let shape = view.shape(&shapes).expect("a view that fits");
        if shape.len() > 4 || shape.iter().product::<usize>() > ELEMENTS {
            return;
        }
        let name = self.name("v");
        self.graph.view(&name, view, &inputs).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(bound);
    }

    // Einsums.

    fn einsum(&mut self) {
        let mut labels: Vec<usize> = Vec::new();
        let (mut operands, mut accesses) = (Vec::new(), Vec::new());
        let many = self.rng.pick(&[0, 1, 1, 1, 2, 2, 2, 3]);
        for _ in 0..many {
            let fresh = self.rng.one_in(3) && !labels.is_empty();
            let (id, access) = if fresh { self.fresh_operand(&labels, &operands) } else { self.operand(&mut labels) };
            operands.push(id);
            accesses.push(access);
        }
        // Labels that nothing reads: broadcasts, and sums of equal values.
        while labels.is_empty() || (labels.len() < 5 && self.rng.one_in(5)) {
            labels.push(self.extent());
        }
        if labels.iter().product::<usize>() > POINTS {
            return;
        }
        let (join, bound) = self.join(&operands, &labels);
        let order = self.rng.shuffled((0..labels.len()).collect());
        let mut rank = self.rng.range(0, labels.len().min(4));
        if self.rng.one_in(3) {
            rank = labels.len().min(4);
        }
        while order[..rank].iter().map(|&l| labels[l]).product::<usize>() > ELEMENTS {
            rank -= 1;
        }
        self.push_einsum(&labels, &order, rank, &operands, accesses, &join, bound);
    }

    /// A tensor and a way to read it, with more labels where it needs them.
    fn operand(&mut self, labels: &mut Vec<usize>) -> (TensorId, Access) {
        let id = self.pick();
        let shape = self.ty(id).shape;
        let mut axes = Vec::new();
        for extent in shape {
            let same: Vec<usize> = (0..labels.len()).filter(|&l| labels[l] == extent).collect();
            if !same.is_empty() && !self.rng.one_in(4) {
                axes.push(Affine::label(self.rng.pick(&same)));
                continue;
            }
            if extent > 0 && (labels.len() >= 6 || self.rng.one_in(8)) {
                axes.push(Affine::constant(self.rng.range(0, extent - 1) as i64));
                continue;
            }
            let axis = if extent > 1 && self.rng.one_in(4) {
                self.affine(extent, labels)
            } else {
                labels.push(extent);
                Affine::label(labels.len() - 1)
            };
            axes.push(axis);
        }
        (id, Access { axes })
    }

    /// An index with strides and an offset into an axis of `extent > 1`: backwards, strided or a window.
    fn affine(&mut self, extent: usize, labels: &mut Vec<usize>) -> Affine {
        let mut room = extent - 1;
        let mut offset = 0;
        let mut terms = Vec::new();
        for _ in 0..self.rng.range(1, 2) {
            let stride = self.rng.range(1, 2).min(room.max(1));
            let steps = self.rng.range(0, room / stride);
            room -= steps * stride;
            labels.push(steps + 1);
            if self.rng.one_in(3) {
                offset += (steps * stride) as i64;
                terms.push((labels.len() - 1, -(stride as i64)));
            } else {
                terms.push((labels.len() - 1, stride as i64));
            }
        }
        offset += self.rng.range(0, room) as i64;
        // A plain label must span its axis.
        if let ([(_, 1)], 0) = (terms.as_slice(), offset) {
            *labels.last_mut().expect("just pushed") = extent;
        }
        Affine { terms, offset }
    }

    /// A new input whose axes are some of the labels.
    fn fresh_operand(&mut self, labels: &[usize], others: &[TensorId]) -> (TensorId, Access) {
        let mut own = self.rng.shuffled((0..labels.len()).collect::<Vec<_>>());
        own.truncate(self.rng.range(1, 4));
        let shape: Vec<usize> = own.iter().map(|&l| labels[l]).collect();
        let dtype = match others.first() {
            Some(&other) if self.rng.one_in(2) => self.ty(other).dtype,
            _ => self.dtype(),
        };
        (self.input(dtype, &shape), Access::labels(&own))
    }

    /// Any expression of the operands, the indices and constants, and the bound of its value.
    fn join(&mut self, operands: &[TensorId], extents: &[usize]) -> (Expr, f64) {
        let types: Vec<DType> = operands.iter().map(|&id| self.ty(id).dtype).collect();
        let labels = extents.len();
        let largest = extents.iter().copied().max().unwrap_or(0) as f64;
        // Plain products, which are most of what networks do.
        let bound: f64 = operands.iter().map(|&id| self.bound(id)).product();
        let alike = types.len() >= 2 && types.iter().all(|&t| t == types[0] && t != DType::Bool);
        if alike && bound <= self.limit(types[0]) && self.rng.one_in(2) {
            return (Expr::product(types.len(), types[0]), sized(types[0], bound));
        }
        let mut e = Expr::new();
        let read: Vec<Value> =
            (0..operands.len()).map(|n| (e.push_operand(n, types[n]), self.bound(operands[n]))).collect();
        let work = self.working_type(&types);
        if work == DType::Bool {
            return self.bool_join(e, &read, labels);
        }
        let mut values: Vec<Value> = Vec::new();
        let mut conditions: Vec<RowId> = Vec::new();
        for (&(row, bound), &dtype) in read.iter().zip(&types) {
            if dtype == DType::Bool && self.rng.one_in(2) {
                conditions.push(row);
            } else {
                let row = e.cast(row, work);
                values.push(self.held(&mut e, (row, bound)));
            }
        }
        if values.is_empty() || self.rng.one_in(3) {
            let row = e.index(self.rng.range(0, labels - 1));
            let row = e.cast(row, work);
            values.push(self.held(&mut e, (row, largest)));
        }
        if self.rng.one_in(3) {
            let v = self.rng.range(1, 3);
            values.push((e.constant(Literal::Int(v as i64), work), v as f64));
        }
        if self.rng.one_in(4) {
            let (a, b) = (e.index(self.rng.range(0, labels - 1)), e.index(self.rng.range(0, labels - 1)));
            let function = self.rng.pick(&[Binary::Lt, Binary::Le, Binary::Eq, Binary::Ne]);
            conditions.push(e.binary(function, a, b).expect("two indices"));
        }
        let mut value = values[0];
        for &next in &values[1..] {
            value = self.unary(&mut e, value);
            value = self.binary(&mut e, value, next);
        }
        value = self.unary(&mut e, value);
        for condition in conditions {
            let zero = e.constant(Literal::Int(0), work);
            let (yes, no) = if self.rng.one_in(2) { (value.0, zero) } else { (zero, value.0) };
            value.0 = e.select(condition, yes, no).expect("two of one type");
        }
        if e.rows().len() - 1 != value.0 {
            // The last row is the value.
            let zero = e.constant(Literal::Int(0), work);
            value.0 = e.binary(Binary::Add, value.0, zero).expect("two of one type");
        }
        (e, value.1)
    }

    /// The value, held to the limit of its type where it may be beyond.
    fn held(&self, e: &mut Expr, (row, bound): Value) -> Value {
        let dtype = e.dtype_of(row);
        let limit = self.limit(dtype);
        if bound <= limit || dtype == DType::U8 {
            return (row, sized(dtype, bound));
        }
        let (high, low) = (Literal::Int(limit as i64), Literal::Int(-(limit as i64)));
        let high = e.constant(high, dtype);
        let row = e.binary(Binary::Min, row, high).expect("two of one type");
        let low = e.constant(low, dtype);
        (e.binary(Binary::Max, row, low).expect("two of one type"), limit)
    }

    /// A type that every operand may be converted to.
    fn working_type(&mut self, types: &[DType]) -> DType {
        let Some(&first) = types.first() else { return if self.rng.one_in(2) { DType::F32 } else { DType::I64 } };
        // Floats that are no integers are not made integers.
        if !self.exact && types.iter().any(|t| t.is_float()) && !first.is_float() { DType::F32 } else { first }
    }

    fn bool_join(&mut self, mut e: Expr, read: &[Value], labels: usize) -> (Expr, f64) {
        let (a, b) = (e.index(self.rng.range(0, labels - 1)), e.index(self.rng.range(0, labels - 1)));
        let mut value = e.binary(Binary::Le, a, b).expect("two indices");
        for &(row, _) in read {
            let row = e.cast(row, DType::Bool);
            let function = self.rng.pick(&[Binary::And, Binary::Or, Binary::Ne, Binary::Max]);
            value = e.binary(function, value, row).expect("two bools");
        }
        if self.rng.one_in(3) {
            e.unary(Unary::Not, value).expect("a bool");
        }
        (e, 1.0)
    }

    fn unary(&mut self, e: &mut Expr, (row, bound): Value) -> Value {
        let dtype = e.dtype_of(row);
        if self.rng.one_in(2) {
            return (row, bound);
        }
        let apply = |e: &mut Expr, function, row| e.unary(function, row).expect("a function of the type");
        if self.exact || !dtype.is_float() {
            let functions: &[Unary] = if dtype.is_float() {
                &[Unary::Neg, Unary::Abs, Unary::Floor, Unary::Ceil, Unary::Round, Unary::Trunc]
            } else {
                &[Unary::Neg, Unary::Abs]
            };
            return (apply(e, self.rng.pick(functions), row), sized(dtype, bound));
        }
        match self.rng.range(0, 9) {
            0 => (apply(e, Unary::Neg, row), bound),
            1 if bound <= 3.0 => (apply(e, Unary::Exp, row), bound.exp()),
            2..=6 => {
                // Smooth, and not above 2 anywhere.
                (
                    apply(
                        e,
                        self.rng.pick(&[
                            Unary::Atan,
                            Unary::Cos,
                            Unary::Erf,
                            Unary::Erfc,
                            Unary::Sigmoid,
                            Unary::Sin,
                            Unary::Tanh,
                        ]),
                        row,
                    ),
                    2.0,
                )
            }
            7..=9 => {
                // Of 1 + |x|, where these are smooth.
                let size = apply(e, Unary::Abs, row);
                let one = e.float(1.0, dtype);
                let more = e.binary(Binary::Add, size, one).expect("two floats");
                let function = self.rng.pick(&[
                    Unary::Asinh,
                    Unary::Log,
                    Unary::Log1p,
                    Unary::Log2,
                    Unary::Log10,
                    Unary::Rsqrt,
                    Unary::Sqrt,
                ]);
                (apply(e, function, more), (bound + 1.0).max(1.0))
            }
            _ => (row, bound),
        }
    }

    fn binary(&mut self, e: &mut Expr, a: Value, b: Value) -> Value {
        let dtype = e.dtype_of(a.0);
        let limit = self.limit(dtype);
        let apply = |e: &mut Expr, function, a, b| e.binary(function, a, b).expect("two of one type");
        match self.rng.range(0, 9) {
            0..=2 if a.1 * b.1 <= limit => (apply(e, Binary::Mul, a.0, b.0), a.1 * b.1),
            3..=4 if a.1 + b.1 <= limit => (apply(e, Binary::Add, a.0, b.0), a.1 + b.1),
            5 if a.1 + b.1 <= limit => (apply(e, Binary::Sub, a.0, b.0), sized(dtype, a.1 + b.1)),
            6 => (apply(e, Binary::Min, a.0, b.0), a.1.max(b.1)),
            // By a constant that is not 0: exact for integers, and for floats that are.
            7 if self.exact || !dtype.is_float() => {
                let divisor = e.constant(Literal::Int(self.rng.range(1, 4) as i64), dtype);
                let functions: &[Binary] = if dtype.is_float() {
                    &[Binary::Rem, Binary::Fmod]
                } else {
                    &[Binary::Div, Binary::Rem, Binary::Fmod, Binary::BitAnd, Binary::Shr]
                };
                let function = self.rng.pick(functions);
                let part = apply(e, function, a.0, divisor);
                (apply(e, Binary::Max, part, b.0), a.1.max(b.1).max(4.0))
            }
            7 => {
                let size = e.unary(Unary::Abs, b.0).expect("a float");
                let one = e.float(1.0, dtype);
                let more = apply(e, Binary::Add, size, one);
                (apply(e, Binary::Div, a.0, more), a.1)
            }
            8 if self.exact || !dtype.is_float() => {
                let function = self.rng.pick(&[Binary::Lt, Binary::Le, Binary::Eq, Binary::Ne]);
                let condition = apply(e, function, a.0, b.0);
                (e.select(condition, a.0, b.0).expect("two of one type"), a.1.max(b.1))
            }
            _ => (apply(e, Binary::Max, a.0, b.0), a.1.max(b.1)),
        }
    }

    fn push_einsum(
        &mut self,
        labels: &[usize],
        order: &[usize],
        rank: usize,
        operands: &[TensorId],
        accesses: Vec<Access>,
        join: &Expr,
        bound: f64,
    ) {
        let folded: Vec<usize> = order[rank..].iter().map(|&l| labels[l]).collect();
        let points: usize = folded.iter().product();
        let work = join.dtype();
        let mut dtype = work;
        if work != DType::Bool && self.rng.one_in(6) {
            let other = self.rng.pick(&DType::ALL[..6]);
            let fits = bound <= self.limit(other) && (self.exact || other.is_float() || !work.is_float());
            dtype = if fits { other } else { dtype };
        }
        let limit = self.limit(dtype);
        let grown = [(Monoid::Sum, bound * points as f64), (Monoid::Prod, bound.max(1.0).powi(points as i32))];
        let mut monoids: Vec<(Monoid, f64)> =
            grown.into_iter().filter(|m| m.1 <= limit && (dtype != DType::Bool || folded.is_empty())).collect();
        // Sums more often than the rest: they are what most graphs fold with.
        if let Some(&sum) = monoids.first() {
            monoids.extend([sum; 3]);
        }
        if points > 0 {
            monoids.extend([(Monoid::Max, bound), (Monoid::Min, bound)]);
            if !self.exact && dtype.is_float() && rank < 4 && bound <= 8.0 {
                monoids.extend([(Monoid::Moments, bound * bound), (Monoid::SoftMax, bound.max(points as f64))]);
            }
        }
        if monoids.is_empty() {
            return;
        }
        let (monoid, bound) = self.rng.pick(&monoids);
        let mut place = vec![0; labels.len()];
        for (n, &l) in order.iter().enumerate() {
            place[l] = n;
        }
        let moved = |a: Affine| Affine { terms: a.terms.iter().map(|&(l, s)| (place[l], s)).collect(), ..a };
        let accesses = accesses.into_iter().map(|a| Access { axes: a.axes.into_iter().map(moved).collect() });
        let einsum = Einsum {
            labels: order.iter().enumerate().map(|(n, &l)| Label::new(format!("l{n}"), labels[l])).collect(),
            rank,
            accesses: accesses.collect(),
            join: renumbered(join, &place),
            monoid,
            dtype,
        };
        let name = self.name("e");
        self.graph.einsum(&name, einsum, operands).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(sized(dtype, bound.max(1.0)));
    }

    /// Everything that nothing reads is an output, and now and then something else.
    fn outputs(&mut self) {
        let mut read = vec![false; self.bounds.len()];
        for node in self.graph.nodes() {
            node.inputs.iter().for_each(|i| read[i.index()] = true);
        }
        let ids: Vec<TensorId> = self.graph.ids().collect();
        for id in ids {
            if !read[id.index()] || self.rng.one_in(8) {
                self.graph.output(&format!("out{}", id.0), id).expect("a fresh name");
            }
        }
        if self.rng.one_in(10) {
            let id = self.pick();
            self.graph.output("again", id).expect("a fresh name");
        }
    }
}

/// The bound of a value: integers without a sign wrap to anything.
fn sized(dtype: DType, bound: f64) -> f64 {
    if dtype == DType::U8 { 255.0 } else { bound }
}

/// The expression with label `l` called `place[l]`.
fn renumbered(join: &Expr, place: &[usize]) -> Expr {
    use ein_ir::expr::Row;
    let mut e = Expr::new();
    for &(row, dtype) in join.rows() {
        let ok = "well typed before";
        match row {
            Row::Operand(n) => e.push_operand(n, dtype),
            Row::Const(v) => e.constant(v, dtype),
            Row::Index(l) => e.index(place[l]),
            Row::Unary(f, x) => e.unary(f, x).expect(ok),
            Row::Binary(f, a, b) => e.binary(f, a, b).expect(ok),
            Row::Select(c, y, n) => e.select(c, y, n).expect(ok),
            Row::Cast(x) => e.cast(x, dtype),
        };
    }
    e
}
