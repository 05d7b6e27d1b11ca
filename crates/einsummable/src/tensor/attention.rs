//! What an einsum cannot say: attention and embedding.

use super::index::select;
use super::map::map_over;
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::expr::Binary;
use ein_ir::graph::TensorType;
use ein_ir::kernel::{Attention, Kernel};

/// The options of [`Tensor::scaled_dot_product_attention`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// Added to the scores; or, if a bool, where it is false a key is not read.
    pub mask: Option<&'a Tensor>,
    /// Whether query `i` reads keys up to `i` only.
    pub is_causal: bool,
    /// The scale of the scores instead of `1 / sqrt(d)`.
    pub scale: Option<f64>,
    /// Whether several query heads may share a key/value head.
    pub enable_gqa: bool,
    /// Keys that no query reads, `[b, t]`: where a bool is true, as `torch.nn.MultiheadAttention` has it; or a float
    /// that is added to the scores of the key. Unlike `mask` it goes together with `is_causal`.
    pub key_padding_mask: Option<&'a Tensor>,
    /// Of the keys that `is_causal` leaves a query, only the last so many are read; needs `is_causal`.
    pub window: Option<usize>,
    /// Scores become `softcap * tanh(score / softcap)` before the mask is added.
    pub softcap: Option<f64>,
    /// Where packed sequences begin: `[n]`, `i64` or `i32`, rising from 0. A query reads keys of its own sequence; what
    /// follows the last offset is a sequence too. Known at run time only, so one plan serves every packing.
    pub offsets: Option<&'a Tensor>,
    /// A key `[b, kv, s, d]` and a value `[b, kv, s, e]` of each query, which it reads beside all others: of the tokens of a
    /// generation step, whose keys and values are a cache that is not copied. Without `is_causal` and `offsets`.
    pub own: Option<(&'a Tensor, &'a Tensor)>,
}

impl Tensor {
    /// `torch.nn.functional.scaled_dot_product_attention`. `self` is the query `[b, h, s, d]`, the key is
    /// `[b, kv, t, d]`, the value `[b, kv, t, e]`; without `b` and, then, without `h` as well.
    pub fn scaled_dot_product_attention(&self, key: &Tensor, value: &Tensor, options: &AttentionOptions) -> Tensor {
        Tensor::attempt(|| attention(self, key, value, options))
    }

    /// Rows of a table: `self` holds ids, `weight` is `[rows, features]`.
    pub fn embedding(&self, weight: &Tensor) -> Tensor {
        Tensor::attempt(|| {
            if weight.ty()?.shape.len() != 2 {
                return Err(weight.shape_error("embedding", "the table must have two axes, rows and features".into()));
            }
            select(weight, "embedding", 0, self)
        })
    }
}

fn attention(q: &Tensor, k: &Tensor, v: &Tensor, options: &AttentionOptions) -> Result<Tensor, TensorError> {
    let operation = "scaled_dot_product_attention";
    let (dtype, rank) = (q.ty()?.dtype, q.ty()?.shape.len());
    let dtypes = vec![dtype, k.ty()?.dtype, v.ty()?.dtype];
    if !dtype.is_float() || dtypes.iter().any(|&d| d != dtype) {
        let reason = "query, key and value must have one float type".into();
        return Err(TensorError::Type { operation, dtypes, reason });
    }
    let shapes = || vec![q.shape().to_vec(), k.shape().to_vec(), v.shape().to_vec()];
    let wrong = |reason: String| TensorError::Shape { operation, shapes: shapes(), reason };
    if !(2..=4).contains(&rank) || k.dim() != rank || v.dim() != rank {
        return Err(wrong("query, key and value must all have 2, 3 or 4 axes".into()));
    }
    if rank < 4 {
        let lift = |t: &Tensor| t.unsqueeze(0);
        let mask = options.mask.map(|m| if m.dim() == rank { m.unsqueeze(0) } else { m.clone() });
        let padding = options.key_padding_mask.map(|m| if rank == 3 { m.unsqueeze(0) } else { m.clone() });
        let own = options.own.map(|(k, v)| (lift(k), lift(v)));
        let own = own.as_ref().map(|(k, v)| (k, v));
        let options = AttentionOptions { mask: mask.as_ref(), key_padding_mask: padding.as_ref(), own, ..*options };
        return Ok(attention(&lift(q), &lift(k), &lift(v), &options)?.select(0, 0));
    }
    let &[batch, heads, queries, dim] = q.shape() else { unreachable!("rank 4") };
    let &[batch_k, kv_heads, keys, dim_k] = k.shape() else { unreachable!("rank 4") };
    let &[batch_v, heads_v, keys_v, value_dim] = v.shape() else { unreachable!("rank 4") };
    if batch_k != batch || batch_v != batch || heads_v != kv_heads || keys_v != keys || dim_k != dim {
        return Err(wrong("batch, key heads, keys and the size of a head must agree".into()));
    }
    if kv_heads != heads && !options.enable_gqa {
        return Err(wrong(format!("{heads} query heads on {kv_heads} key/value heads need `enable_gqa`")));
    }
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(wrong(format!("{heads} query heads are not a multiple of {kv_heads} key/value heads")));
    }
    if options.mask.is_some() && options.is_causal {
        return Err(wrong("give a mask or `is_causal`, not both; a mask can be made causal with `tril`".into()));
    }
    // PyTorch aligns the causal triangle at the first key, the kernel at the last: equal if square.
    let square = queries == keys;
    if options.window.is_some() && !(options.is_causal && square) {
        return Err(wrong("a window needs `is_causal` and as many queries as keys".into()));
    }
    let mut masks = Vec::new();
    if let Some(mask) = options.mask {
        masks.push(additive(mask, [batch, heads, queries, keys], dtype)?);
    }
    if let Some(padding) = options.key_padding_mask {
        masks.push(padded(padding, batch, keys, dtype)?);
    }
    if options.is_causal && !square {
        masks.push(triangle(queries, keys, dtype)?);
    }
    let mask = masks.into_iter().reduce(|all, next| all.add(next));
    if let Some(offsets) = options.offsets {
        let ty = offsets.ty()?;
        if !matches!(ty.dtype, DType::I64 | DType::I32) || ty.shape.len() != 1 {
            return Err(wrong(format!("offsets are one axis of i64 or i32, not {ty}")));
        }
    }
    if let Some((k, v)) = options.own {
        let (key, value) = ([batch, kv_heads, queries, dim], [batch, kv_heads, queries, value_dim]);
        if k.ty()?.shape != key || v.ty()?.shape != value || k.dtype() != dtype || v.dtype() != dtype {
            return Err(wrong(format!("own keys must be {dtype}{key:?} and own values {dtype}{value:?}")));
        }
    }
    let plain = Attention::new([batch, heads, kv_heads, queries, keys, dim, value_dim], dtype);
    let kernel = Attention {
        causal: options.is_causal && square,
        window: options.window,
        softcap: options.softcap.map(f64::to_bits),
        mask: mask.as_ref().map(|m| m.shape().to_vec()),
        packed: options.offsets.map(|o| o.shape()[0]),
        own: options.own.is_some(),
        scale: options.scale.map_or(plain.scale, f64::to_bits),
        ..plain
    };
    let kernel = Kernel::Attention(kernel);
    if let Some(reason) = kernel.fault() {
        return Err(wrong(reason));
    }
    let mut operands = vec![q, k, v];
    operands.extend(&mask);
    operands.extend(options.own.into_iter().flat_map(|(k, v)| [k, v]));
    operands.extend(options.offsets);
    let ty = TensorType::new(dtype, [batch, heads, queries, value_dim]);
    Ok(Tensor::row_kernel("attention", kernel, &operands, ty))
}

