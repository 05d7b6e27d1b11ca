//! Small graphs that use everything, and inputs for them.

use crate::choices::Rng;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, RowId, Unary};
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::kernel::{Attention, Gather, Kernel};
use ein_ir::monoid::Monoid;
use ein_ir::op::{InputKind, Op};
use ein_ir::view::View;
use std::collections::BTreeMap;

/// Builds one graph; a mistake in it is a mistake in the test.
pub struct Builder {
    graph: Graph,
    dtype: DType,
}

impl Builder {
    /// A builder of tensors of one type.
    pub fn new(dtype: DType) -> Self {
        Self { graph: Graph::new(), dtype }
    }

    /// An input that arrives each run.
    pub fn input(&mut self, name: &str, shape: &[usize]) -> TensorId {
        self.graph.input(name, InputKind::Input, TensorType::new(self.dtype, shape)).expect("an input")
    }

    /// A parameter.
    pub fn parameter(&mut self, name: &str, shape: &[usize]) -> TensorId {
        self.graph.input(name, InputKind::Parameter, TensorType::new(self.dtype, shape)).expect("a parameter")
    }

    /// A contraction.
    pub fn contraction(&mut self, name: &str, spec: &str, inputs: &[TensorId]) -> TensorId {
        self.graph.contraction(name, spec, inputs).expect("a contraction")
    }

    /// A view.
    pub fn view(&mut self, name: &str, view: View, inputs: &[TensorId]) -> TensorId {
        self.graph.view(name, view, inputs).expect("a view")
    }

    /// A kernel.
    pub fn kernel(&mut self, name: &str, kernel: Kernel, inputs: &[TensorId]) -> TensorId {
        self.graph.kernel(name, kernel, inputs).expect("a kernel")
    }

    /// An einsum in letters as of a contraction, with any join and monoid. A digit is a fixed index.
    pub fn einsum(
        &mut self,
        name: &str,
        spec: &str,
        inputs: &[TensorId],
        monoid: Monoid,
        join: impl Fn(&mut Expr, &[RowId]) -> RowId,
    ) -> TensorId {
        let (left, right) = spec.split_once("->").expect("an arrow");
        let sides: Vec<&str> = if left.is_empty() { vec![] } else { left.split(',').collect() };
        let mut labels: Vec<Label> = Vec::new();
        for c in right.chars().chain(left.chars()).filter(char::is_ascii_alphabetic) {
            if labels.iter().all(|l| l.name != c.to_string()) {
                let (n, axis) = sides.iter().enumerate().find_map(|(n, s)| Some((n, s.find(c)?))).expect("in an input");
                labels.push(Label::new(c.to_string(), self.graph.ty(inputs[n]).shape[axis]));
            }
        }
        let axis = |c: char| match c.to_digit(10) {
            Some(at) => Affine::constant(i64::from(at)),
            None => Affine::label(labels.iter().position(|l| l.name == c.to_string()).expect("listed")),
        };
        let accesses = sides.iter().map(|s| Access { axes: s.chars().map(axis).collect() }).collect();
        let mut e = Expr::new();
        let rows: Vec<RowId> =
            inputs.iter().enumerate().map(|(n, &i)| e.push_operand(n, self.graph.ty(i).dtype)).collect();
        join(&mut e, &rows);
        let einsum = Einsum { labels, rank: right.len(), accesses, join: e, monoid, dtype: self.dtype };
        self.graph.einsum(name, einsum, inputs).expect("an einsum")
    }

    /// A map of two tensors.
    pub fn binary(&mut self, name: &str, spec: &str, function: Binary, inputs: &[TensorId]) -> TensorId {
        let join = |e: &mut Expr, r: &[RowId]| e.binary(function, r[0], r[1]).expect("one type");
        self.einsum(name, spec, inputs, Monoid::Sum, join)
    }

    /// A fold of one tensor.
    pub fn fold(&mut self, name: &str, spec: &str, monoid: Monoid, input: TensorId) -> TensorId {
        self.einsum(name, spec, &[input], monoid, |_, r| r[0])
    }

    /// Names an output and its tensor.
    pub fn output(&mut self, name: &str, tensor: TensorId) {
        self.graph.output(name, tensor).expect("an output");
    }

    /// The graph.
    pub fn done(self) -> Graph {
        self.graph
    }
}

/// `h`, `y` and `z`, or the first `count` of them: products one after the other, by a matrix that widens rows from
/// `features` to `inner` and one that narrows them again in turn. The last is the output.
pub fn products(rows: usize, features: usize, inner: usize, count: usize) -> Graph {
    let mut b = Builder::new(DType::F32);
    let mut last = b.input("x", &[rows, features]);
    let factors = [b.parameter("up", &[features, inner]), b.parameter("down", &[inner, features])];
    let names = &["h", "y", "z"][..count];
    for (n, name) in names.iter().enumerate() {
        last = b.contraction(name, "ij,jk->ik", &[last, factors[n % 2]]);
    }
    b.output(names[count - 1], last);
    b.done()
}

