//! Products: `matmul` and `einsum`.

use super::{Draw, Drawn, Operation};
use einsummable::Tensor;
use std::collections::BTreeMap;

fn product(d: &mut Draw, left: &[usize], right: &[usize]) -> Drawn {
    let dtype = d.number();
    let (a, b) = (d.input(left, dtype), d.input(right, dtype));
    let within = d.sums(dtype);
    Drawn::within(a.matmul(&b), within)
}

fn matrices(d: &mut Draw) -> Drawn {
    let (m, k, n) = (d.extent(), d.extent(), d.extent());
    product(d, &[m, k], &[k, n])
}

fn vectors(d: &mut Draw) -> Drawn {
    let (k, n, batch) = (d.extent(), d.extent(), d.extent());
    match d.rng.range(0, 3) {
        0 => product(d, &[k], &[k]),
        1 => product(d, &[n, k], &[k]),
        2 => product(d, &[k], &[k, n]),
        _ => product(d, &[batch, n, k], &[k]),
    }
}

fn batched(d: &mut Draw) -> Drawn {
    let (m, k, n) = (d.some().min(5), d.extent().min(5), d.some().min(5));
    let rank = d.rng.range(1, 2);
    let batch: Vec<usize> = d.shape(rank).into_iter().map(|n| n.min(4)).collect();
    let (left, right) = (d.broadcastable(&batch), d.broadcastable(&batch));
    product(d, &[&left[..], &[m, k]].concat(), &[&right[..], &[k, n]].concat())
}

/// The extents of letters, as they come up.
#[derive(Default)]
struct Letters(BTreeMap<char, usize>);

impl Letters {
    fn extent(&mut self, d: &mut Draw, letter: char) -> usize {
        *self.0.entry(letter).or_insert_with(|| d.extent().min(5))
    }
}

/// One of some strings, over operands that fit it; some axes are 1 long and repeated.
fn strings(d: &mut Draw, specs: &[&str], ones: bool) -> Drawn {
    let spec = d.rng.pick(specs);
    let several = spec.matches(',').count() > 1;
    // Products of products are rounded in between: of 16 bits little would be left to compare.
    let dtype = if several { d.number().accumulator() } else { d.number() };
    let mut letters = Letters::default();
    let left = spec.split("->").next().expect("a left side");
    let under = [d.some().min(3), d.some().min(3)];
    let mut operands = Vec::new();
    for term in left.split(',') {
        let mut shape = Vec::new();
        let mut rest = term.trim();
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("...") {
                let from = d.rng.range(0, 2);
                shape.extend(&under[from..]);
                rest = after;
                continue;
            }
            let extent = letters.extent(d, c);
            // A letter that occurs twice in one operand must be one extent.
            let alone = term.matches(c).count() == 1;
            shape.push(if ones && alone && d.rng.one_in(4) { 1 } else { extent });
            rest = &rest[c.len_utf8()..];
        }
        operands.push(d.input(&shape, dtype));
    }
    let within = if several { 8.0 } else { 1.0 } * d.sums(dtype);
    Drawn::within(Tensor::einsum(spec, &operands.iter().collect::<Vec<_>>()), within)
}

fn one_operand(d: &mut Draw) -> Drawn {
    strings(d, &["ij->ji", "ij->i", "ij->", "ii->i", "ii", "iij->ij", "iji->j", "ijk->ki", "ij", "ba", "->"], false)
}

fn two_operands(d: &mut Draw) -> Drawn {
    let specs =
        ["ij,jk->ik", "ij,jk", "i,j->ij", "i,i->", "bij,bjk->bik", "ij,ij->j", "ijk,kl->lij", ",i->i", "ii,i->"];
    strings(d, &specs, true)
}

fn several_operands(d: &mut Draw) -> Drawn {
    strings(d, &["ab,bc,cd->ad", "a,b,c->abc", "ab,bc,ca->", "ab,a,b->", "a,ab,abc,bc->c"], true)
}

fn ellipsis(d: &mut Draw) -> Drawn {
    strings(d, &["...ij,...jk->...ik", "...i->i...", "i...,i...->...", "...,...->...", "...ij->...ji", "...i,i"], true)
}

fn repeated_operand(d: &mut Draw) -> Drawn {
    let (m, n) = (d.extent(), d.extent());
    let dtype = d.number().accumulator();
    let x = d.input(&[m, n], dtype);
    let spec = d.rng.pick(&["ij,ij->", "ij,kj->ik", "ij,ij->j", "ij,il,ij->jl"]);
    let operands = vec![&x; spec.matches(',').count() + 1];
    let within = 8.0 * d.sums(dtype);
    Drawn::within(Tensor::einsum(spec, &operands), within)
}

/// The rows.
pub fn rows() -> Vec<Operation> {
    vec![
        Operation { name: "matmul", draw: matrices },
        Operation { name: "matmul vectors", draw: vectors },
        Operation { name: "matmul batched", draw: batched },
        Operation { name: "einsum one operand", draw: one_operand },
        Operation { name: "einsum two operands", draw: two_operands },
        Operation { name: "einsum several operands", draw: several_operands },
        Operation { name: "einsum ellipsis", draw: ellipsis },
        Operation { name: "einsum repeated operand", draw: repeated_operand },
    ]
}
