//! Views, cuts, pastes, folds and moves, executed on the host, against the reference.

mod support;

use ein_cuda::generate;
use ein_cuda::program::{Program, Step};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::graph::TensorType;
use ein_ir::monoid::{Form, Monoid, Top};
use ein_ir::op::Op;
use ein_ir::reference;
use ein_ir::region::{Interval, Region};
use ein_ir::view::View;
use ein_task::machine::DeviceId;
use ein_task::task::{OpRow, Value, Verb};
use support::{Cases, Rng, Row, Values, assert_near, fields, kernel_row, stored};

fn view_cases(cases: &mut Cases, rng: &mut Rng, v: &View, shapes: &[Vec<usize>], dtype: DType, rounds: usize) {
    let inputs: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let shape = v.shape(&inputs).expect("it fits");
    let whole = Region::whole(&shape);
    let tensors: Vec<Dense> = shapes.iter().map(|s| rng.dense(dtype, s, true)).collect();
    for round in 0..rounds {
        let dest = if round == 0 { whole.clone() } else { rng.part(&whole) };
        let mut reads: Vec<Values> = Vec::new();
        let mut of = Vec::new();
        for pull in v.pulls(&inputs, &dest) {
            let input = pull.input.expect("a fill is pulled from nowhere");
            let all = Region::whole(&shapes[input]);
            let region = if rng.coin() { rng.around(&pull.source, &all) } else { pull.source };
            let data = tensors[input].cut(&all, &region);
            let form = Form::finished(dtype, region.rank());
            reads.push((region, form, vec![data]));
            of.push(input);
        }
        let given: Vec<(usize, Region, &Dense)> =
            of.iter().zip(&reads).map(|(&n, (r, _, d))| (n, r.clone(), &d[0])).collect();
        let expected = reference::view_as(dtype, v, &inputs, &dest, &given);
        let op = OpRow {
            name: "it".into(),
            op: Op::View(v.clone()),
            operands: shapes.iter().map(|s| TensorType::new(dtype, s.clone())).collect(),
            spec: None,
            result: TensorType::new(dtype, shape.clone()),
        };
        let value = Value { region: dest.clone(), form: Form::finished(dtype, dest.rank()) };
        let row = Row::new(vec![op], Verb::View { op: 0, inputs: of }, &reads, value);
        row.check(cases, &format!("{v:?} {dtype} {dest}"), vec![expected], true);
    }
}

#[test]
fn every_view_of_every_type() {
    let mut rng = Rng::new(31);
    let mut cases = Cases::default();
    let views: Vec<(View, Vec<Vec<usize>>)> = vec![
        (View::Reshape { shape: vec![16, 6] }, vec![vec![12, 8]]),
        (View::Reshape { shape: vec![2, 3, 4, 4] }, vec![vec![6, 16]]),
        (View::Reshape { shape: vec![7, 10] }, vec![vec![5, 14]]),
        (View::Reshape { shape: vec![1, 30, 1] }, vec![vec![5, 6]]),
        (View::Reshape { shape: vec![3, 8, 64] }, vec![vec![3, 512]]),
        (View::Permute { axes: vec![2, 0, 1] }, vec![vec![5, 20, 30]]),
        (View::Permute { axes: vec![0, 2, 1] }, vec![vec![3, 40, 33]]),
        (View::Permute { axes: vec![0, 2, 1, 3] }, vec![vec![2, 5, 3, 8]]),
        (View::Slice { starts: vec![1, 6], steps: vec![2, -1], shape: vec![3, 7] }, vec![vec![7, 8]]),
        (View::Slice { starts: vec![9, 0], steps: vec![-3, 1], shape: vec![4, 8] }, vec![vec![10, 8]]),
        (View::Broadcast { shape: vec![4, 5, 6] }, vec![vec![5, 1]]),
        (View::Concat { axis: 1 }, vec![vec![3, 4], vec![3, 2], vec![3, 5]]),
        (View::Pad { before: vec![1, 0], after: vec![2, 3], value: 2.5f64.to_bits() }, vec![vec![4, 5]]),
        (View::Roll { shifts: vec![3, 1] }, vec![vec![5, 6]]),
    ];
    for (v, shapes) in &views {
        for dtype in [DType::F64, DType::F32, DType::BF16, DType::Bool] {
            view_cases(&mut cases, &mut rng, v, shapes, dtype, 4);
        }
    }
    cases.run();
}

#[test]
fn transposes_go_through_squares() {
    let mut rng = Rng::new(37);
    let mut cases = Cases::default();
    for dtype in [DType::F64, DType::BF16, DType::U8] {
        view_cases(&mut cases, &mut rng, &View::Permute { axes: vec![1, 0] }, &[vec![67, 41]], dtype, 3);
    }
    assert!(cases.programs().any(|(_, p)| format!("{p:?}").contains("map_turned")));
    cases.run();
}

