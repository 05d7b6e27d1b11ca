//! Blocks of attention by each of its kernels, executed on the host, against the dense reference.

mod support;

use ein_cuda::generate::{self, Orders};
use ein_cuda::program::{Program, Step, Target};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::kernel::{Attention, Kernel};
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::Op;
use ein_ir::reference;
use ein_ir::region::{Interval, Region};
use ein_task::task::{OpRow, Task, TaskId, Value, Verb};
use support::{Cases, Rng, assert_near, fields, kernel_row, stored};

/// What kernels a program has, by the first words of their names.
fn kernels(program: &Program) -> Vec<&str> {
    let name = |s: &Step| match s {
        Step::Launch(l) => Some(l.kernel.name.len() - 17),
        _ => None,
    };
    program
        .steps
        .iter()
        .filter_map(|s| match s {
            Step::Launch(l) => name(s).map(|n| &l.kernel.name[..n]),
            _ => None,
        })
        .collect()
}

/// Operands of attention: q, k, v, and what else it has.
fn operands(rng: &mut Rng, a: &Attention) -> Vec<Dense> {
    let signature = Kernel::Attention(a.clone()).signature();
    let mut all: Vec<Dense> =
        signature.operands.iter().map(|(types, shape)| rng.dense(types[0], shape, false)).collect();
    if let Some(shape) = &a.mask {
        // Some keys are not seen at all.
        let mask = &mut all[3];
        let n: usize = shape.iter().product();
        let value = |rng: &mut Rng| if rng.below(4) == 0 { f64::NEG_INFINITY } else { rng.below(9) as f64 / 4.0 };
        let values: Vec<f64> = (0..n).map(|_| value(rng)).collect();
        *mask = Dense::from_f64(a.dtype, shape.clone(), &values);
    }
    if let Some(n) = a.packed {
        let mut values: Vec<i64> = (1..n).map(|_| rng.below(a.keys + 1) as i64).collect();
        values.push(0);
        values.sort_unstable();
        let dtype = rng.of(&[DType::I64, DType::I32]);
        let values: Vec<f64> = values.into_iter().map(|v| v as f64).collect();
        all[a.offsets_operand()] = Dense::from_f64(dtype, [n], &values);
    }
    all
}

/// How far a finished value, of values up to 2, may be from the reference.
fn bound(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        // Weights of 8 or 11 bits, and the result rounded once more.
        DType::BF16 => 0.025,
        _ => 0.004,
    }
}

/// The GPU that generates for kernels of this name.
fn target(kernel: &str) -> Target {
    if kernel == "attention_groups" { Target::H200 } else { Target::A100 }
}

/// Adds a block, finished or pending. A pending one is judged by what it finishes to, and by its maximum.
fn add(cases: &mut Cases, rng: &mut Rng, a: &Attention, tensors: &[Dense], labels: &Region, form: u8, kernel: &str) {
    let op = Op::Kernel(Kernel::Attention(a.clone()));
    let (finish, wide) = (form == 0, form == 2);
    let form = if finish { Form::finished(a.dtype, 4) } else { Monoid::Attend.pending(a.dtype, 4, wide) };
    let (row, expected) = kernel_row(rng, &op, tensors, labels, &form, finish);
    let what = format!("{a:?} over {labels}, finished {finish}");
    let program = generate::program(&row.graph, row.id(), &Orders::default(), &target(kernel))
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    // A part of a block may be one for another kernel.
    if form.fields.len() == 1 && !kernel.is_empty() {
        assert_eq!(kernels(&program).first().copied(), Some(kernel), "{what}");
    }
    let value = row.graph.task(row.id()).value.clone();
    let own = vec![0xff; value.bytes().0 as usize];
    let dtype = a.dtype;
    cases.add(what, program, own, row.reads, move |what, left, _| {
        let got = fields(left, &value.form, &value.region);
        let (got, expected) = if finish {
            (got[0].clone(), expected[0].clone())
        } else {
            let apart = got[0].max_abs_difference(&expected[0]);
            assert!(apart <= 1e-4, "{what}: the maximum is {apart:e} off\n{:?}\n{:?}", got[0], expected[0]);
            let finish = |f| reference::finish(Monoid::Attend, f, DType::F64);
            // An acc of 16 bits is rounded before it is divided.
            (finish(got), finish(expected))
        };
        let apart = got.max_abs_difference(&expected);
        assert!(apart <= bound(dtype), "{what}: {apart:e} off\n{got:?}\n{expected:?}");
    });
}

