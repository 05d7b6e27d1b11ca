//! Views: what a box reads, and what it becomes.

mod common;

use common::{Rng, iota, points};
use ein_ir::dense::Dense;
use ein_ir::reference;
use ein_ir::region::Region;
use ein_ir::view::View;
use std::collections::BTreeSet;

/// A random view and the shapes of its inputs.
fn random(rng: &mut Rng, kind: usize) -> (View, Vec<Vec<usize>>) {
    let rank = rng.range(0, 4);
    let shape = rng.shape(rank, 1, 5);
    let view = match kind {
        0 => {
            // Factors of the product in a random order of multiplication, with ones here and there.
            let mut factors: Vec<usize> = Vec::new();
            let mut flat: usize = shape.iter().product();
            for p in [2, 3, 5] {
                while flat.is_multiple_of(p) {
                    factors.push(p);
                    flat /= p;
                }
            }
            let mut new = vec![1; rng.range(usize::from(!factors.is_empty()), 4)];
            while !factors.is_empty() {
                let f = factors.swap_remove(rng.range(0, factors.len() - 1));
                let axis = rng.range(0, new.len() - 1);
                new[axis] *= f;
            }
            View::Reshape { shape: new }
        }
        1 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            for a in (1..rank).rev() {
                axes.swap(a, rng.range(0, a));
            }
            View::Permute { axes }
        }
        2 => {
            let (mut starts, mut steps, mut new) = (vec![], vec![], vec![]);
            for &n in &shape {
                let start = rng.range(0, n - 1);
                let step = *rng.pick(&[1, 1, -1, 2, -2, 3]);
                let room = if step > 0 { (n - 1 - start) / step as usize } else { start / -step as usize };
                starts.push(start);
                steps.push(step);
                new.push(rng.range(0, room + 1));
            }
            View::Slice { starts, steps, shape: new }
        }
        3 => {
            let mut from = shape.clone();
            for n in &mut from {
                *n = if rng.chance(2) { 1 } else { *n };
            }
            let mut to: Vec<usize> = from.iter().map(|&n| if n == 1 { rng.range(1, 4) } else { n }).collect();
            if rank < 4 && rng.chance(2) {
                to.insert(0, rng.range(1, 3));
            }
            return (View::Broadcast { shape: to }, vec![from]);
        }
        4 => {
            let rank = rank.max(1);
            let mut shape = rng.shape(rank, 1, 4);
            let axis = rng.range(0, rank - 1);
            let inputs = (0..rng.range(1, 4)).map(|_| {
                shape[axis] = rng.range(0, 4);
                shape.clone()
            });
            return (View::Concat { axis }, inputs.collect());
        }
        5 => {
            let (before, after) = (rng.shape(rank, 0, 2), rng.shape(rank, 0, 2));
            View::Pad { before, after, value: 7.0_f64.to_bits() }
        }
        _ => View::Roll { shifts: shape.iter().map(|&n| rng.range(0, n - 1)).collect() },
    };
    (view, vec![shape])
}

/// Every kind of view, many shapes: the pulls of a box are disjoint and hold exactly what `source` says,
/// and the box computed from what was pulled has the elements of `source`.
#[test]
fn pulls_are_what_is_read() {
    for seed in 0..2_100 {
        let mut rng = Rng(seed);
        let (view, inputs) = random(&mut rng, seed as usize % 7);
        let shapes: Vec<&[usize]> = inputs.iter().map(Vec::as_slice).collect();
        let shape = view.shape(&shapes).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let dest = rng.inside(&Region::whole(&shape));
        let context = format!("seed {seed}: {view:?} of {inputs:?}, box {dest}");
        let pulls = view.pulls(&shapes, &dest);
        let mut pulled = BTreeSet::new();
        for pull in &pulls {
            let input = pull.input.expect("fill is not pulled");
            assert!(Region::whole(shapes[input]).contains(&pull.source) && !pull.source.is_empty(), "{context}");
            for p in points(&pull.source) {
                assert!(pulled.insert((input, p)), "{context}: pulled twice");
            }
        }
        let read: BTreeSet<(usize, Vec<usize>)> =
            points(&dest).iter().filter_map(|p| view.source(&shapes, p)).collect();
        let strided = matches!(&view, View::Slice { steps, .. } if steps.iter().any(|s| s.abs() > 1));
        if strided {
            assert!(pulled.is_superset(&read), "{context}");
        } else {
            assert_eq!(pulled, read, "{context}");
        }
        let wholes: Vec<Dense> = shapes.iter().map(|s| iota(s)).collect();
        let cut = |p: &ein_ir::view::Pull| {
            let n = p.input.expect("fill is not pulled");
            (n, p.source.clone(), wholes[n].cut(&Region::whole(shapes[n]), &p.source))
        };
        let cuts: Vec<(usize, Region, Dense)> = pulls.iter().map(cut).collect();
        let sources: Vec<(usize, Region, &Dense)> = cuts.iter().map(|(n, r, d)| (*n, r.clone(), d)).collect();
        let result = reference::view_as(ein_ir::dtype::DType::I64, &view, &shapes, &dest, &sources);
        let element = |p: &Vec<usize>| match view.source(&shapes, p) {
            None => 7,
            Some((n, index)) => index.iter().zip(shapes[n]).fold(0, |flat, (&i, &e)| flat * e + i) as i64,
        };
        assert_eq!(result, Dense::i64(dest.shape(), points(&dest).iter().map(element).collect()), "{context}");
    }
}