/// Elements of one and two bytes go two at a time where there are enough of them, in words where memory allows it; a map of
/// what is turned and what is not goes the same way.
#[test]
fn short_elements_go_through_larger_squares() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(13));
    for dtype in [DType::BF16, DType::U8] {
        for shape in [vec![70, 66], vec![64, 3, 130], vec![2, 34, 5, 37], vec![35, 40], vec![3, 200, 36]] {
            let axes: Vec<usize> = (0..shape.len()).collect();
            let last = *axes.last().expect("some axes");
            for order in [[&[last], &axes[..last]].concat(), [&axes[1..], &[0]].concat()] {
                view_cases(
                    &mut cases,
                    &mut rng,
                    &View::Permute { axes: order },
                    std::slice::from_ref(&shape),
                    dtype,
                    3,
                );
            }
        }
        let mut join = Expr::new();
        let (x, y) = (join.push_operand(0, dtype), join.push_operand(1, dtype));
        join.binary(Binary::Add, x, y).expect("one type");
        for [m, n] in [[80, 98], [66, 33]] {
            let labels = vec![Label::new("m", m), Label::new("n", n)];
            let accesses = vec![Access::labels(&[1, 0]), Access::labels(&[0, 1])];
            let e = Einsum { labels, rank: 2, accesses, join: join.clone(), monoid: Monoid::Sum, dtype };
            let tensors = [rng.dense(dtype, &[n, m], true), rng.dense(dtype, &[m, n], true)];
            let op = Op::Einsum(e.clone());
            for labels in [e.space(), rng.part(&e.space())] {
                let (row, expected) = kernel_row(&mut rng, &op, &tensors, &labels, &Form::finished(dtype, 2), true);
                row.check(&mut cases, &format!("{dtype} {m} {n} over {labels}"), expected, true);
            }
        }
    }
    let text = |p: &Program| format!("{p:?}");
    assert!(cases.programs().any(|(_, p)| text(p).contains("turned0[64][65]") && text(p).contains("ein_load<4>(w")));
    assert!(cases.programs().any(|(_, p)| text(p).contains("turned0[32][33]")));
    cases.run();
}

#[test]
fn bits_are_copied_as_they_are() {
    // A signalling not-a-number of f16 and bf16 that arithmetic would quieten.
    let mut cases = Cases::default();
    for dtype in [DType::BF16, DType::F16] {
        let region = Region::of(&[(0, 3), (0, 5)]);
        let bits: Vec<u8> = (0..15).flat_map(|n| [n, if n == 7 { 0xff } else { 0x7f }]).collect();
        let data = Dense::from_le_bytes(&TensorType::new(dtype, vec![3, 5]), &bits).expect("30 bytes");
        let part = Region::of(&[(1, 3), (1, 4)]);
        let expected = data.cut(&region, &part).to_le_bytes();
        let form = Form::finished(dtype, 2);
        let value = Value { region: part, form: form.clone() };
        let row = Row::new(vec![], Verb::Cut, &[(region, form, vec![data])], value);
        let program =
            generate::program(&row.graph, row.id(), &generate::Orders::default(), &ein_cuda::program::Target::A100)
                .expect("a cut");
        cases.add(format!("{dtype}"), program, vec![0; 16], row.reads, move |what, left, _| {
            assert_eq!(left[..12], expected, "{what}");
        });
    }
    cases.run();
}

/// A value of several fields, with numbers that tell them apart.
fn value(rng: &mut Rng, region: &Region, form: &Form) -> Values {
    let field = |f: &ein_ir::monoid::Field| rng.dense(f.dtype, &region.project(&f.axes).shape(), true);
    let fields = form.fields.iter().map(field).collect();
    (region.clone(), form.clone(), fields)
}

fn cut(value: &Values, region: &Region) -> Values {
    let field = |(f, d): (&ein_ir::monoid::Field, &Dense)| d.cut(&value.0.project(&f.axes), &region.project(&f.axes));
    let fields = value.1.fields.iter().zip(&value.2).map(field).collect();
    (region.clone(), value.1.clone(), fields)
}

fn forms() -> Vec<Form> {
    vec![
        Form::finished(DType::F32, 3),
        Form::finished(DType::BF16, 3),
        Form::finished(DType::Bool, 3),
        Monoid::Attend.pending(DType::BF16, 3, false),
        Monoid::Moments.pending(DType::F64, 3, false),
    ]
}

