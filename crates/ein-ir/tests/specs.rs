//! Join-agg specs: what a block reads, how much it works, what a cut means.

mod common;

use common::{Rng, points};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::kernel::{Attention, Gather, Kernel};
use ein_ir::monoid::Monoid;
use ein_ir::op::Op;
use ein_ir::region::{Interval, Region};
use ein_ir::spec::Role;

fn attention(queries: usize, keys: usize, causal: bool) -> Attention {
    Attention {
        batch: 2,
        heads: 6,
        kv_heads: 2,
        queries,
        keys,
        dim: 2,
        value_dim: 3,
        causal,
        window: None,
        softcap: None,
        packed: None,
        own: false,
        mask: Some(vec![1, 6, 1, keys]),
        scale: 1.0_f64.to_bits(),
        dtype: DType::F32,
    }
}

/// Points and key regions of causal blocks against counting them.
#[test]
fn causal_blocks_are_counted() {
    for seed in 0..600 {
        let mut rng = Rng(seed);
        let window = rng.chance(2).then(|| rng.range(1, 5));
        let a = Attention { window, ..attention(rng.range(1, 8), rng.range(1, 8), true) };
        let last = |q: usize| (q + a.keys) as i64 - a.queries as i64;
        let near = |q: usize, k: i64| window.is_none_or(|w| k > last(q) - w as i64);
        let visible = |q: usize, k: usize| (k as i64) <= last(q) && near(q, k as i64);
        let spec = Op::Kernel(Kernel::Attention(a.clone())).spec(&[DType::F32; 4]).expect("a spec");
        let mut block = rng.inside(&spec.space());
        if rng.chance(8) {
            block.0[4] = Interval::new(1, 1);
        }
        let (s, t) = (block.0[2], block.0[4]);
        let pairs: Vec<(usize, usize)> =
            (s.lo..s.hi).flat_map(|q| (t.lo..t.hi).map(move |k| (q, k))).filter(|&(q, k)| visible(q, k)).collect();
        let expected = (block.0[0].len() * block.0[1].len() * pairs.len()) as f64;
        assert_eq!(spec.points(&block), expected, "seed {seed}: {a:?} over {block}");
        assert_eq!(spec.operations(&block), expected * 10.0);
        // The keys of the region are exactly those that some query of the block sees.
        let keys = spec.operand_region(1, &block).0[2];
        let seen = |k: usize| pairs.iter().any(|p| p.1 == k);
        assert_eq!((t.lo..t.hi).filter(|&k| seen(k)).count(), keys.len(), "seed {seed}: {a:?} over {block}");
        assert!((keys.lo..keys.hi).all(seen));
        let heads = spec.operand_region(2, &block).0[1];
        let (lo, hi) = (block.0[1].lo / 3, (block.0[1].hi - 1) / 3 + 1);
        assert_eq!(heads, Interval::new(lo, hi), "query heads follow their key/value head");
        let mask = spec.operand_region(3, &block);
        assert_eq!((mask.0[0], mask.0[1], mask.0[2]), (Interval::new(0, 1), block.0[1], Interval::new(0, 1)));
        assert_eq!(mask.0[3], keys);
    }
}

/// The operand region of an affine access is the bounding box of what is read.
#[test]
fn affine_regions_bound_what_is_read() {
    for seed in 0..600 {
        let mut rng = Rng(seed);
        let labels: Vec<Label> = (0..3).map(|n| Label::new(format!("l{n}"), rng.range(1, 5))).collect();
        let mut terms = Vec::new();
        for l in 0..3 {
            if rng.chance(2) {
                terms.push((l, *rng.pick(&[1, 2, 3, -1, -2])));
            }
        }
        let lowest: i64 = terms.iter().map(|&(l, s): &(usize, i64)| (s * (labels[l].extent as i64 - 1)).min(0)).sum();
        let access = Access { axes: vec![Affine { terms, offset: rng.range(0, 2) as i64 - lowest }] };
        let e = Einsum {
            labels,
            rank: 2,
            accesses: vec![access],
            join: Expr::operand(DType::F32),
            monoid: Monoid::Sum,
            dtype: DType::F32,
        };
        let spec = Op::Einsum(e.clone()).spec(&[DType::F32]).expect("a spec");
        let block = rng.inside(&spec.space());
        let read: Vec<i64> = points(&block).iter().map(|p| e.accesses[0].axes[0].at(p)).collect();
        let bound = spec.operand_region(0, &block).0[0];
        let expected = (*read.iter().min().expect("a point"), *read.iter().max().expect("a point") + 1);
        assert_eq!((bound.lo as i64, bound.hi as i64), expected, "seed {seed}: {:?} over {block}", e.accesses);
        assert_eq!(spec.result_region(&block), Region(block.0[..2].to_vec()));
    }
}

