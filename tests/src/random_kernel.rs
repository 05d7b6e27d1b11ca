//! Random rows that are no einsum, or several.

use crate::random::{ELEMENTS, Maker, Rng};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, Literal, RowId, Unary};
use ein_ir::graph::{TensorId, TensorType};
use ein_ir::kernel::{
    Attention, Gather, GatherAlong, Kernel, LastState, Recurrence, Scan, ScanFunction, Scatter, ScatterAlong, TopK,
};
use ein_ir::monoid::{Monoid, Top};

impl Maker {
    pub(crate) fn gather(&mut self) {
        let picked = self.pick();
        let ty = self.ty(picked);
        let table = if ty.shape.len() == 2 && ty.shape[0] > 0 {
            picked
        } else {
            let (dtype, shape) = (self.dtype(), [self.rng.range(1, 7), self.extent()]);
            self.input(dtype, &shape)
        };
        let table_ty = self.ty(table);
        let (rows, features) = (table_ty.shape[0], table_ty.shape[1]);
        let shape = self.shape(3);
        if shape.iter().product::<usize>() * features > ELEMENTS {
            return;
        }
        let ids = if shape.is_empty() || self.rng.one_in(3) {
            self.given_ids(&shape, rows)
        } else {
            self.computed_ids(&shape, rows)
        };
        let kernel = Gather::rows(rows, features, &shape, table_ty.dtype);
        let name = self.name("g");
        self.graph.kernel(&name, Kernel::Gather(kernel), &[table, ids]).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(self.bound(table));
    }

    /// A scatter, a sort, a scan, a recurrence or a gather along an axis, of something with an axis that is not empty.
    pub(crate) fn other_kernel(&mut self) {
        let x = self.pick();
        let ty = self.ty(x);
        let (rank, dtype) = (ty.shape.len(), ty.dtype);
        if rank == 0 || ty.shape.contains(&0) {
            return;
        }
        let axis = self.rng.range(0, rank - 1);
        let (extent, bound) = (ty.shape[axis], self.bound(x));
        match self.rng.range(0, 6) {
            0 => {
                let k = self.rng.range(1, ty.shape[rank - 1]);
                // What a rounding error could put in another order has no indices that two plans agree on.
                let indices = self.exact && self.rng.one_in(2);
                let top = Top { k, largest: self.rng.one_in(2), indices, of: dtype };
                let bound = if indices { 7.0 } else { bound };
                self.add(Kernel::TopK(TopK { shape: ty.shape, top }), &[x], bound);
            }
            1 => {
                let exact = [ScanFunction::Max, ScanFunction::Min, ScanFunction::Sum];
                let index = [ScanFunction::MaxIndex, ScanFunction::MinIndex];
                let function = match (self.exact, dtype.is_float()) {
                    (true, _) if self.rng.one_in(3) => self.rng.pick(&index),
                    (false, true) if self.rng.one_in(2) => ScanFunction::LogSumExp,
                    _ => self.rng.pick(&exact),
                };
                let bound = if function.gives_index() { 7.0 } else { bound * extent as f64 + 8.0 };
                if dtype == DType::Bool || bound > self.limit(dtype) {
                    return;
                }
                self.add(Kernel::Scan(Scan { shape: ty.shape, axis, function, dtype }), &[x], bound);
            }
            2 => {
                let mut shape = ty.shape.clone();
                shape[axis] = self.rng.range(1, 5);
                let ids = self.given_ids(&shape, extent);
                let kernel = GatherAlong { table: ty.shape, axis, ids: shape, dtype };
                self.add(Kernel::GatherAlong(kernel), &[x, ids], bound);
            }
            5 | 6 => {
                let bound = bound * extent as f64 + 8.0;
                if dtype == DType::Bool || bound > self.limit(dtype) {
                    return;
                }
                // Factors of no more than 1, so that states grow as sums do.
                let low = if dtype == DType::U8 { 0 } else { -1 };
                let factors = (0..ty.elements()).map(|_| self.rng.range(0, (1 - low) as usize) as i64 + low);
                let factors: Vec<f64> = factors.map(|f| f as f64).collect();
                let a = self.given(Dense::from_f64(dtype, ty.shape.clone(), &factors), 1.0);
                let kernel = if self.rng.one_in(3) {
                    Kernel::Recurrence(Recurrence { shape: ty.shape, axis, dtype })
                } else {
                    Kernel::LastState(LastState { shape: ty.shape, axis, dtype })
                };
                self.add(kernel, &[a, x], bound);
            }
            along => {
                // A row that no id names has the monoid's identity: of a sum alone it is a number of moderate size.
                let (monoid, bound) = (Monoid::Sum, bound * ty.elements() as f64);
                if bound > self.limit(dtype) || dtype == DType::Bool {
                    return;
                }
                let rows = self.rng.range(1, 6);
                let ids = if along == 3 { self.given_ids(&[extent], rows) } else { self.given_ids(&ty.shape, rows) };
                let source = ty.shape;
                let kernel = if along == 3 {
                    Kernel::Scatter(Scatter { source, axis, rows, monoid, dtype })
                } else {
                    Kernel::ScatterAlong(ScatterAlong { source, axis, rows, monoid, dtype })
                };
                self.add(kernel, &[x, ids], bound);
            }
        }
    }

