//! Kernels.

use super::{Rng, check, check_within, run, tolerance};
use crate::cpu::tiles::tests::without;
use crate::error::Cause;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::kernel::{Attention, Gather, Kernel};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};

fn attention(queries: usize, keys: usize, causal: bool, mask: Option<Vec<usize>>, dtype: DType) -> Attention {
    Attention {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        queries,
        keys,
        dim: 8,
        value_dim: 6,
        causal,
        window: None,
        softcap: None,
        packed: None,
        own: false,
        mask,
        scale: 0.35f64.to_bits(),
        dtype,
    }
}

fn operands(rng: &mut Rng, a: &Attention) -> Vec<Dense> {
    let mut tensors = vec![
        rng.dense(a.dtype, &[a.batch, a.heads, a.queries, a.dim], false),
        rng.dense(a.dtype, &[a.batch, a.kv_heads, a.keys, a.dim], false),
        rng.dense(a.dtype, &[a.batch, a.kv_heads, a.keys, a.value_dim], false),
    ];
    if let Some(shape) = &a.mask {
        let n = shape.iter().product();
        let values: Vec<f64> =
            (0..n).map(|_| if rng.below(4) == 0 { f64::NEG_INFINITY } else { rng.below(3) as f64 }).collect();
        tensors.push(Dense::from_f64(a.dtype, shape.clone(), &values));
    }
    if a.own {
        tensors.push(rng.dense(a.dtype, &[a.batch, a.kv_heads, a.queries, a.dim], false));
        tensors.push(rng.dense(a.dtype, &[a.batch, a.kv_heads, a.queries, a.value_dim], false));
    }
    tensors
}

#[test]
fn attention_is_the_reference() {
    let mut rng = Rng::new(11);
    for (queries, keys, causal, own, mask) in [
        (5, 9, false, false, None),
        (9, 9, true, false, None),
        (5, 9, true, false, None),
        (9, 5, true, false, None),
        (1, 300, true, false, None),
        (70, 140, true, false, None),
        (1, 30, false, false, Some(vec![2, 1, 1, 30])),
        (7, 30, true, false, Some(vec![1, 4, 7, 30])),
        (7, 30, false, false, Some(vec![1, 1, 7, 1])),
        (66, 150, false, false, Some(vec![2, 4, 66, 150])),
        (1, 300, false, true, None),
        (1, 30, false, true, Some(vec![2, 1, 1, 30])),
        (70, 20, false, true, None),
    ] {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
            let a = Attention { own, ..attention(queries, keys, causal, mask.clone(), dtype) };
            let op = Op::Kernel(Kernel::Attention(a.clone()));
            let tensors = operands(&mut rng, &a);
            let space = op.spec(&[dtype; 6]).expect("it computes").space();
            for round in 0..4 {
                let mut labels = if round == 0 { space.clone() } else { rng.part(&space) };
                labels.0[5] = space.0[5];
                let finish = round == 0;
                let form = if finish { Form::finished(dtype, 4) } else { Monoid::Attend.pending(dtype, 4, round == 1) };
                let what = format!("attention {dtype} {queries}x{keys} causal {causal} own {own} mask {mask:?}");
                check(&what, &mut rng, &op, &tensors, &labels, &form, finish, false);
            }
        }
    }
}

