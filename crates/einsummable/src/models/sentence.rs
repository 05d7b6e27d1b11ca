//! A sentence model as one graph: encoder, pooling, normalisation.

use super::encoder::{Encoder, EncoderConfig};
use super::folder::{Pipeline, Pooling};
use crate::tensor::map::{letters, map_over};
use crate::tensor::{Tensor, TensorError};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::{Binary, Expr, ExprError, RowId};
use ein_ir::monoid::Monoid;

/// Name of the input of ids, `[batch, sequence]`.
pub const IDS: &str = "input_ids";
/// Name of the input that is added to the scores of keys, `[batch, 1, 1, sequence]`.
pub const MASK: &str = "attention_mask";

/// One vector for each text, `[batch, hidden]`, from the inputs [`IDS`] and [`MASK`].
pub fn embedding(config: &EncoderConfig, pipeline: &Pipeline, batch: usize, sequence: usize) -> Tensor {
    let ids = Tensor::input(IDS, [batch, sequence], DType::I64);
    let mask = Tensor::input(MASK, [batch, 1, 1, sequence], config.dtype);
    let hidden = Encoder::new(config).hidden(&ids, &mask);
    let pooled = match pipeline.pooling {
        Pooling::Cls => hidden.select(1, 0),
        Pooling::Mean => Tensor::attempt(|| mean(&hidden, &mask)),
        Pooling::Max => Tensor::attempt(|| masked(&hidden, &mask, "max", Monoid::Max, f64::NEG_INFINITY)),
    };
    if pipeline.normalize { pooled.normalize(-1, 1e-12) } else { pooled }.named("embedding")
}

/// Ids and mask of a batch of texts, padded to `batch` texts of `sequence` tokens.
///
/// Keys that are padding get minus infinity. A text that is padding has one token, so that it has a mean.
pub fn inputs(config: &EncoderConfig, texts: &[Vec<i64>], batch: usize, sequence: usize) -> (Dense, Dense) {
    let (mut ids, mut mask) =
        (vec![config.pad_token_id as i64; batch * sequence], vec![f64::NEG_INFINITY; batch * sequence]);
    for row in 0..batch {
        mask[row * sequence] = 0.0;
        for (n, &id) in texts.get(row).into_iter().flatten().enumerate() {
            ids[row * sequence + n] = id;
            mask[row * sequence + n] = 0.0;
        }
    }
    (Dense::i64([batch, sequence], ids), Dense::from_f64(config.dtype, [batch, 1, 1, sequence], &mask))
}

/// `value` where the mask is below 0, else what `read` is.
fn unless_padding(e: &mut Expr, mask: RowId, read: RowId, value: f64) -> Result<RowId, ExprError> {
    let zero = e.float(0.0, e.dtype_of(mask));
    let padding = e.binary(Binary::Lt, mask, zero)?;
    let value = e.float(value, e.dtype_of(read));
    e.select(padding, value, read)
}

/// Folds `[b, s, e]` over s, tokens that are padding counting as `padding`.
fn masked(
    hidden: &Tensor,
    mask: &Tensor,
    name: &'static str,
    monoid: Monoid,
    padding: f64,
) -> Result<Tensor, TensorError> {
    let dtype = hidden.ty()?.dtype;
    let (b, s, features) = (hidden.size(0), hidden.size(1), hidden.size(2));
    let mut e = Expr::new();
    let (x, m) = (e.push_operand(0, dtype), e.push_operand(1, mask.ty()?.dtype));
    unless_padding(&mut e, m, x, padding).map_err(|source| TensorError::Expr { operation: name, source })?;
    let accesses = vec![Access::labels(&[0, 2, 1]), mask_access(0, 2)];
    let einsum = Einsum { labels: letters(&[b, features, s]), rank: 2, accesses, join: e, monoid, dtype };
    Ok(Tensor::from_einsum(name, einsum, &[hidden, mask]))
}

fn mask_access(b: usize, s: usize) -> Access {
    Access { axes: vec![Affine::label(b), Affine::constant(0), Affine::constant(0), Affine::label(s)] }
}

/// The mean over tokens that are not padding: one sum, one count, one division.
fn mean(hidden: &Tensor, mask: &Tensor) -> Result<Tensor, TensorError> {
    let (dtype, b, s) = (hidden.ty()?.dtype, hidden.size(0), hidden.size(1));
    let sum = masked(hidden, mask, "sum_of_tokens", Monoid::Sum, 0.0)?;
    let mut e = Expr::new();
    let m = e.push_operand(0, mask.ty()?.dtype);
    let one = e.float(1.0, dtype);
    unless_padding(&mut e, m, one, 0.0).map_err(|source| TensorError::Expr { operation: "tokens", source })?;
    let einsum = Einsum {
        labels: letters(&[b, s]),
        rank: 1,
        accesses: vec![mask_access(0, 1)],
        join: e,
        monoid: Monoid::Sum,
        dtype,
    };
    let count = Tensor::from_einsum("tokens", einsum, &[mask]);
    let accesses = vec![Access::labels(&[0, 1]), Access::labels(&[0])];
    map_over("mean_of_tokens", &[b, hidden.size(2)], accesses, &[&sum, &count], |e, r| {
        let least = e.float(1e-9, dtype);
        let count = e.binary(Binary::Max, r[1], least)?;
        e.binary(Binary::Div, r[0], count)
    })
}