/// How many boxes a box of a reshaped tensor comes from.
#[test]
fn reshaped_boxes_stay_few() {
    let check = |from: &[usize], to: &[usize], dest: &[(usize, usize)], boxes: &[&str]| {
        let pulls = View::Reshape { shape: to.to_vec() }.pulls(&[from], &Region::of(dest));
        let found: Vec<String> = pulls.iter().map(|p| p.source.to_string()).collect();
        assert_eq!(found, boxes, "{from:?} -> {to:?}, {dest:?}");
    };
    // Heads of an attention, both ways.
    check(&[2, 9, 32], &[2, 9, 4, 8], &[(0, 2), (1, 5), (1, 3), (0, 8)], &["[0:2,1:5,8:24]"]);
    check(&[2, 9, 4, 8], &[2, 9, 32], &[(0, 2), (1, 5), (8, 24)], &["[0:2,1:5,1:3,0:8]"]);
    check(
        &[2, 9, 4, 8],
        &[2, 9, 32],
        &[(0, 2), (1, 5), (5, 27)],
        &["[0:2,1:5,0:1,5:8]", "[0:2,1:5,1:3,0:8]", "[0:2,1:5,3:4,0:3]"],
    );
    // Half of every head is as many pieces as there are heads.
    check(&[4, 32], &[4, 4, 8], &[(0, 4), (0, 2), (0, 4)], &["[0:4,0:4]", "[0:4,8:12]"]);
    // Batch and sequence together.
    check(&[3, 1000, 8], &[3000, 8], &[(1000, 2000), (2, 4)], &["[1:2,0:1000,2:4]"]);
    check(&[3000, 8], &[3, 1000, 8], &[(1, 3), (0, 1000), (2, 4)], &["[1000:3000,2:4]"]);
    check(&[1000, 6], &[3, 1000, 2], &[(0, 3), (0, 1000), (0, 2)], &["[0:1000,0:6]"]);
    // Neither shape refines the other, but they have a common refinement.
    check(&[2, 600], &[200, 6], &[(0, 200), (0, 6)], &["[0:2,0:600]"]);
    check(&[2, 6], &[4, 3], &[(0, 4), (0, 1)], &["[0:2,0:1]", "[0:2,3:4]"]);
    // No common refinement.
    check(&[6, 4], &[8, 3], &[(0, 8), (0, 3)], &["[0:6,0:4]"]);
    check(&[6, 4], &[8, 3], &[(0, 4), (0, 3)], &["[0:3,0:4]"]);
    // Ones, scalars and nothing.
    check(&[1, 8, 4], &[8, 4], &[(2, 5), (0, 4)], &["[0:1,2:5,0:4]"]);
    check(&[8, 4], &[8, 1, 4, 1], &[(2, 5), (0, 1), (1, 2), (0, 1)], &["[2:5,1:2]"]);
    check(&[], &[1, 1], &[(0, 1), (0, 1)], &["[]"]);
    check(&[1], &[], &[], &["[0:1]"]);
    check(&[0, 3], &[3, 0], &[(0, 3), (0, 0)], &[]);
}

/// Views of known values.
#[test]
fn known_values() {
    let check = |view: View, input: Dense, shape: &[usize], values: &[i64]| {
        let whole = Region::whole(shape);
        let own = Region::whole(&input.shape.clone());
        let result = reference::view(&view, &[&input.shape], &whole, &[(0, own, &input)]);
        assert_eq!(result, Dense::i64(shape, values.to_vec()), "{view:?}");
    };
    check(View::Permute { axes: vec![1, 0] }, iota(&[2, 3]), &[3, 2], &[0, 3, 1, 4, 2, 5]);
    let flip = View::Slice { starts: vec![4], steps: vec![-2], shape: vec![3] };
    check(flip, iota(&[5]), &[3], &[4, 2, 0]);
    check(View::Broadcast { shape: vec![2, 3] }, iota(&[3]), &[2, 3], &[0, 1, 2, 0, 1, 2]);
    check(View::Broadcast { shape: vec![3, 2] }, iota(&[3, 1]), &[3, 2], &[0, 0, 1, 1, 2, 2]);
    check(View::Roll { shifts: vec![2] }, iota(&[5]), &[5], &[3, 4, 0, 1, 2]);
    let pad = View::Pad { before: vec![1], after: vec![2], value: (-1.0_f64).to_bits() };
    check(pad, iota(&[2]), &[5], &[-1, 0, 1, -1, -1]);
    check(View::Pad { before: vec![2], after: vec![0], value: 0 }, iota(&[0]), &[2], &[0, 0]);
    check(View::Reshape { shape: vec![3, 2] }, iota(&[2, 3]), &[3, 2], &[0, 1, 2, 3, 4, 5]);
}

/// A box that is not given is noticed.
#[test]
#[should_panic(expected = "2 of 4 elements")]
fn missing_source() {
    let half = iota(&[2]);
    reference::view(
        &View::Roll { shifts: vec![1] },
        &[&[4]],
        &Region::whole(&[4]),
        &[(0, Region::of(&[(0, 2)]), &half)],
    );
}