/// `y = x w`.
pub fn matmul(i: usize, k: usize, j: usize) -> Graph {
    let mut b = Builder::new(DType::F32);
    let (x, w) = (b.input("x", &[i, k]), b.parameter("w", &[k, j]));
    let y = b.contraction("y", "ik,kj->ij", &[x, w]);
    b.output("y", y);
    b.done()
}

/// Two layers and a residual.
pub fn mlp(rows: usize, width: usize, hidden: usize, dtype: DType) -> Graph {
    let mut b = Builder::new(dtype);
    let x = b.input("x", &[rows, width]);
    let (up, down) = (b.parameter("w1", &[hidden, width]), b.parameter("w2", &[width, hidden]));
    let h = b.contraction("up", "sd,fd->sf", &[x, up]);
    let a = b.einsum("act", "sf->sf", &[h], Monoid::Sum, |e, r| {
        let zero = e.float(0.0, dtype);
        e.binary(Binary::Max, r[0], zero).expect("one type")
    });
    let y = b.contraction("down", "sf,df->sd", &[a, down]);
    let z = b.binary("sum", "sd,sd->sd", Binary::Add, &[y, x]);
    b.output("z", z);
    b.done()
}

/// Softmax over the last axis: statistics, then a map; and the variance of rows.
pub fn softmax(rows: usize, columns: usize) -> Graph {
    let mut b = Builder::new(DType::F32);
    let x = b.input("x", &[rows, columns]);
    let stats = b.fold("stats", "sv->s", Monoid::SoftMax, x);
    let p = b.einsum("p", "sv,s0,s1->sv", &[x, stats, stats], Monoid::Sum, |e, r| {
        let shifted = e.binary(Binary::Sub, r[0], r[1]).expect("one type");
        let exp = e.unary(Unary::Exp, shifted).expect("a float");
        e.binary(Binary::Div, exp, r[2]).expect("one type")
    });
    let moments = b.fold("moments", "sv->s", Monoid::Moments, p);
    let largest = b.fold("largest", "sv->v", Monoid::Max, p);
    b.output("p", p);
    b.output("moments", moments);
    b.output("largest", largest);
    b.done()
}

/// Attention with grouped heads between reshapes and permutes, as models have it.
pub fn attention(causal: bool, mask: bool) -> Graph {
    let (batch, heads, kv, queries, keys, dim) = (2, 4, 2, 5, 7, 2);
    let mut b = Builder::new(DType::F32);
    let x = b.input("x", &[batch, queries, 6]);
    let wq = b.parameter("wq", &[heads * dim, 6]);
    let (k, v) = (b.input("k", &[batch, kv, keys, dim]), b.input("v", &[batch, kv, keys, 3]));
    let q = b.contraction("q", "bsk,nk->bsn", &[x, wq]);
    let q4 = b.view("q4", View::Reshape { shape: vec![batch, queries, heads, dim] }, &[q]);
    let qt = b.view("qt", View::Permute { axes: vec![0, 2, 1, 3] }, &[q4]);
    let mut inputs = vec![qt, k, v];
    let mask = mask.then(|| vec![1, 1, queries, keys]);
    if let Some(shape) = &mask {
        inputs.push(b.input("mask", shape));
    }
    let attention = Attention {
        batch,
        heads,
        kv_heads: kv,
        queries,
        keys,
        dim,
        value_dim: 3,
        causal,
        window: None,
        softcap: None,
        packed: None,
        own: false,
        mask,
        scale: 0.5f64.to_bits(),
        dtype: DType::F32,
    };
    let o = b.kernel("attention", Kernel::Attention(attention), &inputs);
    let ot = b.view("ot", View::Permute { axes: vec![0, 2, 1, 3] }, &[o]);
    let flat = b.view("flat", View::Reshape { shape: vec![batch * queries, heads * 3] }, &[ot]);
    let wo = b.parameter("wo", &[6, heads * 3]);
    let y = b.contraction("y", "tn,kn->tk", &[flat, wo]);
    let shown = b.view("shown", View::Reshape { shape: vec![batch, queries, 6] }, &[y]);
    b.output("y", shown);
    b.output("o", ot);
    b.done()
}

/// Rows of a table, twice the same table: embedding and head are tied.
pub fn tied(tokens: usize, vocabulary: usize, features: usize) -> Graph {
    let mut b = Builder::new(DType::F32);
    let table = b.parameter("table", &[vocabulary, features]);
    let ids = b.graph.input("ids", InputKind::Input, TensorType::new(DType::I64, [tokens])).expect("an input");
    let gather = Gather::rows(vocabulary, features, &[tokens], DType::F32);
    let x = b.kernel("x", Kernel::Gather(gather), &[table, ids]);
    let logits = b.contraction("logits", "te,ve->tv", &[x, table]);
    b.output("logits", logits);
    b.done()
}

