//! Blocks of gathers, scatters, scans and sorts, executed on the host, against the dense reference.

mod support;

use ein_cuda::generate;
use ein_cuda::program::{FaultCode, Target};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::kernel::{
    Gather, GatherAlong, Kernel, LastState, Recurrence, Scan, ScanFunction, Scatter, ScatterAlong, TopK,
};
use ein_ir::monoid::{Form, Monoid, Top};
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use support::{Cases, Rng, kernel_row};

/// Adds the whole operation, and some of its blocks, finished and pending.
fn add(cases: &mut Cases, rng: &mut Rng, what: &str, kernel: &Kernel, tensors: &[Dense], exact: bool) {
    let op = Op::Kernel(kernel.clone());
    let dtypes: Vec<DType> = tensors.iter().map(Dense::dtype).collect();
    let spec = op.spec(&dtypes).expect("it computes");
    let rank = kernel.signature().result.shape.len();
    let dtype = kernel.signature().result.dtype;
    let mut regions = vec![spec.space()];
    if !spec.space().is_empty() {
        regions.extend((0..2).map(|_| part(rng, &spec)));
    }
    for labels in regions {
        let mut forms = vec![(Form::finished(dtype, rank), true)];
        // A scan is whole along its axis, so that nothing of it is ever pending.
        if !matches!(kernel, Kernel::Scan(_) | Kernel::Recurrence(_)) {
            forms.extend([false, true].map(|wide| (spec.monoid.pending(dtype, rank, wide), false)));
        }
        for (form, finish) in forms {
            // A block of fewer elements than are asked for is never finished.
            let short = |top: Top| labels.0[spec.rank].len() < top.k;
            if finish && matches!(spec.monoid, Monoid::Top(top) if short(top)) {
                continue;
            }
            let (row, expected) = kernel_row(rng, &op, tensors, &labels, &form, finish);
            let how = if finish { "finished" } else { "pending" };
            row.check(cases, &format!("{what} over {labels}, {how}"), expected, exact);
        }
    }
}

/// A part of the labels, those that are never cut whole.
fn part(rng: &mut Rng, spec: &ein_ir::spec::Spec) -> Region {
    let mut part = rng.part(&spec.space());
    for (n, label) in spec.labels.iter().enumerate().filter(|l| l.1.role == ein_ir::spec::Role::Whole) {
        part.0[n] = Interval::new(0, label.extent);
    }
    part
}

/// Every third of some shapes, others for the next type or function: compiling all of all takes minutes.
fn some<T: Clone>(shapes: &[T], turn: &mut usize) -> Vec<T> {
    *turn += 1;
    shapes.iter().enumerate().filter(|(n, _)| (n + *turn).is_multiple_of(3)).map(|(_, shape)| shape.clone()).collect()
}

/// Ids below `rows`, as either type.
fn ids(rng: &mut Rng, shape: &[usize], rows: usize) -> Dense {
    let dtype = rng.of(&[DType::I64, DType::I32]);
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|_| rng.below(rows.max(1)) as f64).collect();
    Dense::from_f64(dtype, shape, &values)
}

#[test]
fn gathers() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(11));
    for dtype in DType::ALL {
        for (table, axis, shape) in [
            (vec![7, 24], 0, vec![5]),
            (vec![13, 16], 0, vec![2, 3]),
            (vec![3, 5, 4], 1, vec![6]),
            (vec![5], 0, vec![]),
            (vec![4, 3], 1, vec![300]),
            (vec![3, 2, 5], 0, vec![0]),
            (vec![1, 1], 1, vec![1]),
        ] {
            let of = Gather { table: table.clone(), axis, ids: shape.clone(), dtype };
            let tensors = [rng.dense(dtype, &table, false), ids(&mut rng, &shape, table[axis])];
            add(&mut cases, &mut rng, &format!("{dtype} {of:?}"), &Kernel::Gather(of), &tensors, true);
        }
        for (table, axis, shape) in [
            (vec![7, 5], 0, vec![3, 5]),
            (vec![7, 5], 1, vec![7, 11]),
            (vec![2, 3, 4], 1, vec![2, 5, 3]),
            (vec![6], 0, vec![270]),
        ] {
            let of = GatherAlong { table: table.clone(), axis, ids: shape.clone(), dtype };
            let tensors = [rng.dense(dtype, &table, false), ids(&mut rng, &shape, table[axis])];
            add(&mut cases, &mut rng, &format!("{dtype} {of:?}"), &Kernel::GatherAlong(of), &tensors, true);
        }
    }
    cases.run();
}