#[test]
fn attention_with_and_without_tiles_is_the_reference() {
    let mut rng = Rng::new(15);
    for (queries, keys, dim, value_dim, causal, mask) in [
        (8, 31, 64, 64, false, None),
        (33, 300, 33, 40, true, None),
        (70, 70, 1, 65, true, None),
        (300, 270, 64, 32, false, None),
        (52, 52, 32, 32, false, Some(vec![1, 1, 1, 52])),
        (300, 270, 64, 32, false, Some(vec![1, 2, 300, 270])),
        (33, 70, 16, 16, true, Some(vec![1, 1, 33, 70])),
        (65, 33, 16, 16, false, Some(vec![1, 2, 65, 1])),
        (9, 1, 16, 16, false, Some(vec![1, 1, 1, 1])),
    ] {
        let all = attention(queries, keys, causal, mask, DType::F32);
        let a = Attention { batch: 1, heads: 2, kv_heads: 1, dim, value_dim, ..all };
        let op = Op::Kernel(Kernel::Attention(a.clone()));
        let given = operands(&mut rng, &a);
        let space = op.spec(&[DType::F32; 4]).expect("it computes").space();
        let form = Form::finished(DType::F32, 4);
        let times = |n: usize, factor: f64| {
            let values: Vec<f64> = given[n].to_f64().iter().map(|x| x * factor).collect();
            Dense::from_f64(DType::F32, &given[n].shape[..], &values)
        };
        // As they are; keys too large and too small for tiles; queries too small.
        for scale in [1.0, 1e33, 1e-25, 1e25] {
            let mut tensors = vec![times(0, 1.0 / scale), times(1, scale), given[2].clone()];
            tensors.extend(given.get(3).cloned());
            let what = format!("{queries} queries, {keys} keys of {dim}, times {scale}");
            check(&what, &mut rng, &op, &tensors, &space, &form, true, false);
            without(|| check(&what, &mut rng, &op, &tensors, &space, &form, true, false));
        }
        // In `bf16`, all and pending parts.
        let a = Attention { dtype: DType::BF16, ..a };
        let op = Op::Kernel(Kernel::Attention(a.clone()));
        for (finish, value) in [(true, 1.0), (false, 1.0), (true, f64::INFINITY)] {
            let mut tensors = operands(&mut rng, &a);
            if value > 1.0 {
                let mut values = tensors[2].to_f64();
                values[0] = value;
                tensors[2] = Dense::from_f64(DType::BF16, &tensors[2].shape[..], &values);
            }
            let form =
                if finish { Form::finished(DType::BF16, 4) } else { Monoid::Attend.pending(DType::BF16, 4, true) };
            let what = format!("bf16, {queries} queries, {keys} keys of {dim}, {value}");
            // Weights may be sums of two `bf16`, so that a partial has sixteen digits of its twenty-four.
            let digits = |dtype| if dtype == DType::F32 { 2f64.powi(-16) } else { tolerance(dtype) };
            check_within(&what, &mut rng, &op, &tensors, &space, (&form, finish), digits);
        }
    }
}

#[test]
fn masks_that_are_not_finite_are_the_reference() {
    let a =
        Attention { batch: 1, heads: 1, kv_heads: 1, ..attention(40, 70, false, Some(vec![1, 1, 40, 70]), DType::F32) };
    let op = Op::Kernel(Kernel::Attention(a.clone()));
    let mut rng = Rng::new(16);
    let given = operands(&mut rng, &a);
    let space = op.spec(&[DType::F32; 4]).expect("it computes").space();
    let form = Form::finished(DType::F32, 4);
    // Query 3 alone, its first key, its last, all of its keys.
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN, f32::MAX] {
        for keys in [0..1, 69..70, 0..70] {
            let mut values = given[3].to_f64();
            keys.for_each(|key| values[3 * 70 + key] = x.into());
            let tensors = [
                given[0].clone(),
                given[1].clone(),
                given[2].clone(),
                Dense::from_f64(DType::F32, [1, 1, 40, 70], &values),
            ];
            check(&format!("mask {x}"), &mut rng, &op, &tensors, &space, &form, true, false);
        }
    }
}

#[test]
fn values_of_hidden_keys_do_not_matter() {
    let a = attention(4, 4, true, None, DType::F32);
    let op = Op::Kernel(Kernel::Attention(a.clone()));
    let mut rng = Rng::new(12);
    let mut tensors = operands(&mut rng, &a);
    // The last key is seen by the last query only.
    let mut values = tensors[2].to_f64();
    for head in 0..4 {
        values[(head * 4 + 3) * 6] = f64::INFINITY;
        values[(head * 4 + 3) * 6 + 1] = f64::NAN;
    }
    tensors[2] = Dense::from_f64(DType::F32, [2, 2, 4, 6], &values);
    let space = op.spec(&[DType::F32; 3]).expect("it computes").space();
    check("hidden", &mut rng, &op, &tensors, &space, &Form::finished(DType::F32, 4), true, false);
}

