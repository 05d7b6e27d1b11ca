//! Views from the boxes that they pull.

use super::{Rng, assert_near, fields, room, stored};
use crate::cpu::piece::{Piece, PieceMut};
use crate::cpu::view;
use crate::error::Cause;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::monoid::Form;
use ein_ir::reference;
use ein_ir::region::Region;
use ein_ir::view::View;

/// A view of a box, made ready and done.
fn view(
    view: &View,
    inputs: &[&[usize]],
    pieces: &[(usize, Piece<'_>)],
    result: &mut PieceMut<'_>,
) -> Result<(), Cause> {
    let of: Vec<_> = pieces.iter().map(|(input, p)| (*input, p.region, p.form)).collect();
    let given: Vec<Piece<'_>> = pieces.iter().map(|p| p.1).collect();
    view::View::new(view, inputs, &of, result.region, result.form)?.run(&given, result)
}

#[test]
fn every_view_of_every_type() {
    let mut rng = Rng::new(31);
    let views: Vec<(View, Vec<Vec<usize>>)> = vec![
        (View::Reshape { shape: vec![16, 6] }, vec![vec![12, 8]]),
        (View::Reshape { shape: vec![2, 3, 4, 4] }, vec![vec![6, 16]]),
        (View::Reshape { shape: vec![7, 10] }, vec![vec![5, 14]]),
        (View::Reshape { shape: vec![1, 30, 1] }, vec![vec![5, 6]]),
        (View::Permute { axes: vec![2, 0, 1] }, vec![vec![5, 20, 30]]),
        (View::Permute { axes: vec![0, 2, 1] }, vec![vec![5, 20, 30]]),
        (View::Slice { starts: vec![1, 6], steps: vec![2, -1], shape: vec![3, 7] }, vec![vec![7, 8]]),
        (View::Slice { starts: vec![9, 0], steps: vec![-3, 1], shape: vec![4, 8] }, vec![vec![10, 8]]),
        (View::Broadcast { shape: vec![4, 5, 6] }, vec![vec![5, 1]]),
        (View::Concat { axis: 1 }, vec![vec![3, 4], vec![3, 2], vec![3, 5]]),
        (View::Pad { before: vec![1, 0], after: vec![2, 3], value: 2.5f64.to_bits() }, vec![vec![4, 5]]),
        (View::Roll { shifts: vec![3, 1] }, vec![vec![5, 6]]),
    ];
    for (v, shapes) in &views {
        let inputs: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let whole = Region::whole(&v.shape(&inputs).expect("it fits"));
        for dtype in DType::ALL {
            let tensors: Vec<Dense> = shapes.iter().map(|s| rng.dense(dtype, s, true)).collect();
            for round in 0..6 {
                let dest = if round == 0 { whole.clone() } else { rng.part(&whole) };
                // What is pulled, or more, in one or two boxes.
                let mut sources: Vec<(usize, Region, Dense)> = Vec::new();
                for pull in v.pulls(&inputs, &dest) {
                    let input = pull.input.expect("a fill is pulled from nowhere");
                    let all = Region::whole(&shapes[input]);
                    let region = if rng.coin() { rng.around(&pull.source, &all) } else { pull.source };
                    let data = tensors[input].cut(&all, &region);
                    sources.push((input, region, data));
                }
                let given: Vec<(usize, Region, &Dense)> = sources.iter().map(|(n, r, d)| (*n, r.clone(), d)).collect();
                let expected = reference::view_as(dtype, v, &inputs, &dest, &given);
                let form = |rank| Form::finished(dtype, rank);
                let forms: Vec<Form> = sources.iter().map(|s| form(s.1.rank())).collect();
                let words: Vec<Vec<u64>> = sources
                    .iter()
                    .zip(&forms)
                    .map(|((_, region, data), form)| stored(std::slice::from_ref(data), form, region))
                    .collect();
                let pieces: Vec<(usize, Piece<'_>)> = (0..sources.len())
                    .map(|n| (sources[n].0, Piece::new(&sources[n].1, &forms[n], bytemuck::cast_slice(&words[n]))))
                    .collect();
                let to = form(dest.rank());
                let mut out = room(&to, &dest);
                let mut result = PieceMut::new(&dest, &to, bytemuck::cast_slice_mut(&mut out));
                view(v, &inputs, &pieces, &mut result).unwrap_or_else(|e| panic!("{v:?} {dest}: {e}"));
                assert_near(&format!("{v:?} {dtype} {dest}"), &fields(&out, &to, &dest), &[expected], true);
            }
        }
    }
}

#[test]
fn too_little_is_refused() {
    let v = View::Permute { axes: vec![1, 0] };
    let (region, dest) = (Region::of(&[(0, 1), (0, 2)]), Region::of(&[(0, 2), (0, 2)]));
    let form = Form::finished(DType::F32, 2);
    let words = [0u64; 1];
    let mut out = room(&form, &dest);
    let mut result = PieceMut::new(&dest, &form, bytemuck::cast_slice_mut(&mut out));
    let error = view(&v, &[&[2, 2]], &[(0, Piece::new(&region, &form, bytemuck::cast_slice(&words)))], &mut result);
    assert!(error.expect_err("half is missing").to_string().contains("needs 4 elements and is given 2"));
}