#[test]
fn scatters() {
    let (mut cases, mut rng, mut turn) = (Cases::default(), Rng::new(12), 0);
    for dtype in DType::ALL {
        for monoid in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
            if dtype == DType::Bool && matches!(monoid, Monoid::Sum | Monoid::Prod) {
                continue;
            }
            let shapes: [(Vec<usize>, usize, usize); 6] = [
                (vec![9, 16], 0, 5),
                (vec![2, 70, 3], 1, 4),
                (vec![5], 0, 3),
                (vec![100, 2], 0, 2),
                (vec![0, 2], 0, 3),
                (vec![3, 4], 1, 40),
            ];
            for (source, axis, rows) in some(&shapes, &mut turn) {
                // Small, so that products are exact.
                let x = rng.dense(dtype, &source, true);
                let of = Scatter { source: source.clone(), axis, rows, monoid, dtype };
                let exact = monoid != Monoid::Prod || !dtype.is_float();
                let tensors = [x.clone(), ids(&mut rng, &source[axis..=axis], rows)];
                add(&mut cases, &mut rng, &format!("{dtype} {of:?}"), &Kernel::Scatter(of), &tensors, exact);
                let of = ScatterAlong { source: source.clone(), axis, rows, monoid, dtype };
                let tensors = [x, ids(&mut rng, &source, rows)];
                add(&mut cases, &mut rng, &format!("{dtype} {of:?}"), &Kernel::ScatterAlong(of), &tensors, exact);
            }
        }
    }
    cases.run();
}

/// Of several wrong ids one is reported, with the row that had it; the right ones are answered.
#[test]
fn wrong_ids_are_reported() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(13));
    let wrong = [-1i64, 7, i64::MAX, i64::MIN];
    for id in wrong {
        let x = rng.dense(DType::F32, &[7, 4], false);
        let given = Dense::i64([3], vec![2, id, 0]);
        let gather = Kernel::Gather(Gather::rows(7, 4, &[3], DType::F32));
        let source = rng.dense(DType::F32, &[3, 4], false);
        let scatter =
            Kernel::Scatter(Scatter { source: vec![3, 4], axis: 0, rows: 7, monoid: Monoid::Sum, dtype: DType::F32 });
        for (kernel, tensors) in [(gather, [x, given.clone()]), (scatter, [source, given])] {
            let form = Form::finished(DType::F32, 2);
            let op = Op::Kernel(kernel);
            let spec = op.spec(&[DType::F32, DType::I64]).expect("it computes");
            // The reference has no report: it is asked with ids that are right.
            let right = [tensors[0].clone(), Dense::i64([3], vec![2, 0, 0])];
            let (mut row, _) = kernel_row(&mut rng, &op, &right, &spec.space(), &form, true);
            // Three ids of 8 bytes: as they are stored.
            row.reads[1] = tensors[1].to_le_bytes();
            let program = generate::program(&row.graph, row.id(), &generate::Orders::default(), &Target::A100)
                .expect("a program");
            let own = vec![0xff; row.graph.task(row.id()).value.bytes().0 as usize];
            let number = u64::from(row.id().0) + 1;
            cases.add(format!("{} of {id}", kernel_name(&op)), program, own, row.reads, move |what, _, fault| {
                assert_eq!((fault.row, fault.code), (number, FaultCode::Id as i64), "{what}");
                assert_eq!((fault.value, fault.limit), (id, 7), "{what}");
            });
        }
    }
    cases.run();
}

fn kernel_name(op: &Op) -> &'static str {
    if let Op::Kernel(kernel) = op { kernel.name() } else { "?" }
}