#[test]
fn a_query_without_keys() {
    let a = attention(5, 3, true, None, DType::F32);
    let op = Op::Kernel(Kernel::Attention(a.clone()));
    let mut rng = Rng::new(13);
    let tensors = operands(&mut rng, &a);
    // Queries 0 and 1 see none: pending they are the identity, finished they are 0.
    let labels = Region::of(&[(0, 1), (0, 1), (0, 2), (0, 6), (0, 3), (0, 8)]);
    check("pending", &mut rng, &op, &tensors, &labels, &Monoid::Attend.pending(DType::F32, 4, true), false, true);
    let got = run(&op, &labels, &[None, None, None], &Form::finished(DType::F32, 4), true).expect("nothing is read");
    assert!(got[0].to_f64().iter().all(|&x| x == 0.0), "{got:?}");
}

#[test]
fn gather_is_the_reference() {
    let mut rng = Rng::new(14);
    for dtype in DType::ALL {
        for id_type in [DType::I64, DType::I32] {
            let g = Gather::rows(20, 9, &[3, 5], dtype);
            let op = Op::Kernel(Kernel::Gather(g));
            let ids: Vec<f64> = (0..15).map(|_| rng.below(20) as f64).collect();
            let tensors = [rng.dense(dtype, &[20, 9], true), Dense::from_f64(id_type, [3, 5], &ids)];
            let space = op.spec(&[dtype, id_type]).expect("it computes").space();
            for round in 0..4 {
                let labels = if round == 0 { space.clone() } else { rng.part(&space) };
                let finish = round == 0;
                let form = if finish { Form::finished(dtype, 3) } else { Monoid::Once.pending(dtype, 3, round == 1) };
                check(&format!("gather {dtype}"), &mut rng, &op, &tensors, &labels, &form, finish, true);
            }
        }
    }
}

#[test]
fn an_id_outside_the_table_is_named() {
    let g = Gather::rows(4, 2, &[2], DType::F32);
    let op = Op::Kernel(Kernel::Gather(g));
    for bad in [4, -1, i64::MAX] {
        // Whatever rows the block has: here those from 2 on.
        let labels = Region(vec![Interval::new(0, 2), Interval::new(0, 2), Interval::new(2, 4)]);
        let table = (Region::of(&[(2, 4), (0, 2)]), Dense::f32([2, 2], vec![0.0; 4]));
        let ids = (Region::of(&[(0, 2)]), Dense::i64([2], vec![3, bad]));
        let got = run(&op, &labels, &[Some(table), Some(ids)], &Form::finished(DType::F32, 2), true);
        assert_eq!(got, Err(Cause::Id { operation: "it".into(), id: bad, rows: 4 }));
    }
}