    fn add(&mut self, kernel: Kernel, inputs: &[TensorId], bound: f64) {
        let name = self.name("k");
        self.graph.kernel(&name, kernel, inputs).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(bound);
    }

    fn given_ids(&mut self, shape: &[usize], rows: usize) -> TensorId {
        let values = (0..shape.iter().product()).map(|_| self.rng.range(0, rows - 1) as i64).collect();
        let dtype = self.rng.pick(&[DType::I64, DType::I32]);
        self.given(Dense::from_i64(dtype, shape, values), rows as f64)
    }

    /// Ids that are computed, from indices: `(3 * l0 + last) mod rows`.
    fn computed_ids(&mut self, shape: &[usize], rows: usize) -> TensorId {
        let mut join = Expr::new();
        let (first, last) = (join.index(0), join.index(shape.len() - 1));
        let three = join.constant(Literal::Int(3), DType::I64);
        let scaled = join.binary(Binary::Mul, first, three).expect("integers");
        let sum = join.binary(Binary::Add, scaled, last).expect("integers");
        let rows_row = join.constant(Literal::Int(rows as i64), DType::I64);
        join.binary(Binary::Rem, sum, rows_row).expect("integers");
        let einsum = Einsum {
            labels: shape.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect(),
            rank: shape.len(),
            accesses: vec![],
            join,
            monoid: Monoid::Sum,
            dtype: DType::I64,
        };
        let name = self.name("ids");
        let id = self.graph.einsum(&name, einsum, &[]).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(rows as f64);
        id
    }

    /// Softmax over the last axis of something: statistics, then a map.
    pub(crate) fn softmax(&mut self) {
        let x = self.pick();
        let ty = self.ty(x);
        let rank = ty.shape.len();
        if rank == 0 || !ty.dtype.is_float() || ty.shape[rank - 1] == 0 || self.bound(x) > 8.0 {
            return;
        }
        let labels: Vec<Label> = ty.shape.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect();
        let all: Vec<usize> = (0..rank).collect();
        let name = self.name("stats");
        let statistics = Einsum {
            labels: labels.clone(),
            rank: rank - 1,
            accesses: vec![Access::labels(&all)],
            join: Expr::operand(ty.dtype),
            monoid: Monoid::SoftMax,
            dtype: ty.dtype,
        };
        let stats = self.graph.einsum(&name, statistics, &[x]).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(8.0_f64.max(ty.shape[rank - 1] as f64));
        let mut join = Expr::new();
        let rows: Vec<RowId> = (0..3).map(|n| join.push_operand(n, ty.dtype)).collect();
        let apart = join.binary(Binary::Sub, rows[0], rows[1]).expect("floats");
        let weight = join.unary(Unary::Exp, apart).expect("a float");
        join.binary(Binary::Div, weight, rows[2]).expect("floats");
        let statistic = |n: i64| {
            let mut access = Access::labels(&all[..rank - 1]);
            access.axes.push(Affine::constant(n));
            access
        };
        let map = Einsum {
            labels,
            rank,
            accesses: vec![Access::labels(&all), statistic(0), statistic(1)],
            join,
            monoid: Monoid::Sum,
            dtype: ty.dtype,
        };
        let name = self.name("softmax");
        self.graph.einsum(&name, map, &[x, stats, stats]).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(1.0);
    }