/// Gathers and scatters that a block has nothing of.
#[test]
fn blocks_of_nothing() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(14));
    for dtype in DType::ALL {
        let gather = Kernel::Gather(Gather::rows(5, 3, &[4], dtype));
        let scatter = |monoid| Kernel::Scatter(Scatter { source: vec![4, 3], axis: 0, rows: 5, monoid, dtype });
        let i = Interval::new;
        for (kernel, shape, labels) in [
            (gather, [5, 3], vec![i(0, 4), i(0, 3), i(2, 2)]),
            (scatter(Monoid::Max), [4, 3], vec![i(0, 5), i(1, 3), i(2, 2)]),
            (scatter(Monoid::Min), [4, 3], vec![i(0, 5), i(1, 3), i(2, 2)]),
        ] {
            let tensors = [rng.dense(dtype, &shape, true), ids(&mut rng, &[4], 4)];
            let op = Op::Kernel(kernel);
            let form = Form::finished(dtype, 2);
            let (row, expected) = kernel_row(&mut rng, &op, &tensors, &Region(labels), &form, false);
            row.check(&mut cases, &format!("{dtype} {}", kernel_name(&op)), expected, true);
        }
    }
    cases.run();
}

const FUNCTIONS: [ScanFunction; 7] = [
    ScanFunction::Sum,
    ScanFunction::Prod,
    ScanFunction::Max,
    ScanFunction::Min,
    ScanFunction::LogSumExp,
    ScanFunction::MaxIndex,
    ScanFunction::MinIndex,
];

#[test]
fn scans() {
    let (mut cases, mut rng, mut turn) = (Cases::default(), Rng::new(15), 0);
    for dtype in DType::ALL {
        for function in FUNCTIONS {
            let shapes: [(Vec<usize>, usize); 8] = [
                (vec![3, 5], 1),
                (vec![2500], 0),
                (vec![33, 40], 0),
                (vec![2, 130, 3], 1),
                (vec![1, 1], 0),
                (vec![0, 3], 0),
                (vec![3, 1100], 1),
                (vec![130, 33], 0),
            ];
            for (shape, axis) in some(&shapes, &mut turn) {
                let of = Scan { shape: shape.clone(), axis, function, dtype };
                let kernel = Kernel::Scan(of.clone());
                if kernel.fault().is_some() {
                    continue;
                }
                let mut x = rng.dense(dtype, &shape, true);
                if function == ScanFunction::Prod && dtype.is_float() {
                    // Neither 0 nor growing.
                    let values: Vec<f64> = x.to_f64().iter().map(|v| if *v < 0.0 { -1.0 } else { 1.0 }).collect();
                    x = Dense::from_f64(dtype, shape.clone(), &values);
                }
                let exact = function != ScanFunction::LogSumExp;
                add(&mut cases, &mut rng, &format!("{of:?}"), &kernel, &[x], exact);
            }
        }
    }
    cases.run();
}

#[test]
fn recurrences() {
    let (mut cases, mut rng, mut turn) = (Cases::default(), Rng::new(25), 0);
    for dtype in DType::ALL {
        for last in [false, true] {
            let shapes: [(Vec<usize>, usize); 9] = [
                (vec![3, 5], 1),
                (vec![2500], 0),
                (vec![33, 40], 0),
                (vec![2, 130, 3], 1),
                (vec![1, 1], 0),
                (vec![0, 3], 0),
                (vec![3, 1100], 1),
                (vec![130, 33], 0),
                (vec![3, 0], 1),
            ];
            for (shape, axis) in some(&shapes, &mut turn) {
                let own = shape.clone();
                let kernel = if last {
                    Kernel::LastState(LastState { shape: own, axis, dtype })
                } else {
                    Kernel::Recurrence(Recurrence { shape: own, axis, dtype })
                };
                if kernel.fault().is_some() {
                    continue;
                }
                // States of moderate size: factors of 1, 0 and, where there is a sign, -1.
                let n: usize = shape.iter().product();
                let one =
                    |rng: &mut Rng| if dtype == DType::U8 { rng.below(2) as f64 } else { rng.below(3) as f64 - 1.0 };
                let factors: Vec<f64> = (0..n).map(|_| one(&mut rng)).collect();
                let a = Dense::from_f64(dtype, shape.clone(), &factors);
                let b = rng.dense(dtype, &shape, true);
                add(&mut cases, &mut rng, &format!("{kernel:?}"), &kernel, &[a, b], true);
            }
        }
    }
    // States of 0 stay 0, although the products of factors overflow.
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        for last in [false, true] {
            let (shape, axis) = (vec![2, 2500], 1);
            let a = Dense::from_f64(dtype, shape.clone(), &vec![2.0; 5000]);
            let b = Dense::from_f64(dtype, shape.clone(), &vec![0.0; 5000]);
            let kernel = if last {
                Kernel::LastState(LastState { shape, axis, dtype })
            } else {
                Kernel::Recurrence(Recurrence { shape, axis, dtype })
            };
            add(&mut cases, &mut rng, &format!("zeros {kernel:?}"), &kernel, &[a, b], true);
        }
    }
    cases.run();
}

