//! Limits of the library of products, of copy engines and of memory, kept on data alone: nothing here is computed.

#[path = "../../ein-run/tests/common/mod.rs"]
mod common;

use common::Build;
use ein_cuda::generate;
use ein_cuda::nodes::{Nodes, Site, Sites, Staging, WORKSPACE, Work};
use ein_cuda::program::{Base, Epilogue, Matmul, Program, Step, Target};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::graph::TensorType;
use ein_ir::monoid::{Form, Monoid};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::Region;
use ein_task::machine::DeviceId;
use ein_task::task::{Source, Stage, Verb};

/// The program of a whole product of two tensors.
fn product(spec: &str, shapes: [&[usize]; 2], dtype: DType) -> Program {
    let e = Einsum::contraction(spec, &shapes, dtype).expect("well formed");
    let (types, space) = (shapes.map(|s| TensorType::new(dtype, s)), e.space());
    let mut b = Build::new(1);
    let op = b.op("y", Op::Einsum(e.clone()), &types, TensorType::new(dtype, e.shape()));
    let feeds = ["a", "b"].iter().zip(shapes).map(|(name, shape)| {
        let external = b.external(name, InputKind::Input, dtype, shape);
        b.feed(0, external, Region::whole(shape))
    });
    let feeds: Vec<_> = feeds.collect();
    let row = b.kernel(0, op, space, true, &feeds);
    generate::program(&b.finish(), row, &generate::Orders::default(), &Target::A100)
        .unwrap_or_else(|e| panic!("{spec}: {e}"))
}

fn matmuls(program: &Program) -> Vec<&Matmul> {
    program.steps.iter().filter_map(|s| if let Step::Matmul(m) = s { Some(m) } else { None }).collect()
}

/// Columns `columns` of a product of 64 columns and more, to which a vector that is there as a whole is added.
fn biased(columns: (usize, usize), dtype: DType) -> Program {
    let product = Einsum::contraction("ik,kj->ij", &[&[64, 64], &[64, 65]], dtype).expect("well formed");
    let mut join = Expr::new();
    let (y, v) = (join.push_operand(0, dtype), join.push_operand(1, dtype));
    join.binary(Binary::Add, y, v).expect("one type");
    let labels = vec![Label::new("i", 64), Label::new("j", 65)];
    let accesses = vec![Access::labels(&[0, 1]), Access::labels(&[1])];
    let sum = Einsum { labels, rank: 2, accesses, join, monoid: Monoid::Sum, dtype };
    let ty = |shape: &[usize]| TensorType::new(dtype, shape);
    let mut b = Build::new(1);
    b.op("y", Op::Einsum(product), &[ty(&[64, 64]), ty(&[64, 65])], ty(&[64, 65]));
    b.op("z", Op::Einsum(sum), &[ty(&[64, 65]), ty(&[65])], ty(&[64, 65]));
    let feeds = [("x", vec![64, 64]), ("w", vec![64, 65]), ("b", vec![65])].map(|(name, shape)| {
        let external = b.external(name, InputKind::Input, dtype, &shape);
        b.feed(0, external, Region::whole(&shape))
    });
    let block = Region::of(&[(0, 64), columns]);
    let of_product = Region::of(&[(0, 64), columns, (0, 64)]);
    let read = |n| Some(Source::Read(n));
    let stages = vec![
        Stage { op: 0, labels: of_product, finish: true, operands: vec![read(0), read(1)] },
        Stage { op: 1, labels: block.clone(), finish: true, operands: vec![Some(Source::Previous), read(2)] },
    ];
    let row = b.push(0, Verb::Fused { stages }, &feeds, block, Form::finished(dtype, 2));
    generate::program(&b.finish(), row, &generate::Orders::default(), &Target::A100)
        .unwrap_or_else(|e| panic!("{columns:?}: {e}"))
}