/// The whole of it, and parts, finished and pending.
fn add_all(cases: &mut Cases, rng: &mut Rng, a: &Attention, kernel: &str) {
    assert_eq!(Kernel::Attention(a.clone()).fault(), None);
    let tensors = operands(rng, a);
    let op = Op::Kernel(Kernel::Attention(a.clone()));
    let dtypes: Vec<DType> = tensors.iter().map(Dense::dtype).collect();
    let space = op.spec(&dtypes).expect("it computes").space();
    add(cases, rng, a, &tensors, &space, 0, kernel);
    for form in [1, 2] {
        let mut part = rng.part(&space);
        // Never cut: the sizes of heads, and the offsets.
        for whole in [3, 5, 6] {
            if whole < part.rank() {
                part.0[whole] = space.0[whole];
            }
        }
        add(cases, rng, a, &tensors, &part, form, kernel);
    }
}

/// What attention may have beside q, k and v.
fn variants(plain: &Attention) -> Vec<Attention> {
    let Attention { batch, heads, queries, keys, .. } = *plain;
    let a = || plain.clone();
    let mut all = vec![a(), Attention { softcap: Some(1.5f64.to_bits()), ..a() }];
    all.push(Attention { causal: true, ..a() });
    all.push(Attention { causal: true, window: Some(3), ..a() });
    all.push(Attention { mask: Some(vec![batch, heads, queries, keys]), ..a() });
    all.push(Attention { mask: Some(vec![1, 1, queries, keys]), causal: true, ..a() });
    all.push(Attention { own: true, mask: Some(vec![1, heads, 1, keys]), ..a() });
    all.push(Attention { own: true, ..a() });
    if queries == keys {
        all.push(Attention { packed: Some(4), ..a() });
        all.push(Attention { packed: Some(3), causal: true, ..a() });
    }
    all
}

#[test]
fn rows_of_any_type_and_size() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(21));
    for dtype in [DType::F64, DType::F32, DType::BF16] {
        let wide = matches!(dtype, DType::F64 | DType::F32);
        for (sizes, of_wide) in
            [([2, 4, 2, 5, 7, 3, 5], "attention_rows"), ([1, 6, 2, 9, 9, 33, 1], "attention_squares")]
        {
            for a in variants(&Attention::new(sizes, dtype)) {
                add_all(&mut cases, &mut rng, &a, if wide { of_wide } else { "attention_tiles" });
            }
        }
    }
    add_all(&mut cases, &mut rng, &Attention::new([1, 1, 1, 3, 300, 70, 64], DType::F32), "attention_rows");
    cases.run();
}

/// Floats that tensor cores do not take, in squares: tiles of 64 and of 32 keys, heads that fill no line, and that are larger
/// than tensor cores' are.
#[test]
fn many_rows_of_wide_floats() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(29));
    for (dtype, size) in [
        (DType::F32, [1, 2, 1, 70, 130, 64, 64]),
        (DType::F64, [1, 2, 2, 65, 131, 5, 70]),
        (DType::F32, [2, 1, 1, 65, 33, 128, 65]),
        (DType::F32, [1, 3, 1, 17, 90, 1, 1]),
        (DType::BF16, [1, 2, 1, 17, 40, 260, 4]),
    ] {
        let a = Attention { causal: true, ..Attention::new(size, dtype) };
        add_all(&mut cases, &mut rng, &Attention { own: true, causal: false, ..a.clone() }, "attention_squares");
        add_all(&mut cases, &mut rng, &Attention { window: Some(9), ..a.clone() }, "attention_squares");
        add_all(&mut cases, &mut rng, &a, "attention_squares");
    }
    cases.run();
}

#[test]
fn many_rows() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(22));
    for dtype in [DType::BF16, DType::F16] {
        for a in variants(&Attention::new([1, 4, 2, 67, 67, 16, 16], dtype)) {
            add_all(&mut cases, &mut rng, &a, "attention_tiles");
        }
    }
    // Head sizes: each layout of tiles, and padded ones.
    let sizes = [
        [1, 2, 1, 70, 130, 64, 64],
        [1, 2, 2, 80, 131, 64, 128],
        [2, 1, 1, 65, 97, 128, 64],
        [1, 2, 1, 33, 70, 72, 40],
        [1, 1, 1, 20, 33, 256, 192],
        [1, 3, 1, 47, 150, 24, 8],
    ];
    for size in sizes {
        let causal = Attention { causal: true, ..Attention::new(size, DType::BF16) };
        add_all(&mut cases, &mut rng, &causal, "attention_tiles");
    }
    cases.run();
}