/// Roles of labels that share an axis.
#[test]
fn windows() {
    let check = |terms: &[(i64, usize)], expected: Role| {
        let labels: Vec<Label> = terms.iter().enumerate().map(|(n, t)| Label::new(format!("l{n}"), t.1)).collect();
        let axis = Affine { terms: terms.iter().enumerate().map(|(n, t)| (n, t.0)).collect(), offset: 0 };
        let e = Einsum {
            rank: labels.len(),
            labels,
            accesses: vec![Access { axes: vec![axis] }],
            join: Expr::operand(DType::F32),
            monoid: Monoid::Sum,
            dtype: DType::F32,
        };
        let spec = Op::Einsum(e).spec(&[DType::F32]).expect("a spec");
        assert!(spec.labels.iter().all(|l| l.role == expected), "{terms:?}: {:?}", spec.labels);
    };
    check(&[(1, 8)], Role::Free);
    check(&[(1, 8), (1, 3)], Role::Window);
    check(&[(2, 8), (1, 3)], Role::Window);
    check(&[(2, 8), (1, 2)], Role::Free);
    check(&[(64, 4), (1, 64)], Role::Free);
    check(&[(63, 4), (1, 64)], Role::Window);
    check(&[(32, 2), (8, 4), (1, 8)], Role::Free);
    check(&[(1, 5), (4, 1)], Role::Free);
    check(&[(1, 8), (-1, 3)], Role::Window);
}

/// What counts as a contraction, which the balance rule is about.
#[test]
fn contractions() {
    let shapes: [&[usize]; 2] = [&[3, 4], &[4, 5]];
    let product = Einsum::contraction("ij,jk->ik", &shapes, DType::F32).expect("well formed");
    let check = |e: Einsum, contraction: bool, per_point: usize, roles: &[Role]| {
        let spec = Op::Einsum(e.clone()).spec(&[DType::F32; 2]).expect("a spec");
        assert_eq!(spec.work.contraction, contraction, "{e:?}");
        assert_eq!(spec.work.operations_per_point, per_point, "{e:?}");
        assert_eq!(spec.labels.iter().map(|l| l.role).collect::<Vec<_>>(), roles);
    };
    check(product.clone(), true, 2, &[Role::Free, Role::Free, Role::Fold]);
    check(Einsum { monoid: Monoid::Max, ..product.clone() }, false, 2, &[Role::Free, Role::Free, Role::Fold]);
    // Distances are no products.
    let mut join = Expr::new();
    let (x, y) = (join.push_operand(0, DType::F32), join.push_operand(1, DType::F32));
    let apart = join.binary(Binary::Sub, x, y).expect("floats");
    join.binary(Binary::Mul, apart, apart).expect("floats");
    check(Einsum { join, ..product.clone() }, false, 3, &[Role::Free, Role::Free, Role::Fold]);
    let whole: [&[usize]; 2] = [&[3], &[4]];
    let outer = Einsum::contraction("i,j->ij", &whole, DType::F32).expect("well formed");
    check(outer, false, 1, &[Role::Free, Role::Free]);
}

/// A table is read by index: a block is not charged for the rows it does not read.
#[test]
fn gather_counts_rows_read() {
    let g = Gather::rows(1000, 8, &[3], DType::F32);
    let spec = Op::Kernel(Kernel::Gather(g)).spec(&[DType::F32, DType::I64]).expect("a spec");
    let whole = spec.space();
    assert_eq!(spec.bytes(&whole), (3 * 8 * 4 + 3 * 8 * 4 + 3 * 8) as f64);
    assert_eq!(spec.operations(&whole), 24.0);
    assert_eq!(spec.labels.iter().map(|l| l.role).collect::<Vec<_>>(), [Role::Free, Role::Free, Role::Fold]);
    let half = Region::of(&[(0, 3), (0, 8), (0, 500)]);
    assert_eq!(spec.operand_region(0, &half), Region::of(&[(0, 500), (0, 8)]));
    assert!(!spec.is_complete(&half) && spec.is_complete(&whole));
}