#[test]
fn vectors_that_the_library_adds_are_aligned() {
    for (columns, dtype, offset) in [
        ((0, 22), DType::BF16, Some(0)),
        ((22, 44), DType::BF16, None),
        ((44, 65), DType::BF16, None),
        ((24, 44), DType::BF16, Some(48)),
        ((24, 44), DType::F32, Some(96)),
        ((22, 44), DType::F32, None),
        ((0, 22), DType::F64, None),
    ] {
        let program = biased(columns, dtype);
        let [call] = matmuls(&program)[..] else { panic!("{program:?}") };
        let expected = Epilogue { bias: offset.map(|offset| Base::Read(2).at(offset)), ..Epilogue::NONE };
        assert_eq!(call.epilogue, expected, "{columns:?} {dtype}");
        // What the library does not add, one more kernel does.
        assert_eq!(program.steps.len(), if offset.is_some() { 1 } else { 2 }, "{columns:?} {dtype}");
    }
}

#[test]
fn large_batches_are_several_calls() {
    for (batch, counts) in [(32_768, &[32_768][..]), (32_769, &[32_768, 1]), (70_000, &[32_768, 32_768, 4464])] {
        let program = product("bmk,bkn->bmn", [&[batch, 16, 32], &[batch, 32, 17]], DType::BF16);
        let calls = matmuls(&program);
        assert_eq!(calls.iter().map(|m| m.batch).collect::<Vec<_>>(), counts);
        for (n, call) in calls.iter().enumerate() {
            let at = [call.a, call.b, call.c].map(|m| m.place);
            let first = n as u64 * 32_768 * 2;
            let expected =
                [Base::Read(0).at(first * 16 * 32), Base::Read(1).at(first * 32 * 17), Base::Own.at(first * 16 * 17)];
            assert_eq!(at, expected, "call {n} of {batch}");
        }
    }
}

#[test]
fn extents_and_strides_fit_in_32_bits() {
    let most = (1 << 31) - 1;
    for (shapes, library) in [
        ([&[most, 16][..], &[16, 17]], true),
        ([&[most + 1, 16], &[16, 17]], false),
        ([&[17, 16], &[16, most]], true),
        ([&[17, 16], &[16, most + 1]], false),
        ([&[17, most + 1], &[most + 1, 16]], false),
    ] {
        let program = product("mk,kn->mn", shapes, DType::F32);
        assert_eq!(!matmuls(&program).is_empty(), library, "{shapes:?}");
        assert!(!program.steps.is_empty(), "{shapes:?}");
    }
}

/// What plans do not know of is bounded.
#[test]
fn factors_that_are_too_large_are_not_copied() {
    for (extent, library) in [(30_000, true), (40_000, false)] {
        let program = product("hsd,nhd->sn", [&[32, extent, 64], &[extent, 32, 64]], DType::F32);
        assert_eq!(!matmuls(&program).is_empty(), library, "{extent}");
        assert!(program.scratch <= 256 << 20, "{extent}: {} bytes", program.scratch);
    }
}

fn sites(devices: usize) -> Sites {
    let site = |gpu| Site { gpu, host: false, target: Target::A100 };
    Sites {
        devices: (0..devices).map(site).collect(),
        reach: vec![vec![true; devices]; devices],
        staging: Staging::Host,
        workspace: WORKSPACE,
    }
}