    pub(crate) fn attention(&mut self) {
        let picked = self.pick();
        let ty = self.ty(picked);
        let fits = ty.shape.len() == 4 && ty.dtype.is_float() && !ty.shape.contains(&0) && self.bound(picked) <= 8.0;
        let q = if fits {
            picked
        } else {
            let dtype = self.rng.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16]);
            let shape = [self.rng.range(1, 2), self.rng.range(1, 6), self.rng.range(1, 6), self.rng.range(1, 4)];
            self.input(dtype, &shape)
        };
        let TensorType { dtype, shape } = self.ty(q);
        let [batch, heads, queries, dim] = shape[..] else { return };
        let divisors: Vec<usize> = (1..=heads).filter(|d| heads.is_multiple_of(*d)).collect();
        let kv_heads = self.rng.pick(&divisors);
        let (keys, value_dim) = (self.rng.range(1, 6), self.rng.range(1, 4));
        let k = self.input(dtype, &[batch, kv_heads, keys, dim]);
        let v = self.input(dtype, &[batch, kv_heads, keys, value_dim]);
        let mut inputs = vec![q, k, v];
        let mask = self.rng.one_in(2).then(|| {
            let mut mask = vec![batch, heads, queries, keys];
            for extent in &mut mask[..3] {
                *extent = if self.rng.one_in(2) { 1 } else { *extent };
            }
            mask
        });
        if let Some(mask) = &mask {
            let hidden = |rng: &mut Rng| if rng.one_in(5) { f64::NEG_INFINITY } else { 0.25 };
            let values: Vec<f64> = (0..mask.iter().product()).map(|_| hidden(&mut self.rng)).collect();
            // Held to no bound that another row would accept: minus infinity is for masks.
            inputs.push(self.given(Dense::from_f64(dtype, mask.clone(), &values), f64::INFINITY));
        }
        let causal = self.rng.one_in(2);
        let packed = (queries == keys && !self.rng.one_in(3)).then(|| {
            let n = self.rng.range(1, 3);
            let mut offsets: Vec<i64> = (0..n).map(|_| self.rng.range(0, keys) as i64).collect();
            offsets[0] = 0;
            offsets.sort_unstable();
            inputs.push(self.given(Dense::i64([n], offsets), keys as f64));
            n
        });
        let own = !causal && packed.is_none() && self.rng.one_in(2);
        if own {
            for features in [dim, value_dim] {
                inputs.push(self.input(dtype, &[batch, kv_heads, queries, features]));
            }
        }
        let a = Attention {
            causal,
            own,
            window: (causal && self.rng.one_in(2)).then(|| self.rng.range(1, 4)),
            softcap: self.rng.one_in(3).then_some(2.0_f64.to_bits()),
            packed,
            mask,
            scale: 0.5_f64.to_bits(),
            ..Attention::new([batch, heads, kv_heads, queries, keys, dim, value_dim], dtype)
        };
        let name = self.name("attention");
        self.graph.kernel(&name, Kernel::Attention(a), &inputs).unwrap_or_else(|e| panic!("{e}"));
        self.bounds.push(3.0);
    }
}