/// Many rows by `wgmma`, with tiles of which rows see nothing, a part and all; both widths of accumulators, and heads that
/// fill no panel.
#[test]
fn many_rows_by_groups_of_warps() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(27));
    for a in variants(&Attention::new([1, 4, 2, 67, 67, 8, 16], DType::BF16)) {
        add_all(&mut cases, &mut rng, &a, "attention_groups");
    }
    let sizes = [
        [1, 2, 1, 70, 130, 72, 40],
        [1, 1, 1, 129, 290, 64, 128],
        [1, 1, 1, 140, 257, 128, 24],
        [1, 8, 1, 37, 400, 24, 8],
        [1, 1, 1, 65, 1, 8, 72],
        // Rings of tiles that come round several times, with a group of heads that divides no block.
        [2, 3, 1, 43, 1000, 64, 64],
        [1, 2, 1, 70, 900, 96, 96],
        // Accumulators of several products, and tiles of fewer keys.
        [1, 1, 1, 131, 300, 256, 256],
        [1, 2, 2, 66, 140, 24, 192],
        [1, 2, 1, 40, 70, 200, 136],
    ];
    for (n, size) in sizes.into_iter().enumerate() {
        let causal = Attention { causal: true, ..Attention::new(size, [DType::BF16, DType::F16][n % 2]) };
        let a = if n % 2 == 0 { causal } else { Attention { window: Some(90), ..causal } };
        add_all(&mut cases, &mut rng, &a, "attention_groups");
    }
    let plain = Attention::new([1, 3, 1, 43, 1000, 64, 128], DType::BF16);
    add_all(&mut cases, &mut rng, &Attention { own: true, ..plain }, "attention_groups");
    cases.run();
}

/// Waiting for the wrong phase, for nothing, or for ever is noticed, as is giving free what is still read: by an error, or
/// because what was not there, or is overwritten, is no number here.
#[test]
fn what_groups_of_warps_wait_for_is_needed() {
    let a = Attention { causal: true, ..Attention::new([1, 1, 1, 130, 900, 72, 72], DType::BF16) };
    let outcome = |prelude: &str| {
        let (mut cases, mut rng) = (Cases::default(), Rng::new(31));
        let tensors = operands(&mut rng, &a);
        let space = Op::Kernel(Kernel::Attention(a.clone())).spec(&[a.dtype; 3]).expect("it computes").space();
        add(&mut cases, &mut rng, &a, &tensors, &space, 0, "attention_groups");
        cases.outcomes(prelude).remove(0)
    };
    let right = outcome(generate::PRELUDE).expect("it is right as it is");
    let wait = "ein_phases_wait(full + ein_stage<STAGES>(tile - begin), ein_parity<STAGES>(tile - begin));";
    for (what, with) in [
        // Tiles are taken before they are there, or never.
        (wait, "ein_phases_wait(full + ein_stage<STAGES>(tile - begin), ein_parity<STAGES>(tile - begin) ^ 1u);"),
        (wait, "ein_phases_wait(full + ein_stage<STAGES>(tile - begin), 0u);"),
        (wait, ""),
        ("wait(full_v, tile - 1);\n        ein_group_begin();", "ein_group_begin();"),
        ("(unsigned)(panels * BN * 128)", "(unsigned)(BN * 128)"),
        ("(unsigned)(panels * BN * 128)", "(unsigned)(panels * BN * 128 + 16)"),
        // Rings are never free, or before all are done with them.
        ("ein_parity<STAGES>(n) ^ 1u", "ein_parity<STAGES>(n)"),
        ("ein_phases_wait(free + stage, ein_parity<STAGES>(n) ^ 1u);", ""),
        ("ein_phases_make(free_k + n, 8)", "ein_phases_make(free_k + n, 1)"),
        ("ein_phases_make(free_k + n, 8)", "ein_phases_make(free_k + n, 9)"),
        (
            "ein_group_wait<0>();\n        done(free_v, tile - 1);",
            "done(free_v, tile - 1);\n        ein_group_wait<0>();",
        ),
        ("ein_group_wait<1>();\n        done(free_k, tile);", "ein_group_wait<1>();"),
        // Turns that nobody gives, or that nobody takes.
        ("if (group == 1 && begin + 1 < end) ein_pass(TURN, MULTIPLYING);", ""),
        ("if (group == 0 || tile + 1 < end) ein_pass(", "ein_pass("),
    ] {
        assert!(generate::PRELUDE.contains(what), "`{what}` is not in the text");
        let left = outcome(&generate::PRELUDE.replacen(what, with, 1));
        assert!(
            left.as_ref().is_err() || left.as_ref() != Ok(&right),
            "`{with}` in the place of `{what}` goes unnoticed"
        );
    }
}