/// One lane is as large as the row that needs most, the other as the next; rows that share bytes follow one another.
#[test]
fn lanes_are_as_large_as_what_uses_them() {
    for (needs, expected) in [
        (&[0, 0][..], 0),
        (&[1000], 1024),
        (&[0, 1000, 0], 1024),
        (&[3000, 3000], 6144),
        (&[1000, 3000, 100, 2000, 2000, 3000, 5], 6144),
        (&[1, 2, 3, 4, 5, 5000, 6, 600], 5120 + 768),
    ] {
        let mut b = Build::new(1);
        let x = b.external("x", InputKind::Parameter, DType::F32, &[4]);
        let feed = b.feed(0, x, Region::whole(&[4]));
        let rows: Vec<_> = needs.iter().map(|_| b.cut(feed, Region::of(&[(1, 3)]))).collect();
        let tasks = b.finish();
        let need = |row| needs[rows.iter().position(|r| *r == row).expect("a cut")];
        let nodes = Nodes::new(&tasks, &sites(1), &|_, row, _| {
            let bytes = need(row);
            Ok(Program { steps: vec![Step::Zero { at: Base::Scratch.at(0), bytes }], scratch: bytes })
        })
        .unwrap_or_else(|e| panic!("{e}"));
        let begin = tasks.arenas[0].0.next_multiple_of(256);
        assert_eq!(nodes.devices[0] - begin, expected, "{needs:?}");
        let mut used: Vec<(usize, u64, u64)> = Vec::new();
        for (n, node) in nodes.all.iter().enumerate() {
            let Work::Zero { at, bytes } = node.work else { panic!("{node:?}") };
            assert!(at.offset >= begin && at.offset + bytes <= nodes.devices[0], "{needs:?}: {node:?}");
            let mut before = vec![false; n];
            for m in (0..n).rev() {
                before[m] = node.after.contains(&m) || (m..n).any(|k| before[k] && nodes.all[k].after.contains(&m));
            }
            for &(m, offset, length) in &used {
                let apart = bytes == 0 || length == 0 || at.offset >= offset + length || offset >= at.offset + bytes;
                assert!(apart || before[m], "{needs:?}: {n} and {m}");
            }
            used.push((n, at.offset, bytes));
        }
    }
}

/// From rows to columns of a matrix whose rows are longer than a pitch may be.
#[test]
fn moves_of_lines_far_apart_are_of_single_lines() {
    const COLUMNS: usize = 4_000_000_000;
    let cuts = [0, COLUMNS / 3, 2 * COLUMNS / 3, COLUMNS];
    let mut b = Build::new(3);
    let x = b.external("x", InputKind::Parameter, DType::U8, &[6, COLUMNS]);
    let feeds: Vec<_> = (0..3).map(|n| b.feed(n as u16, x, Region::of(&[(2 * n, 2 * n + 2), (0, COLUMNS)]))).collect();
    let mut received = Vec::new();
    for (from, &feed) in feeds.iter().enumerate() {
        for to in (0..3).filter(|to| *to != from) {
            let region = Region::of(&[(2 * from, 2 * from + 2), (cuts[to], cuts[to + 1])]);
            let send = Verb::Send { to: DeviceId(to as u16) };
            let send = b.push(from as u16, send, &[feed], region.clone(), Form { fields: Vec::new() });
            let receive = Verb::Receive { from: DeviceId(from as u16) };
            received.push(b.push(to as u16, receive, &[send], region, Form::finished(DType::U8, 2)));
        }
    }
    let tasks = b.finish();
    for reach in [true, false] {
        let mut sites = sites(3);
        sites.reach = (0..3).map(|a| (0..3).map(|b| a == b || reach).collect()).collect();
        let nodes = Nodes::new(&tasks, &sites, &|_, _, _| Ok(Program::default())).unwrap_or_else(|e| panic!("{e}"));
        for &row in &received {
            let lines = nodes.all.iter().filter(|n| n.row == Some(row)).map(|n| match &n.work {
                Work::Copy { lines, .. } => *lines,
                other => panic!("{other:?}"),
            });
            let lines: Vec<_> = lines.collect();
            assert!(lines.iter().all(|l| l.lines * l.layers == 1), "{lines:?}");
            let bytes = tasks.task(row).value.region.volume() as u64;
            assert_eq!(
                lines.iter().map(ein_cuda::copies::Lines::bytes).sum::<u64>(),
                if reach { bytes } else { 2 * bytes }
            );
        }
    }
}