#[test]
fn cuts_and_pastes_of_all_forms() {
    let mut rng = Rng::new(41);
    let mut cases = Cases::default();
    for form in forms() {
        for _ in 0..6 {
            let region = Region::of(&[(2, 9), (1, 6), (0, 16)]);
            let all = value(&mut rng, &region, &form);
            // The last axis stays whole: some fields lack it.
            let mut part = rng.part(&region);
            part.0[2] = region.0[2];
            let expected = cut(&all, &part);
            let own = Value { region: part.clone(), form: form.clone() };
            Row::new(vec![], Verb::Cut, std::slice::from_ref(&all), own).check(
                &mut cases,
                &format!("cut {part}"),
                expected.2,
                true,
            );
            let at = rng.between(1, 4) + 2;
            let (low, high) = region.split(0, at);
            let (left, right) = high.split(1, 3);
            let pieces: Vec<Values> = [right, low, left].iter().map(|r| cut(&all, r)).collect();
            let own = Value { region: region.clone(), form: form.clone() };
            Row::new(vec![], Verb::Paste, &pieces, own).check(
                &mut cases,
                &format!("paste at {at}"),
                all.2.clone(),
                true,
            );
        }
    }
    cases.run();
}

#[test]
fn what_was_received_within_a_paste_stays() {
    let mut rng = Rng::new(43);
    let mut cases = Cases::default();
    let (region, form) = (Region::of(&[(0, 4), (0, 6)]), Form::finished(DType::F32, 2));
    let all = value(&mut rng, &region, &form);
    let (low, high) = region.split(1, 2);
    let pieces = [cut(&all, &low), cut(&all, &high)];
    let mut row = Row::new(vec![], Verb::Paste, &pieces, Value { region: region.clone(), form: form.clone() });
    row.graph.tasks[0].verb = Verb::Receive { from: DeviceId(1) };
    row.graph.tasks[0].within = Some(region.clone());
    // The first piece is there, where it belongs; its own read is of no interest.
    let mut own = vec![Dense::zeros(&all.2[0].ty())];
    let mut values = own[0].to_f64();
    for (n, v) in all.2[0].to_f64().into_iter().enumerate().filter(|(n, _)| n % 6 < 2) {
        values[n] = v;
    }
    own[0] = Dense::from_f64(DType::F32, [4, 6], &values);
    let program =
        generate::program(&row.graph, row.id(), &generate::Orders::default(), &ein_cuda::program::Target::A100)
            .expect("a paste");
    let own = stored(&own, &form, &region);
    cases.add("within", program, own, row.reads, move |what, left, _| {
        assert_near(what, &fields(left, &form, &region), &all.2, true);
    });
    cases.run();
}

#[test]
fn moves_into_memory_of_their_own_and_of_a_paste() {
    let mut rng = Rng::new(47);
    let mut cases = Cases::default();
    for form in forms() {
        for within in [false, true] {
            let region = Region::of(&[(2, 9), (1, 6), (0, 16)]);
            let all = value(&mut rng, &region, &form);
            let mut part = rng.part(&region);
            part.0[2] = region.0[2];
            let sent = cut(&all, &part);
            let verb = Verb::Receive { from: DeviceId(1) };
            let mut row = Row::new(vec![], verb, &[all], Value { region: part.clone(), form: form.clone() });
            let around = rng.around(&part, &Region::of(&[(0, 12), (0, 8), (0, 16)]));
            let last = row.graph.tasks.len() - 1;
            row.graph.tasks[last].within = within.then(|| around.clone());
            let stored_as = row.graph.tasks[last].stored().clone();
            let program = generate::moved(&row.graph.tasks[0], &row.graph.tasks[last]).expect("a move");
            let own = vec![0xff; form.layout(&stored_as).1];
            let form = form.clone();
            cases.add(format!("{part} within {stored_as}"), program, own, row.reads, move |what, left, _| {
                let whole: Values = (stored_as.clone(), form.clone(), fields(left, &form, &stored_as));
                assert_near(what, &cut(&whole, &part).2, &sent.2, true);
            });
        }
    }
    cases.run();
}

#[test]
fn whole_values_are_one_copy() {
    let (region, form) = (Region::of(&[(3, 8), (0, 64)]), Monoid::Attend.pending(DType::BF16, 2, false));
    let all = value(&mut Rng::new(1), &region, &form);
    let row = Row::new(vec![], Verb::Cut, &[all], Value { region, form });
    let program = generate::moved(&row.graph.tasks[0], &row.graph.tasks[1]).expect("a move");
    assert!(matches!(program.steps.as_slice(), [Step::Copy { .. }]), "{program:?}");
}