/// Fewer blocks than multiprocessors share the keys, those of causal attention as well, and a second kernel folds what they
/// leave.
#[test]
fn many_rows_of_more_keys_are_shared() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(28));
    for (kernel, size) in [
        ("attention_tiles", [1, 1, 1, 70, 1100, 64, 64]),
        ("attention_tiles", [1, 2, 1, 40, 1030, 7, 5]),
        ("attention_groups", [1, 2, 1, 70, 1100, 16, 72]),
        ("attention_groups", [1, 2, 2, 65, 1040, 136, 8]),
    ] {
        let plain = Attention::new(size, DType::BF16);
        for a in [Attention { causal: true, ..plain.clone() }, Attention { own: true, ..plain.clone() }, plain] {
            add_all(&mut cases, &mut rng, &a, kernel);
        }
    }
    let shared = |p: &Program| kernels(p).get(1) == Some(&"attention_join");
    assert!(cases.programs().filter(|(_, p)| shared(p)).count() >= 12, "few blocks share keys");
    cases.run();
}

#[test]
fn few_rows_of_many_keys() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(23));
    for dtype in [DType::BF16, DType::F16] {
        for a in variants(&Attention::new([2, 4, 2, 3, 75, 32, 64], dtype)) {
            add_all(&mut cases, &mut rng, &a, "attention_split");
        }
    }
    // Keys enough for several blocks each; several tiles of rows; head sizes.
    for size in [[1, 8, 2, 1, 1100, 64, 64], [2, 1, 1, 1, 600, 128, 128], [1, 4, 1, 9, 520, 96, 64]] {
        for own in [false, true] {
            let a = Attention { own, ..Attention::new(size, DType::BF16) };
            add_all(&mut cases, &mut rng, &a, "attention_split");
        }
        let causal = Attention { causal: true, window: Some(300), ..Attention::new(size, DType::BF16) };
        add_all(&mut cases, &mut rng, &causal, "attention_split");
    }
    cases.run();
}

/// One key that is seen weighs 1: its value comes through as it is. What is not seen adds nothing, whatever it holds.
#[test]
fn a_single_key_comes_through() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(24));
    for (dtype, queries, d, kernel) in [
        (DType::F32, 6, 5, "attention_rows"),
        (DType::F32, 70, 5, "attention_squares"),
        (DType::BF16, 40, 16, "attention_tiles"),
        (DType::F16, 40, 16, "attention_tiles"),
        (DType::BF16, 40, 13, "attention_tiles"),
        (DType::BF16, 150, 72, "attention_groups"),
        (DType::F16, 70, 8, "attention_groups"),
        (DType::BF16, 6, 64, "attention_split"),
    ] {
        let a = Attention { causal: true, window: Some(1), ..Attention::new([1, 1, 1, queries, queries, d, d], dtype) };
        let op = Op::Kernel(Kernel::Attention(a.clone()));
        let mut tensors: Vec<Dense> = (0..3).map(|_| rng.dense(dtype, &[1, 1, queries, d], false)).collect();
        // Each query sees a key of its own: the infinite value is one query's.
        let mut values = tensors[2].to_f64();
        values[2 * d + 1] = f64::INFINITY;
        values[3 * d] = f64::NAN;
        values[4 * d + 3] = f64::NEG_INFINITY;
        tensors[2] = Dense::from_f64(dtype, [1, 1, queries, d], &values);
        let labels = op.spec(&[dtype; 3]).expect("it computes").space();
        let (row, expected) = kernel_row(&mut rng, &op, &tensors, &labels, &Form::finished(dtype, 4), true);
        let program = generate::program(&row.graph, row.id(), &Orders::default(), &target(kernel)).expect("a program");
        assert_eq!(kernels(&program)[0], kernel);
        let own = vec![0xff; row.graph.task(row.id()).value.bytes().0 as usize];
        let value = row.graph.task(row.id()).value.clone();
        cases.add(format!("{dtype} by {kernel}"), program, own, row.reads, move |what, left, _| {
            let got = fields(left, &value.form, &value.region);
            assert_eq!(got[0].max_abs_difference(&expected[0]), 0.0, "{what}\n{got:?}\n{expected:?}");
        });
    }
    cases.run();
}