/// A mask of rank 4 that is added to the scores.
fn additive(mask: &Tensor, full: [usize; 4], dtype: DType) -> Result<Tensor, TensorError> {
    let operation = "scaled_dot_product_attention";
    let own = &mask.ty()?.shape;
    let wrong = || {
        let reason = format!("the mask does not broadcast to {full:?}");
        TensorError::Shape { operation, shapes: vec![own.clone()], reason }
    };
    let lead = full.len().checked_sub(own.len()).ok_or_else(wrong)?;
    if own.iter().enumerate().any(|(n, &e)| e != 1 && e != full[lead + n]) {
        return Err(wrong());
    }
    let mut shape: Vec<i64> = vec![1; lead];
    shape.extend(own.iter().map(|&n| n as i64));
    let mut mask = mask.reshape(&shape);
    if mask.dtype() == DType::Bool {
        mask = Tensor::zeros(&[], dtype).where_(&mask, f64::NEG_INFINITY);
    } else if mask.dtype() != dtype {
        let reason = "the mask must be a bool or have the query's type; convert with `.to`".into();
        return Err(TensorError::Type { operation, dtypes: vec![mask.dtype(), dtype], reason });
    }
    // Keys are an axis of their own in the kernel; the other axes may be 1 long.
    let last = if shape[3] == 1 { full[3] as i64 } else { -1 };
    Ok(mask.expand(&[-1, -1, -1, last]))
}

/// A mask of keys, `[b, t]`, as `[b, 1, 1, t]` to be added to the scores.
fn padded(mask: &Tensor, batch: usize, keys: usize, dtype: DType) -> Result<Tensor, TensorError> {
    let operation = "scaled_dot_product_attention";
    let ty = mask.ty()?;
    if ty.shape != [batch, keys] {
        let reason = format!("the mask of keys must be [{batch}, {keys}]");
        return Err(TensorError::Shape { operation, shapes: vec![ty.shape.clone()], reason });
    }
    let mask = match ty.dtype {
        DType::Bool => Tensor::full(&[], f64::NEG_INFINITY, dtype).where_(mask, 0.0),
        own if own == dtype => mask.clone(),
        own => {
            let reason = "the mask of keys must be a bool or have the query's type; convert with `.to`".into();
            return Err(TensorError::Type { operation, dtypes: vec![own, dtype], reason });
        }
    };
    Ok(mask.reshape(&[batch as i64, 1, 1, keys as i64]))
}

/// Minus infinity where the key comes after the query, both counted from the first.
fn triangle(queries: usize, keys: usize, dtype: DType) -> Result<Tensor, TensorError> {
    map_over("causal_mask", &[1, 1, queries, keys], vec![], &[], |e, _| {
        let (s, t) = (e.index(2), e.index(3));
        let seen = e.binary(Binary::Le, t, s)?;
        let zero = e.float(0.0, dtype);
        let hidden = e.float(f64::NEG_INFINITY, dtype);
        e.select(seen, zero, hidden)
    })
}