/// Partials such as blocks leave: counts positive, sums of weights positive, entries sorted, now and then an identity.
fn partial(rng: &mut Rng, monoid: Monoid, form: &Form, region: &Region, part: usize) -> Vec<Dense> {
    if rng.below(4) == 0 {
        return reference::empty(monoid, form, region);
    }
    let mut fields: Vec<Dense> = Vec::new();
    for f in &form.fields {
        let shape = region.project(&f.axes).shape();
        let n: usize = shape.iter().product();
        let value = |rng: &mut Rng| match f.name {
            "count" => 1.0 + rng.below(4) as f64,
            "sum" | "m2" => 0.5 + rng.below(4) as f64,
            _ => rng.below(7) as f64 - 3.0,
        };
        let values: Vec<f64> = (0..n).map(|_| value(rng)).collect();
        fields.push(Dense::from_f64(f.dtype, shape, &values));
    }
    if let Monoid::Top(top) = monoid {
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for row in fields[0].to_f64().chunks(top.k) {
            let mut entries: Vec<(ein_ir::scalar::Scalar, i64)> = Vec::new();
            for (n, &v) in row.iter().enumerate() {
                let index = if rng.below(5) == 0 { Top::NOTHING } else { (part * 100 + n) as i64 };
                entries.push((ein_ir::scalar::Scalar::F(if rng.below(9) == 0 { f64::NAN } else { v }), index));
            }
            entries.sort_by(|a, b| top.order(*a, *b));
            values.extend(entries.iter().map(|e| e.0.to_f64()));
            indices.extend(entries.iter().map(|e| e.1));
        }
        fields[0] = Dense::from_f64(top.of, fields[0].shape.clone(), &values);
        fields[1] = Dense::i64(fields[1].shape.clone(), indices);
    }
    fields
}

#[test]
fn folds_of_every_monoid_and_type() {
    let mut rng = Rng::new(21);
    let mut cases = Cases::default();
    let top = |largest, indices| Monoid::Top(Top { k: 3, largest, indices, of: DType::BF16 });
    let tops = [top(true, false), top(true, true), top(false, false), top(false, true)];
    for monoid in Monoid::ALL.into_iter().chain(tops) {
        for dtype in DType::ALL {
            let statistic = matches!(monoid, Monoid::Moments | Monoid::SoftMax | Monoid::Attend);
            if let Monoid::Top(top) = monoid
                && dtype != if top.indices { DType::I64 } else { top.of }
            {
                continue;
            }
            if statistic && !dtype.is_float() {
                continue;
            }
            for (count, wide, finish) in
                [(1, false, true), (2, true, true), (3, false, false), (5, true, false), (8, false, true)]
            {
                let last = if count == 5 { (0, 7) } else { (8, 24) };
                let mut region = Region::of(&[(3, 7), (2, 5), last]);
                if let Some(n) = monoid.stacked() {
                    region.0.push(Interval::new(0, n));
                }
                let rank = region.rank();
                let pending = monoid.pending(dtype, rank, wide);
                let form = if finish { Form::finished(dtype, rank) } else { pending.clone() };
                let mut parts: Vec<Vec<Dense>> =
                    (0..count).map(|n| partial(&mut rng, monoid, &pending, &region, n)).collect();
                if monoid == Monoid::Once {
                    // One of the partials holds everything.
                    for part in &mut parts[1..] {
                        part[0] = Dense::zeros(&part[0].ty());
                    }
                    parts.reverse();
                }
                let combined = reference::combine(monoid, &parts, &pending);
                let expected = if finish { vec![reference::finish(monoid, combined, dtype)] } else { combined };
                let reads: Vec<Values> = parts.into_iter().map(|p| (region.clone(), pending.clone(), p)).collect();
                let value = Value { region: region.clone(), form };
                let row = Row::new(vec![], Verb::Fold { monoid, finish }, &reads, value);
                let what = format!("{} {dtype} of {count}, wide {wide}, finish {finish}", monoid.name());
                row.check(&mut cases, &what, expected, !statistic);
            }
        }
    }
    assert!(cases.programs().all(|(_, p)| p.steps.len() == 1), "a fold is one kernel");
    cases.run();
}

#[test]
fn sixteen_bits_are_rounded_once() {
    // 256 + 1 + 1 is 258 in f32 and then in bf16; rounded after each step it would stay 256.
    let mut cases = Cases::default();
    let (region, form) = (Region::of(&[(0, 1)]), Form::finished(DType::BF16, 1));
    let one = |v: f64| (region.clone(), form.clone(), vec![Dense::from_f64(DType::BF16, [1], &[v])]);
    let reads = [one(256.0), one(1.0), one(1.0)];
    let value = Value { region: region.clone(), form: form.clone() };
    let row = Row::new(vec![], Verb::Fold { monoid: Monoid::Sum, finish: true }, &reads, value);
    row.check(&mut cases, "sum", vec![Dense::from_f64(DType::BF16, [1], &[258.0])], true);
    cases.run();
}
