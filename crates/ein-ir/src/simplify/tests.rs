use super::simplify;
use crate::graph::Graph;
use crate::op::Op;
use crate::text::{parse, print};

fn graph(text: &str) -> Graph {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// What a text becomes, and that it then stays.
fn simplified(text: &str) -> String {
    let once = simplify(&graph(text));
    let again = simplify(&once);
    assert_eq!(print(&again), print(&once), "simplifying twice changes more");
    print(&once)
}

/// The simplified text has these rows besides the inputs.
fn check(inputs: &str, before: &str, after: &str) {
    let trim = |t: &str| t.lines().map(|l| l.trim().to_string() + "\n").collect::<String>();
    let found = simplified(&format!("{inputs}\n{before}"));
    let expected = print(&graph(&format!("{inputs}\n{}", trim(after))));
    assert_eq!(found, expected, "\nfound\n{found}\nexpected\n{expected}");
}

#[test]
fn views_of_views_become_one() {
    let x = "x: input f32[4, 6]";
    check(x, "a = permute x [1, 0]\nb = permute a [1, 0]\nreturn b", "return b = x");
    check(x, "a = reshape x [24]\nb = reshape a [2, 12]\nreturn b", "b = reshape x [2, 12]\nreturn b");
    check(x, "a = slice x [1:4, 0:6:2]\nb = slice a [2:-1:-1, 1:3]\nreturn b", "b = slice x [3:0:-1, 2:6:2]\nreturn b");
    check(
        x,
        "a = broadcast x [3, 4, 6]\nb = broadcast a [2, 3, 4, 6]\nreturn b",
        "b = broadcast x [2, 3, 4, 6]\nreturn b",
    );
    let nothing = "a = reshape x [4, 6]\nb = slice a [0:4, 0:6]\nc = pad b [0:0, 0:0] value 1.0\nd = roll c [0, 0]\n\
                   e = concat(d) axis 0\nf = broadcast e [4, 6]\nreturn f";
    check(x, nothing, "return f = x");
    // Nobody reads `a`; the input stays.
    check("x: input f32[4, 6]\ny: input f32[3]", "a = reshape x [24]\nreturn y", "return y");
}

#[test]
fn views_become_indices_of_their_reader() {
    let check = |view: &str, reader: &str, after: &str| {
        check("x: input f32[4, 6]\nw: param f32[6, 5]", &format!("v = {view}\ny = {reader}\nreturn y"), after);
    };
    check(
        "permute x [1, 0]",
        "einsum f32 (i: 6 | j: 4) sum v[i, j]",
        "y = einsum f32 (i: 6 | j: 4) sum x[j, i]\nreturn y",
    );
    check(
        "slice x [1:4:2, 5:-1:-1]",
        "einsum f32 (i: 2, j: 6) map exp(v[i, j])",
        "y = einsum f32 (i: 2, j: 6) map exp(x[2*i + 1, -j + 5])\nreturn y",
    );
    // A plain label must span its axis, so indices from 0 stay a view.
    check(
        "slice x [0:3, 0:6]",
        "einsum f32 (i: 3, j: 6) map exp(v[i, j])",
        "v = slice x [0:3, 0:6]\ny = einsum f32 (i: 3, j: 6) map exp(v[i, j])\nreturn y",
    );
    check(
        "broadcast x [3, 4, 6]",
        "einsum f32 (h: 3, i: 4, j: 6) map exp(v[h, i, j])",
        "y = einsum f32 (h: 3, i: 4, j: 6) map exp(x[i, j])\nreturn y",
    );
    check(
        "reshape x [4, 1, 2, 3]",
        "einsum f32 (i: 4, u: 1, a: 2, b: 3) map exp(v[i, u, a, b])",
        "y = einsum f32 (i: 4, u: 1, a: 2, b: 3) map exp(x[i, 3*a + b])\nreturn y",
    );
    // A folded label becomes one label for each axis of the source.
    check("reshape x [24]", "einsum f32 (| k: 24) sum v[k]", "y = einsum f32 (| k0: 4, k1: 6) sum x[k0, k1]\nreturn y");
    // A label of the result does not.
    check(
        "reshape x [24]",
        "einsum f32 (i: 24) map exp(v[i])",
        "v = reshape x [24]\ny = einsum f32 (i: 24) map exp(v[i])\nreturn y",
    );
    // 4·6 and 3·8 have no common pieces.
    check(
        "reshape x [3, 8]",
        "einsum f32 (i: 3 | j: 8) sum v[i, j]",
        "v = reshape x [3, 8]\ny = einsum f32 (i: 3 | j: 8) sum v[i, j]\nreturn y",
    );
}

#[test]
fn merged_axes_become_labels_of_a_contraction() {
    check(
        "a: input f32[2, 3, 8, 4]\nw: param f32[5, 32]",
        "m = reshape a [2, 3, 32]\ny = einsum \"bsk,nk->bsn\" m w\nreturn y",
        "y = einsum f32 (b: 2, s: 3, n: 5 | k0: 8, k1: 4) sum a[b, s, k0, k1] * w[n, 4*k0 + k1]\nreturn y",
    );
}

#[test]
fn views_become_labels_of_what_they_read() {
    let check = |before: &str, after: &str| {
        check("x: input f32[2, 3, 8]\nw: param f32[12, 8]\nr: param f32[3, 1]", before, after);
    };
    let linear = "p = einsum \"bsk,nk->bsn\" x w\n";
    check(
        &format!("{linear}v = reshape p [2, 3, 4, 3]\nt = permute v [0, 2, 1, 3]\nreturn t"),
        "p = einsum f32 (b: 2, n0: 4, s: 3, n1: 3 | k: 8) sum x[b, s, k] * w[3*n0 + n1, k]\nreturn t = p",
    );
    check(
        &format!("{linear}v = slice p [0:2, 2:3, 0:12]\nreturn v"),
        "p = einsum f32 (b: 2, s: 1, n: 12 | k: 8) sum x[b, s + 2, k] * w[n, k]\nreturn v = p",
    );
    check(
        &format!("{linear}v = reshape p [1, 2, 3, 1, 12]\nu = reshape v [2, 3, 12, 1]\nreturn u"),
        "p = einsum f32 (b: 2, s: 3, n: 12, one: 1 | k: 8) sum x[b, s, k] * w[n, k]\nreturn u = p",
    );
    // What merges stays, what cuts goes.
    check(
        &format!("{linear}v = reshape p [6, 4, 3]\nreturn v"),
        "p = einsum f32 (b: 2, s: 3, n0: 4, n1: 3 | k: 8) sum x[b, s, k] * w[3*n0 + n1, k]\n\
         v = reshape p [6, 4, 3]\nreturn v",
    );
    // A second reader, and a result, keep the tensor as it is.
    let both = format!("{linear}v = reshape p [2, 3, 4, 3]\nreturn v\nreturn p");
    check(&both, &both);
    // Indices in the join follow.
    check(
        "i = einsum f32 (n: 12) map cast<f32>(index(n))\nv = reshape i [4, 3]\nreturn v",
        "i = einsum f32 (n0: 4, n1: 3) map cast<f32>(index(n0) * 3 + index(n1))\nreturn v = i",
    );
    // The axis of statistics is no label.
    check(
        "s = einsum f32 (b: 2, s: 3 | k: 8) moments x[b, s, k]\nv = permute s [1, 0, 2]\nreturn v",
        "s = einsum f32 (s: 3, b: 2 | k: 8) moments x[b, s, k]\nreturn v = s",
    );
    let statistics = "s = einsum f32 (b: 2, s: 3 | k: 8) moments x[b, s, k]\nv = permute s [2, 0, 1]\nreturn v";
    check(statistics, statistics);
}

#[test]
fn a_flat_matrix_product_gets_its_axes_back() {
    // What `torch.export` makes of a linear layer with a bias.
    check(
        "x: input f32[2, 3, 8]\nw: param f32[12, 8]\nbias: param f32[12]",
        "flat = reshape x [6, 8]\nmm = einsum \"tk,nk->tn\" flat w\n\
         add = einsum f32 (t: 6, n: 12) map mm[t, n] + bias[n]\nheads = reshape add [2, 3, 4, 3]\nreturn heads",
        "mm = einsum f32 (t0: 2, t1: 3, n0: 4, n1: 3 | k: 8) sum x[t0, t1, k] * w[3*n0 + n1, k]\n\
         add = einsum f32 (t0: 2, t1: 3, n0: 4, n1: 3) map mm[t0, t1, n0, n1] + bias[3*n0 + n1]\n\
         return heads = add",
    );
}

#[test]
fn maps_become_part_of_their_reader() {
    let check = |before: &str, after: &str| {
        check("x: input f32[4, 6]\nh: input bf16[4, 6]\nw: param f32[6, 6]", before, after);
    };
    check(
        "a = einsum f32 (i: 4, j: 6) map exp(x[i, j])\nb = einsum f32 (m: 4, n: 6) map a[m, n] + x[m, n]\nreturn b",
        "b = einsum f32 (m: 4, n: 6) map { let r0 = x[m, n]; exp(r0) + r0 }\nreturn b",
    );
    // The rounding of the tensor between stays.
    check(
        "a = einsum bf16 (i: 4, j: 6) map x[i, j] * 2.0:f32\n\
         b = einsum f32 (i: 4, j: 6) map cast<f32>(a[i, j]) + 1.0\nreturn b",
        "b = einsum f32 (i: 4, j: 6) map cast<f32>(cast<bf16>(x[i, j] * 2.0)) + 1.0\nreturn b",
    );
    check(
        "a = einsum f32 (i: 4, j: 6) map cast<f32>(index(j)) * x[i, j]\n\
         b = einsum f32 (i: 2 | j: 6) max a[2*i + 1, j]\nreturn b",
        "b = einsum f32 (i: 2 | j: 6) max cast<f32>(index(j)) * x[2*i + 1, j]\nreturn b",
    );
    // Not into a contraction, not where two read it, not a statistic, not dear work many times over.
    for kept in [
        "a = einsum f32 (i: 4, j: 6) map exp(x[i, j])\nb = einsum \"ij,jk->ik\" a w\nreturn b",
        "a = einsum f32 (i: 4, j: 6) map exp(x[i, j])\nb = einsum f32 (i: 4 | j: 6) max a[i, j]\nreturn a\nreturn b",
        "a = einsum f32 (i: 4 | j: 6) max x[i, j]\nb = einsum f32 (i: 4, j: 6) map x[i, j] - a[i]\nreturn b",
        "a = einsum f32 (i: 4) map exp(exp(exp(exp(exp(x[i, 0])))))\n\
         b = einsum f32 (i: 4, j: 6) map x[i, j] - a[i]\nreturn b",
    ] {
        check(kept, kept);
    }
    // A sum of 14 tensors in two maps, for a kernel reads all operands at once.
    let mut text = (0..14).map(|n| format!("x{n}: input f32[2]")).collect::<Vec<_>>().join("\n");
    text += "\na0 = einsum f32 (i: 2) map x0[i]";
    for n in 1..14 {
        text += &format!("\na{n} = einsum f32 (i: 2) map a{}[i] + x{n}[i]", n - 1);
    }
    let after = simplify(&graph(&(text + "\nreturn a13")));
    assert_eq!(after.nodes()[14..].iter().map(|n| n.inputs.len()).collect::<Vec<_>>(), [12, 3]);
    // A norm: statistics, and all else in one map.
    check(
        "up = einsum f32 (i: 4, j: 6) map cast<f32>(h[i, j])\n\
         s = einsum f32 (i: 4 | j: 6) moments up[i, j]\n\
         r = einsum f32 (i: 4) map rsqrt(s[i, 1] + 1e-5)\n\
         d = einsum f32 (i: 4, j: 6) map up[i, j] - s[i, 0]\n\
         n = einsum f32 (i: 4, j: 6) map d[i, j] * r[i]\n\
         g = einsum f32 (i: 4, j: 6) map n[i, j] * w[0, j]\n\
         y = einsum bf16 (i: 4, j: 6) map cast<bf16>(g[i, j])\nreturn y",
        "up = einsum f32 (i: 4, j: 6) map cast<f32>(h[i, j])\n\
         s = einsum f32 (i: 4 | j: 6) moments up[i, j]\n\
         y = einsum bf16 (i: 4, j: 6) map cast<bf16>((up[i, j] - s[i, 0]) * rsqrt(s[i, 1] + 1e-5:f32) * w[0, j])\n\
         return y",
    );
}

const WEIGHTS: &str = "\
x: input f32[2, 5, 24]
wq: param f32[24, 24]
wk: param f32[12, 24]
wv: param f32[12, 24]
bq: param f32[24]
wo: param f32[24, 24]
";

/// A block of attention as `PyTorch` code says it: heads are views. `@` stands before what is the block's own.
const ATTENTION: &str = "\
@q = einsum \"bsk,nk->bsn\" x wq
@qb = einsum f32 (b: 2, s: 5, n: 24) map @q[b, s, n] + bq[n]
@k = einsum \"bsk,nk->bsn\" x wk
@v = einsum \"bsk,nk->bsn\" x wv
@q.heads = reshape @qb [2, 5, 4, 6]
@k.heads = reshape @k [2, 5, 2, 6]
@v.heads = reshape @v [2, 5, 2, 6]
@q.t = permute @q.heads [0, 2, 1, 3]
@k.t = permute @k.heads [0, 2, 1, 3]
@v.t = permute @v.heads [0, 2, 1, 3]
@a = attention(@q.t, @k.t, @v.t) causal scale 0.4
@a.t = permute @a [0, 2, 1, 3]
@a.flat = reshape @a.t [2, 5, 24]
@o = einsum \"bsk,nk->bsn\" @a.flat wo
";

#[test]
fn attention_with_views_can_be_cut_by_heads() {
    let block = ATTENTION.replace('@', "");
    check(
        WEIGHTS.trim_end(),
        &format!("{block}return o"),
        "q = einsum f32 (b: 2, n0: 4, s: 5, n1: 6 | k: 24) sum x[b, s, k] * wq[6*n0 + n1, k]\n\
         qb = einsum f32 (b: 2, n0: 4, s: 5, n1: 6) map q[b, n0, s, n1] + bq[6*n0 + n1]\n\
         k = einsum f32 (b: 2, n0: 2, s: 5, n1: 6 | k: 24) sum x[b, s, k] * wk[6*n0 + n1, k]\n\
         v = einsum f32 (b: 2, n0: 2, s: 5, n1: 6 | k: 24) sum x[b, s, k] * wv[6*n0 + n1, k]\n\
         a = attention(qb, k, v) causal scale 0.4\n\
         o = einsum f32 (b: 2, s: 5, n: 24 | k0: 4, k1: 6) sum a[b, k0, s, k1] * wo[n, 6*k0 + k1]\n\
         return o",
    );
    let after = simplify(&graph(&format!("{WEIGHTS}{block}return o")));
    assert!(!after.nodes().iter().any(|n| matches!(n.op, Op::View(_))));
}

/// 80 blocks of attention, one after the other, with a residual: every block becomes what one does.
#[test]
fn every_block_of_many_is_simplified() {
    let mut text = WEIGHTS.replace("x:", "x0:");
    for n in 0..80 {
        text += &ATTENTION.replace(" x w", &format!(" x{n} w")).replace('@', &format!("b{n}."));
        text += &format!("x{} = einsum f32 (b: 2, s: 5, n: 24) map x{n}[b, s, n] + b{n}.o[b, s, n]\n", n + 1);
    }
    let before = graph(&(text + "return x80\n"));
    let after = simplify(&before);
    assert_eq!(before.nodes().len(), 6 + 80 * 15);
    assert_eq!(after.nodes().len(), 6 + 80 * 7);
}
