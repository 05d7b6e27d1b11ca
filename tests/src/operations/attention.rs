//! Attention and embedding.

use super::{Draw, Drawn, Elements, Operation, rounded};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use einsummable::{AttentionOptions, Tensor};

fn embedding(d: &mut Draw) -> Drawn {
    let (rows, features) = (d.some(), d.extent());
    let dtype = d.float();
    let table = d.input(&[rows, features], dtype);
    let rank = d.rng.range(0, 2);
    let shape = d.shape(rank);
    let ids = d.indices(&shape, rows);
    Drawn::exactly(ids.embedding(&table))
}

/// What the options of an attention are made of.
#[derive(Default)]
struct Form {
    mask: Option<Tensor>,
    key_padding_mask: Option<Tensor>,
    offsets: Option<Tensor>,
    causal: bool,
    scale: Option<f64>,
    window: Option<usize>,
    softcap: Option<f64>,
    /// Whether queries have keys of their own.
    own: bool,
}

/// Sizes of an attention, and its type.
struct Sizes {
    rank: usize,
    /// Query heads that share a key/value head.
    group: usize,
    /// Whether there are as many queries as keys.
    square: bool,
}

const FULL: Sizes = Sizes { rank: 4, group: 1, square: false };

/// Query, key and value, with options for `[batch, heads, queries, keys]`.
fn attention(d: &mut Draw, sizes: &Sizes, options: fn(&mut Draw, [usize; 4], DType) -> Form) -> Drawn {
    let dtype = d.float();
    let (batch, heads) = (d.rng.range(1, 3), d.some().min(4));
    let (queries, keys) = (d.some(), d.some());
    let keys = if sizes.square { queries } else { keys };
    let (dim, value) = (d.rng.range(1, 4), d.rng.range(1, 4));
    let from = (4 - sizes.rank).min(2);
    let shape = |heads: usize, last: [usize; 2]| [&[batch, heads][from..], &last[..]].concat();
    let q = d.finite(&shape(heads * sizes.group, [queries, dim]), dtype);
    let k = d.finite(&shape(heads, [keys, dim]), dtype);
    let v = d.finite(&shape(heads, [keys, value]), dtype);
    let form = options(d, [batch, heads * sizes.group, queries, keys], dtype);
    let own = form.own.then(|| [dim, value].map(|features| d.finite(&shape(heads, [queries, features]), dtype)));
    let options = AttentionOptions {
        mask: form.mask.as_ref(),
        key_padding_mask: form.key_padding_mask.as_ref(),
        offsets: form.offsets.as_ref(),
        is_causal: form.causal,
        scale: form.scale,
        enable_gqa: sizes.group > 1,
        window: form.window,
        softcap: form.softcap,
        own: own.as_ref().map(|[k, v]| (k, v)),
    };
    Drawn::within(q.scaled_dot_product_attention(&k, &v, &options), rounded(dtype))
}

fn causal(d: &mut Draw, _: [usize; 4], _: DType) -> Form {
    Form { causal: d.rng.one_in(2), scale: d.rng.one_in(3).then_some(0.5), ..Form::default() }
}

fn owned(d: &mut Draw, full: [usize; 4], dtype: DType) -> Form {
    let form = if d.rng.one_in(2) { masked(d, full, dtype) } else { Form::default() };
    Form { own: true, softcap: d.rng.one_in(3).then_some(1.5), ..form }
}

fn windowed(d: &mut Draw, _: [usize; 4], _: DType) -> Form {
    let window = (!d.rng.one_in(4)).then(|| d.rng.range(1, 5));
    Form { causal: true, window, softcap: d.rng.one_in(2).then_some(1.5), ..Form::default() }
}

/// Keys that no query reads; a row may read none at all.
fn padded(d: &mut Draw, full: [usize; 4], dtype: DType) -> Form {
    padding(d, &[full[0], full[3]], dtype)
}

/// The same without a batch.
fn padded_alike(d: &mut Draw, full: [usize; 4], dtype: DType) -> Form {
    padding(d, &full[3..], dtype)
}

fn padding(d: &mut Draw, shape: &[usize], dtype: DType) -> Form {
    let mask = if d.rng.one_in(2) { d.of(Elements::Ties, shape, DType::Bool) } else { d.finite(shape, dtype) };
    Form { key_padding_mask: Some(mask), causal: d.rng.one_in(2), ..Form::default() }
}

/// Sequences that stand one after the other, some of them empty.
fn packed(d: &mut Draw, full: [usize; 4], _: DType) -> Form {
    let mut offsets: Vec<i64> = (0..d.rng.range(0, 3)).map(|_| d.rng.range(0, full[2]) as i64).collect();
    offsets.push(0);
    offsets.sort_unstable();
    let offsets = d.given(Dense::i64([offsets.len()], offsets));
    let window = d.rng.one_in(3).then(|| d.rng.range(1, 3));
    Form { offsets: Some(offsets), causal: window.is_some() || d.rng.one_in(2), window, ..Form::default() }
}

/// A mask that hides some keys, or all of them.
fn masked(d: &mut Draw, full: [usize; 4], dtype: DType) -> Form {
    let from = d.rng.range(0, 2);
    let mut shape: Vec<usize> = full[from..].to_vec();
    for extent in shape.iter_mut().rev().skip(1) {
        if d.rng.one_in(3) {
            *extent = 1;
        }
    }
    let mask = if d.rng.one_in(2) { d.of(Elements::Ties, &shape, DType::Bool) } else { d.finite(&shape, dtype) };
    Form { mask: Some(mask), ..Form::default() }
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "embedding", draw: embedding },
        Operation { name: "scaled_dot_product_attention", draw: |d| attention(d, &FULL, causal) },
        Operation {
            name: "scaled_dot_product_attention of rank 2 and 3",
            draw: |d| {
                let rank = d.rng.range(2, 3);
                attention(d, &Sizes { rank, ..FULL }, causal)
            },
        },
        Operation {
            name: "scaled_dot_product_attention with shared keys",
            draw: |d| {
                let group = d.rng.range(2, 3);
                attention(d, &Sizes { group, ..FULL }, causal)
            },
        },
        Operation { name: "scaled_dot_product_attention masked", draw: |d| attention(d, &FULL, masked) },
        Operation {
            name: "scaled_dot_product_attention with own keys",
            draw: |d| {
                let group = d.rng.range(1, 2);
                attention(d, &Sizes { group, ..FULL }, owned)
            },
        },
        Operation { name: "scaled_dot_product_attention padded", draw: |d| attention(d, &FULL, padded) },
        Operation {
            name: "scaled_dot_product_attention padded, of rank 3",
            draw: |d| attention(d, &Sizes { rank: 3, ..FULL }, padded_alike),
        },
        Operation {
            name: "scaled_dot_product_attention windowed",
            draw: |d| attention(d, &Sizes { square: true, ..FULL }, windowed),
        },
        Operation {
            name: "scaled_dot_product_attention packed",
            draw: |d| attention(d, &Sizes { square: true, group: 2, ..FULL }, packed),
        },
    ]
}