/// What is no number stays; infinities say it all.
#[test]
fn scans_of_special_numbers() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(16));
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        for function in FUNCTIONS {
            for (n, &value) in special.iter().enumerate() {
                let mut values: Vec<f64> = (0..300).map(|i| f64::from(i % 7) - 3.0).collect();
                values[n * 50] = value;
                values[299] = special[(n + 1) % 5];
                let shape = vec![300];
                let x = Dense::from_f64(dtype, shape.clone(), &values);
                let kernel = Kernel::Scan(Scan { shape, axis: 0, function, dtype });
                add(&mut cases, &mut rng, &format!("{function:?} {dtype} of {value}"), &kernel, &[x], false);
            }
        }
    }
    cases.run();
}

#[test]
fn first_elements() {
    let (mut cases, mut rng, mut turn) = (Cases::default(), Rng::new(17), 0);
    for of in DType::ALL {
        for (largest, indices) in [(true, false), (true, true), (false, false), (false, true)] {
            let shapes: [(Vec<usize>, usize); 8] = [
                (vec![3, 7], 2),
                (vec![1000], 5),
                (vec![2, 300], 300),
                (vec![2, 2, 9], 1),
                (vec![5, 1], 1),
                (vec![3, 4], 0),
                (vec![700], 300),
                (vec![0, 4], 2),
            ];
            for (shape, k) in some(&shapes, &mut turn) {
                let top = Top { k, largest, indices, of };
                let kernel = Kernel::TopK(TopK { shape: shape.clone(), top });
                // Many are equal.
                let x = rng.dense(of, &shape, true);
                add(&mut cases, &mut rng, &format!("{top:?} of {shape:?}"), &kernel, &[x], true);
            }
        }
    }
    cases.run();
}

/// More than shared memory holds; rising and falling rows, where everything or nothing is kept.
#[test]
fn long_sorts() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(18));
    for of in [DType::F32, DType::I64] {
        for (n, k) in [(2500, 1100), (5000, 1024), (1500, 1500)] {
            for order in 0..3 {
                let value = |i: usize| match order {
                    0 => i as f64,
                    1 => -(i as f64),
                    _ => (i * 7919 % 101) as f64,
                };
                let values: Vec<f64> = (0..n).map(value).collect();
                let x = Dense::from_f64(of, [n], &values);
                let top = Top { k, largest: true, indices: true, of };
                let kernel = Kernel::TopK(TopK { shape: vec![n], top });
                add(&mut cases, &mut rng, &format!("{k} of {n}, order {order}"), &kernel, &[x], true);
            }
        }
    }
    cases.run();
}

/// NaN is larger than anything, the two zeros are equal, of equal elements the first comes first.
#[test]
fn sorts_of_special_numbers() {
    let (mut cases, mut rng) = (Cases::default(), Rng::new(19));
    let values = [0.0, -0.0, f64::NAN, 1.0, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::NAN, 0.0, -1.0, 1.0];
    for of in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        for (largest, indices) in [(true, false), (true, true), (false, false), (false, true)] {
            let top = Top { k: 11, largest, indices, of };
            let x = Dense::from_f64(of, [11], &values);
            let kernel = Kernel::TopK(TopK { shape: vec![11], top });
            add(&mut cases, &mut rng, &format!("{top:?}"), &kernel, &[x], true);
        }
    }
    for of in [DType::I64, DType::I32] {
        let ends = [i64::MAX, i64::MIN, 0, i64::from(i32::MAX), i64::from(i32::MIN)];
        let x = match of {
            DType::I64 => Dense::i64([5], ends.to_vec()),
            _ => Dense::from_f64(of, [5], &[2147483647.0, -2147483648.0, 0.0, 1.0, -1.0]),
        };
        for largest in [true, false] {
            let top = Top { k: 5, largest, indices: true, of };
            let kernel = Kernel::TopK(TopK { shape: vec![5], top });
            add(&mut cases, &mut rng, &format!("{top:?}"), &kernel, std::slice::from_ref(&x), true);
        }
    }
    cases.run();
}
