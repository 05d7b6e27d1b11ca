//! Attention and embedding.

use super::{Draw, Drawn, Elements, Operation, rounded};
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

/// Query, key and value of `rank` axes, by heads that share keys where `group` is above 1.
fn attention(d: &mut Draw, rank: usize, group: usize, options: &dyn Fn(&mut Draw, [usize; 4], DType) -> Form) -> Drawn {
    attention_of(d, rank, group, false, options)
}

/// As many queries as keys, if `square`.
fn attention_of(
    d: &mut Draw,
    rank: usize,
    group: usize,
    square: bool,
    options: &dyn Fn(&mut Draw, [usize; 4], DType) -> Form,
) -> Drawn {
    let dtype = d.float();
    let (batch, heads) = (d.rng.range(1, 3), d.some().min(4));
    let queries = d.some();
    let keys = if square { queries } else { d.some() };
    let (dim, value) = (d.rng.range(1, 4), d.rng.range(1, 4));
    let lead = [batch, heads * group];
    let lead_kv = [batch, heads];
    let from = 4 - rank;
    let shape = |lead: &[usize], last: [usize; 2]| [&lead[from.min(2)..], &last[..]].concat();
    let q = d.finite(&shape(&lead, [queries, dim]), dtype);
    let k = d.finite(&shape(&lead_kv, [keys, dim]), dtype);
    let v = d.finite(&shape(&lead_kv, [keys, value]), dtype);
    let form = options(d, [batch, heads * group, queries, keys], dtype);
    let options = AttentionOptions {
        mask: form.mask.as_ref(),
        is_causal: form.causal,
        scale: form.scale,
        enable_gqa: group > 1,
        key_padding_mask: form.padding.as_ref(),
        window: form.window,
        softcap: form.softcap,
        ..AttentionOptions::default()
    };
    Drawn::within(q.scaled_dot_product_attention(&k, &v, &options), rounded(dtype))
}

/// What the options of an attention are made of.
#[derive(Default)]
struct Form {
    mask: Option<Tensor>,
    causal: bool,
    scale: Option<f64>,
    padding: Option<Tensor>,
    window: Option<usize>,
    softcap: Option<f64>,
}

fn causal(d: &mut Draw) -> Form {
    Form { causal: d.rng.one_in(2), scale: d.rng.one_in(3).then_some(0.5), ..Form::default() }
}

/// A mask that hides some keys and never all of a query's.
fn masked(d: &mut Draw, full: [usize; 4], dtype: DType) -> Form {
    let from = d.rng.range(0, 2);
    let mut shape: Vec<usize> = full[from..].to_vec();
    for extent in shape.iter_mut().rev().skip(1) {
        if d.rng.one_in(3) {
            *extent = 1;
        }
    }
    let mask = if d.rng.one_in(2) {
        // The first key is read by all.
        let drawn = d.of(Elements::Ties, &shape, DType::Bool);
        drawn.logical_or(&Tensor::arange(full[3], DType::I64).eq(0))
    } else {
        d.finite(&shape, dtype)
    };
    Form { mask: Some(mask), ..Form::default() }
}

/// Keys that no query reads, never the first, which every query reads also where attention is causal.
fn padded(d: &mut Draw, full: [usize; 4], dtype: DType) -> Form {
    let shape = [full[0], full[3]];
    let padding = if d.rng.one_in(2) {
        let drawn = d.of(Elements::Ties, &shape, DType::Bool);
        drawn.logical_and(&Tensor::arange(full[3], DType::I64).ne(0))
    } else {
        d.finite(&shape, dtype)
    };
    Form { padding: Some(padding), causal: d.rng.one_in(2), ..Form::default() }
}

/// The last keys before a query, and scores that are bounded.
fn windowed(d: &mut Draw, full: [usize; 4]) -> Form {
    let window = Some(d.rng.range(1, full[2] + 1));
    Form { causal: true, window, softcap: d.rng.one_in(2).then_some(1.5), ..Form::default() }
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "embedding", draw: embedding },
        Operation { name: "scaled_dot_product_attention", draw: |d| attention(d, 4, 1, &|d, _, _| causal(d)) },
        Operation {
            name: "scaled_dot_product_attention of rank 2 and 3",
            draw: |d| {
                let rank = d.rng.range(2, 3);
                attention(d, rank, 1, &|d, _, _| causal(d))
            },
        },
        Operation {
            name: "scaled_dot_product_attention with shared keys",
            draw: |d| {
                let group = d.rng.range(2, 3);
                attention(d, 4, group, &|d, _, _| causal(d))
            },
        },
        Operation { name: "scaled_dot_product_attention masked", draw: |d| attention(d, 4, 1, &masked) },
        Operation {
            name: "scaled_dot_product_attention with padded keys",
            draw: |d| {
                let rank = d.rng.range(3, 4);
                attention(d, rank, 1, &|d, full, dtype| {
                    let form = padded(d, full, dtype);
                    // Without a batch, keys are the mask's only axis.
                    Form { padding: form.padding.map(|p| if rank == 3 { p.select(0, 0) } else { p }), ..form }
                })
            },
        },
        Operation {
            name: "scaled_dot_product_attention with a window",
            draw: |d| {
                let group = d.rng.range(1, 2);
                attention_of(d, 4, group, true, &|d, full, _| windowed(d, full))
            },
        },
        Operation {
            name: "scaled_dot_product_attention with a soft cap",
            draw: |d| {
                attention(d, 4, 1, &|d, _, _| Form { softcap: Some(0.5 + d.rng.range(0, 3) as f64), ..causal(d) })
            },
        },
    ]
}