/// A GPU whose blocks have 99 KiB gets smaller tiles of large heads, one that has less the general kernel, of fewer warps
/// where heads are huge.
#[test]
fn blocks_have_the_memory_that_they_ask_for() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(26));
    for (dtype, d, shared, kernel) in [
        (DType::BF16, 256, 163 << 10, "attention_tiles"),
        (DType::F16, 256, 99 << 10, "attention_tiles"),
        (DType::BF16, 256, 64 << 10, "attention_rows"),
        (DType::F32, 128, 99 << 10, "attention_squares"),
        (DType::F32, 128, 64 << 10, "attention_rows"),
        (DType::F64, 700, 99 << 10, "attention_rows"),
        (DType::F64, 700, 12 << 10, "attention_rows"),
        (DType::F64, 700, 6 << 10, "attention_rows"),
    ] {
        let a = Attention::new([1, 2, 1, 37, 43, d, d], dtype);
        let (op, tensors) = (Op::Kernel(Kernel::Attention(a.clone())), operands(&mut rng, &a));
        let labels = op.spec(&[dtype; 3]).expect("it computes").space();
        let (row, expected) = kernel_row(&mut rng, &op, &tensors, &labels, &Form::finished(dtype, 4), true);
        let target = Target { shared, ..Target::A100 };
        let program = generate::program(&row.graph, row.id(), &Orders::default(), &target).expect("a program");
        assert_eq!(kernels(&program), [kernel], "{shared}");
        for step in &program.steps {
            assert!(matches!(step, Step::Launch(l) if l.shared <= shared), "{shared}: {step:?}");
        }
        let value = row.graph.task(row.id()).value.clone();
        let own = vec![0xff; value.bytes().0 as usize];
        cases.add(format!("{dtype} in {shared} bytes"), program, own, row.reads, move |what, left, _| {
            let apart = fields(left, &value.form, &value.region)[0].max_abs_difference(&expected[0]);
            assert!(apart <= bound(dtype), "{what}: {apart:e} off");
        });
    }
    cases.run();
}

/// Queries before all keys see none: 0, and the identity while it is pending.
#[test]
fn queries_that_see_nothing() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(25));
    for (dtype, d) in [(DType::F32, 4), (DType::BF16, 16), (DType::BF16, 64)] {
        let a = Attention { causal: true, ..Attention::new([1, 2, 1, 50, 20, d, d], dtype) };
        add_all(&mut cases, &mut rng, &a, "");
        let tensors = operands(&mut rng, &a);
        let i = Interval::new;
        // None of these queries sees any key.
        let labels = Region(vec![i(0, 1), i(0, 2), i(0, 9), i(0, d), i(0, 20), i(0, d)]);
        for form in 0..3 {
            add(&mut cases, &mut rng, &a, &tensors, &labels, form, "");
        }
    }
    cases.run();
}

/// A tensor `[b, one, two, e]` as `[b, two, one, e]`.
fn turned(x: &Dense) -> Dense {
    let [b, one, two, e] = x.shape[..] else { panic!("{:?}", x.shape) };
    let values = x.to_f64();
    let at = |n: usize| {
        let (i, place) = (n / e, n % e);
        values[((i / (one * two) * one + i % one) * two + i / one % two) * e + place]
    };
    Dense::from_f64(x.dtype(), [b, two, one, e], &(0..values.len()).map(at).collect::<Vec<_>>())
}