/// Every view, and tensors behind several of them.
pub fn views() -> Graph {
    let mut b = Builder::new(DType::F32);
    let (x, y) = (b.input("x", &[4, 6]), b.input("y", &[3, 6]));
    let double = b.binary("double", "ij,ij->ij", Binary::Add, &[x, x]);
    let both = b.view("both", View::Concat { axis: 0 }, &[double, y]);
    let padded =
        b.view("padded", View::Pad { before: vec![1, 0], after: vec![0, 2], value: 3.0f64.to_bits() }, &[both]);
    let rolled = b.view("rolled", View::Roll { shifts: vec![3, 5] }, &[padded]);
    let sliced = b.view("sliced", View::Slice { starts: vec![7, 1], steps: vec![-2, 1], shape: vec![4, 6] }, &[rolled]);
    let flat = b.view("flat", View::Reshape { shape: vec![3, 8] }, &[sliced]);
    let turned = b.view("turned", View::Permute { axes: vec![1, 0] }, &[flat]);
    let product = b.contraction("product", "ij,jk->ik", &[turned, y]);
    let wide = b.view("wide", View::Broadcast { shape: vec![2, 8, 6] }, &[product]);
    let out = b.binary("out", "aij,aij->aij", Binary::Mul, &[wide, wide]);
    b.output("out", out);
    b.output("sliced", sliced);
    b.output("x again", x);
    b.done()
}

/// A convolution with a stride, a diagonal, a scalar, and folds over several axes.
pub fn windows() -> Graph {
    let mut b = Builder::new(DType::F32);
    let (x, w) = (b.input("x", &[2, 13]), b.parameter("w", &[3, 2, 3]));
    let conv = Einsum {
        labels: [("o", 3), ("y", 6), ("i", 2), ("k", 3)].iter().map(|&(n, e)| Label::new(n, e)).collect(),
        rank: 2,
        accesses: vec![
            Access { axes: vec![Affine::label(2), Affine { terms: vec![(1, 2), (3, 1)], offset: 0 }] },
            Access::labels(&[0, 2, 3]),
        ],
        join: Expr::product(2, DType::F32),
        monoid: Monoid::Sum,
        dtype: DType::F32,
    };
    let y = b.graph.einsum("conv", conv, &[x, w]).expect("a convolution");
    let square = b.contraction("square", "oy,py->op", &[y, y]);
    let trace = b.contraction("trace", "oo->", &[square]);
    let scaled = b.binary("scaled", "oy,->oy", Binary::Mul, &[y, trace]);
    let least = b.fold("least", "oy->", Monoid::Min, scaled);
    let product = b.fold("product", "oy->y", Monoid::Prod, y);
    b.output("scaled", scaled);
    b.output("least", least);
    b.output("product", product);
    b.done()
}

/// Extents of 0: a sum over nothing, and nothing at all.
pub fn empty() -> Graph {
    let mut b = Builder::new(DType::F32);
    let (x, w, v) = (b.input("x", &[4, 0]), b.input("w", &[0, 3]), b.input("v", &[0, 4]));
    let zeros = b.contraction("zeros", "ik,kj->ij", &[x, w]);
    let none = b.contraction("none", "vi,ij->vj", &[v, zeros]);
    b.output("zeros", zeros);
    b.output("none", none);
    b.done()
}

/// All of them, by name.
pub fn all() -> Vec<(&'static str, Graph)> {
    vec![
        ("matmul", matmul(5, 7, 6)),
        ("mlp", mlp(6, 8, 10, DType::F32)),
        ("mlp in bf16", mlp(4, 6, 9, DType::BF16)),
        ("softmax", softmax(5, 9)),
        ("attention", attention(false, true)),
        ("causal attention", attention(true, false)),
        ("tied table", tied(5, 11, 4)),
        ("views", views()),
        ("windows", windows()),
        ("empty", empty()),
    ]
}

/// Small integers for every input: products and sums of them are exact in every type used here. Ids stay
/// inside the table that they index.
pub fn inputs(graph: &Graph, seed: u64) -> BTreeMap<String, Dense> {
    let mut rng = Rng::new(seed);
    let rows = graph.nodes().iter().find_map(|n| match &n.op {
        Op::Kernel(Kernel::Gather(g)) => Some(g.table[g.axis]),
        _ => None,
    });
    let mut inputs = BTreeMap::new();
    for node in graph.nodes().iter().filter(|n| matches!(n.op, Op::Input(_))) {
        let mut value = |_| match node.ty.dtype {
            DType::I64 => rng.below(rows.unwrap_or(10)) as f64,
            _ => rng.below(5) as f64 - 2.0,
        };
        let values: Vec<f64> = (0..node.ty.elements()).map(&mut value).collect();
        inputs.insert(node.name.clone(), Dense::from_f64(node.ty.dtype, node.ty.shape.clone(), &values));
    }
    inputs
}