/// Every other kernel as it is written, with the rows that its ids name (0: it has none).
#[test]
fn kernels_as_they_are_written_are_the_reference() {
    let mut rng = Rng::new(15);
    let f = ["f32", "f64", "bf16", "f16"];
    let n = ["f32", "f64", "bf16", "f16", "i64", "i32", "u8"];
    let any = ["f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool"];
    let lines: [(&[&str], &str, &str, usize); 26] = [
        (&any, "[4, 7, 5]", "ids: input i64[2, 3]\ny = gather(x, ids) axis 1", 7),
        (&any, "[4, 7]", "ids: input i32[6]\ny = gather(x, ids) axis 1", 7),
        (&any, "[9]", "ids: input i32[6]\ny = gather(x, ids)", 9),
        (&any, "[4, 7, 5]", "ids: input i64[4, 9, 3]\ny = gather_along(x, ids) axis 1", 7),
        (&any, "[6, 3]", "ids: input i32[6, 2]\ny = gather_along(x, ids) axis 1", 3),
        (&n, "[4, 7, 5]", "ids: input i64[7]\ny = scatter(x, ids) rows 6 axis 1", 6),
        (&n, "[7, 5]", "ids: input i32[7]\ny = scatter(x, ids) rows 3 max", 3),
        (&n, "[5, 3]", "ids: input i32[5]\ny = scatter(x, ids) rows 9 prod", 9),
        (&n, "[7, 5]", "ids: input i32[5]\ny = scatter(x, ids) rows 3 axis 1 min", 3),
        (&n, "[4, 6]", "ids: input i64[4, 6]\ny = scatter_along(x, ids) rows 5 axis 1", 5),
        (&n, "[6, 3]", "ids: input i64[6, 3]\ny = scatter_along(x, ids) rows 2 max", 2),
        (&any, "[5, 19]", "y = top(x) k 4", 0),
        (&any, "[5, 19]", "y = top(x) k 4 indices", 0),
        (&any, "[3, 2, 9]", "y = top(x) k 9 smallest", 0),
        (&any, "[3, 2, 9]", "y = top(x) k 9 smallest indices", 0),
        (&n, "[3, 8, 2]", "y = scan(x) sum axis 1", 0),
        (&n, "[3, 5]", "y = scan(x) prod axis 1", 0),
        (&any, "[6, 5]", "y = scan(x) max", 0),
        (&any, "[6, 5]", "y = scan(x) min", 0),
        (&any, "[6, 5]", "y = scan(x) max_index", 0),
        (&any, "[7]", "y = scan(x) min_index", 0),
        (&f, "[3, 8]", "y = scan(x) logsumexp axis 1", 0),
        (&n, "[3, 8, 2]", "b: input DTYPE[3, 8, 2]\ny = recurrence(x, b) axis 1", 3),
        (&n, "[7]", "b: input DTYPE[7]\ny = recurrence(x, b)", 3),
        (&n, "[3, 8, 2]", "b: input DTYPE[3, 8, 2]\ny = last_state(x, b) axis 1", 3),
        (&n, "[3, 7]", "b: input DTYPE[3, 7]\ny = last_state(x, b) axis 1", 3),
    ];
    for (dtypes, shape, line, rows) in lines {
        for dtype in dtypes {
            let text = format!("x: input {dtype}{shape}\n{}\nreturn y\n", line.replace("DTYPE", dtype));
            let graph = ein_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            let y = graph.find("y").expect("it is there");
            let node = graph.node(y);
            let tensors: Vec<Dense> = node
                .inputs
                .iter()
                .enumerate()
                .map(|(operand, &id)| {
                    let ty = graph.ty(id);
                    let values: Vec<f64> = match operand {
                        0 => {
                            let mut x = rng.dense(ty.dtype, &ty.shape, true).to_f64();
                            // Maxima and orders must bear what no sum does.
                            let bears =
                                ty.dtype.is_float() && ["top", "max", "min", "gather"].iter().any(|w| line.contains(w));
                            if bears {
                                let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
                                for v in &mut x {
                                    *v = if rng.below(4) == 0 { odd[rng.below(4)] } else { *v };
                                }
                            }
                            x
                        }
                        _ => (0..ty.elements()).map(|_| rng.below(rows) as f64).collect(),
                    };
                    Dense::from_f64(ty.dtype, ty.shape.clone(), &values)
                })
                .collect();
            let spec = graph.spec(y).expect("it computes");
            for round in 0..6 {
                let mut labels = if round == 0 { spec.space() } else { rng.part(&spec.space()) };
                for (label, own) in spec.labels.iter().zip(&mut labels.0) {
                    if label.role == ein_ir::spec::Role::Whole {
                        *own = Interval::new(0, label.extent);
                    }
                }
                let finish = round == 0;
                let rank = node.ty.shape.len();
                let form = if finish {
                    Form::finished(node.ty.dtype, rank)
                } else {
                    spec.monoid.pending(node.ty.dtype, rank, round == 1)
                };
                // What adds up floats of 16 bits, or logs, is rounded in another order.
                let exact = !(line.contains("logsumexp") || line.contains("prod") && dtype.ends_with("16"));
                check(&text, &mut rng, &node.op, &tensors, &labels, &form, finish, exact);
            }
        }
    }
}