/// Where a product alone reads what attention leaves, it lies as the product wants it, whichever kernel leaves it, and the
/// product reads it so.
#[test]
fn products_read_it_as_it_lies() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(83));
    let kinds = [
        ([2, 4, 2, 70, 70, 64, 64], DType::BF16, "attention_tiles"),
        ([1, 3, 3, 71, 40, 24, 17], DType::F16, "attention_tiles"),
        ([2, 4, 2, 70, 130, 64, 64], DType::BF16, "attention_groups"),
        ([1, 4, 2, 130, 1200, 32, 64], DType::F16, "attention_tiles"),
        ([2, 4, 2, 20, 33, 24, 40], DType::F32, "attention_squares"),
        ([2, 3, 3, 5, 37, 6, 10], DType::F64, "attention_rows"),
        ([1, 8, 2, 2, 700, 64, 64], DType::BF16, "attention_split"),
    ];
    for (sizes, dtype, kernel) in kinds {
        let a = Attention::new(sizes, dtype);
        let [b, h, _, s, _, _, e] = sizes;
        let op = Op::Kernel(Kernel::Attention(a.clone()));
        let tensors = operands(&mut rng, &a);
        let dtypes: Vec<DType> = tensors.iter().map(Dense::dtype).collect();
        let space = op.spec(&dtypes).expect("it computes").space();
        let (mut row, expected) = kernel_row(&mut rng, &op, &tensors, &space, &Form::finished(dtype, 4), true);
        let (attends, columns) = (row.id(), 24);
        let text = format!(
            "x: input {dtype}[{b}, {h}, {s}, {e}]\nw: input {dtype}[{columns}, {}]\ny = einsum {dtype} (b: {b}, s: {s}, \
             j: {columns} | h: {h}, e: {e}) sum x[b, h, s, e] * w[j, {e}*h + e]\nreturn y\n",
            h * e
        );
        let graph = ein_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let y = graph.outputs()[0].1;
        row.graph.ops.push(OpRow::of(&graph, y));
        let weights = rng.dense(dtype, &[columns, h * e], false);
        let fed = Value { region: Region::whole(&weights.shape), form: Form::finished(dtype, 2) };
        let labels = Region::whole(&[b, s, columns, h, e]);
        let value = Value { region: Region::whole(&[b, s, columns]), form: Form::finished(dtype, 3) };
        let task = |verb, reads, value| Task { verb, reads, value, ..row.graph.task(attends).clone() };
        let feed = task(Verb::Feed { external: 0 }, Vec::new(), fed.clone());
        let verb = Verb::Kernel { op: 1, labels: labels.clone(), finish: true, operands: vec![Some(0), Some(1)] };
        let product = task(verb, vec![attends, TaskId(attends.0 + 1)], value.clone());
        row.graph.push(feed);
        let product = row.graph.push(product);
        let orders = Orders::of(&row.graph);
        assert_eq!(orders.get(attends), Some(&[0, 2, 1, 3][..]), "{sizes:?}");

        let program = generate::program(&row.graph, attends, &orders, &target(kernel)).expect("a program");
        assert_eq!(kernels(&program).first().copied(), Some(kernel), "{sizes:?}");
        let left = row.graph.task(attends).value.clone();
        let own = vec![0xff; left.bytes().0 as usize];
        let right = expected[0].clone();
        cases.add(format!("{sizes:?} {dtype}"), program, own, row.reads, move |what, bytes, _| {
            let stored = Value { region: Region::whole(&[b, s, h, e]), form: left.form.clone() };
            let found = turned(&fields(bytes, &stored.form, &stored.region)[0]);
            let apart = found.max_abs_difference(&right);
            assert!(apart <= bound(dtype), "{what}: {apart:e} off");
        });

        // The product of what it left, had that been exact.
        let program = generate::program(&row.graph, product, &orders, &target(kernel)).expect("a program");
        let lies = turned(&expected[0]);
        let reads = vec![
            stored(&[lies], &Form::finished(dtype, 4), &Region::whole(&[b, s, h, e])),
            stored(std::slice::from_ref(&weights), &fed.form, &fed.region),
        ];
        let operand = |data: &'_ Dense| Region::whole(&data.shape);
        let given = [&expected[0], &weights].map(|data| Some(reference::Operand { data, region: operand(data) }));
        let sum = reference::block(&graph.node(y).op, &labels, &given, &value.form, true).expect("it agrees");
        let own = vec![0xff; value.bytes().0 as usize];
        cases.add(format!("a product of {sizes:?} {dtype}"), program, own, reads, move |what, bytes, _| {
            assert_near(what, &fields(bytes, &value.form, &value.region), &sum, false);
        });
    }
    cases.run();
}
