//! Kernels: operations that an einsum cannot say. Each has a spec and an unfused reference.

use crate::dtype::DType;

/// An operation with a kernel of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Scaled dot-product attention with grouped key/value heads.
    Attention(Attention),
    /// Rows of a table: `out[n…, e] = table[ids[n…], e]`.
    Gather(Gather),
}

impl Kernel {
    /// The name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Attention(_) => "attention",
            Self::Gather(_) => "gather",
        }
    }
}

/// `out[b,h,s,e] = Σ_t softmax_t(scale · Σ_d q[b,h,s,d] k[b,h/g,t,d] + mask[b,h,s,t]) v[b,h/g,t,e]`.
///
/// Operands: q `[b,h,s,d]`, k `[b,kv,t,d]`, v `[b,kv,t,e]` and, when `mask`, an additive mask
/// `[b|1, h|1, s|1, t]`. Query head `h` reads key/value head `h / (heads / kv_heads)`. A query whose keys
/// are all masked gives NaN, as in `PyTorch`. Labels in order: b, h, s, e | t, d.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Batch b.
    pub batch: usize,
    /// Query heads h.
    pub heads: usize,
    /// Key/value heads kv; divides `heads`.
    pub kv_heads: usize,
    /// Queries s.
    pub queries: usize,
    /// Keys t.
    pub keys: usize,
    /// Size d of a query and of a key.
    pub dim: usize,
    /// Size e of a value.
    pub value_dim: usize,
    /// Query `s` reads keys `t <= s + keys - queries` only.
    pub causal: bool,
    /// Shape of the mask operand, if there is one.
    pub mask: Option<Vec<usize>>,
    /// The bits of the `f64` scale.
    pub scale: u64,
    /// Type of q, k, v and the result.
    pub dtype: DType,
}

impl Attention {
    /// Query heads that share one key/value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The scale of the scores.
    pub fn scale(&self) -> f64 {
        f64::from_bits(self.scale)
    }

    /// How far behind the last key the first query stands: query `s` reads keys `t < s + 1 + offset`.
    pub fn offset(&self) -> i64 {
        self.keys as i64 - self.queries as i64
    }
}

/// `out[n…, e] = table[ids[n…], e]`: an embedding. Operands: table `[v, e]`, ids `[n…]` (`i64` or `i32`).
/// Labels in order: n…, e | v. An id outside `0..v` is an error, whatever the decomposition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// Rows v of the table.
    pub rows: usize,
    /// Features e.
    pub features: usize,
    /// Shape of the ids.
    pub ids: Vec<usize>,
    /// Type of the table and the result.
    pub dtype: DType,
}
