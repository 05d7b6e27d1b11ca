use super::{parse, print};
use crate::dtype::DType;
use crate::einsum::{Access, Einsum, Label};
use crate::expr::{Binary, Expr, Unary};
use crate::graph::{Graph, TensorType};
use crate::monoid::Monoid;
use crate::op::InputKind;

/// Reads back exactly what it prints.
pub(super) fn round(graph: &Graph) {
    let text = print(graph);
    let again = parse(&text).unwrap_or_else(|e| panic!("{e}\nin\n{text}"));
    assert_eq!(&again, graph, "{text}");
    assert_eq!(print(&again), text);
}

/// Every operation in the form in which it is printed.
pub(super) const CANONICAL: &str = r#"x: input f32[8, 16]
w: param f32[16, 4]
"a name: with = everything, \"\\\n\u{7} π": state bf16[]
"return": input f32[2, 3, 5]
"": input bool[0]
y = einsum f32 (i: 8, j: 4 | k: 16) sum x[i, k] * w[k, j]
z = einsum f32 (i: 8, j: 4) map max(y[i, j], 0.0) * cast<f32>(index(j))
row.max = einsum f32 (i: 8 | k: 16) max x[i, k]
stat = einsum f32 (i: 8 | k: 16) moments x[i, k]
soft = einsum f32 (i: 8 | k: 16) softmax x[i, k]
p = einsum f32 (i: 8 | k: 16) prod x[i, k]
m = einsum f32 (| i: 8, k: 16) min x[i, k]
mm = einsum f32 (i: 8, k: 16) min x[i, k]
one = einsum i64 () map 7
eight = einsum i64 (i: 8) map index(i) % 3 - -1 - neg(2) / -index(i)
norm = einsum f32 (i: 8, k: 16) map (x[i, k] - stat[i, 0]) * rsqrt(stat[i, 1] + 1e-5)
conv = einsum f32 (b: 8, o: 6 | r: 3) sum x[b, 2*o + r + 1] * w[2*r, 3]
flip = einsum f32 (b: 8, k: 16) map x[b, -k + 15]
back = einsum f32 (b: 8, k: 4) map x[-b + 7, 2*k - 0 + 1]
"#;

/// The rest of it.
pub(super) const CANONICAL_2: &str = r#"x: input f32[8, 16]
h: input bf16[4]
i: input i64[3]
t: param f32[100, 16]
q: input f32[1, 4, 5, 8]
k: input f32[1, 2, 6, 8]
v: input f32[1, 2, 6, 7]
mask: input f32[1, 1, 5, 6]
square = einsum f32 (a: 8 | "b c": 16) sum {
  let r0 = x[a, "b c"];
  r0 * r0
}
twice = einsum f32 (a: 8, b: 16) map {
  of x[a, b], x[a, b];
  $0 * $1
}
unread = einsum f32 (a: 8 | b: 16) sum {
  of x[a, b];
  1.0
}
mix = einsum bf16 (a: 4) map cast<bf16>(cast<f32>(h[a]) * 0.5:f32) + 0.5 - h[a]
specials = einsum f32 (a: 4) map -0.0 + inf + -inf + nan + bits(9221120237041090561) + 1e300 + 0.1 + 3:f32
logic = einsum bool (a: 8, b: 16) map index(a) >= index(b) && !(x[a, b] != 1.0 || true) && 2:bool
choice = einsum f32 (a: 8, b: 16) map select(index(a) - 1 < index(b), pow(x[a, b], 2.0), -(1.0 - x[a, b]))
silu = einsum f32 (a: 8, b: 16) map {
  let r0 = x[a, b];
  r0 / (1.0 + exp(-r0))
}
r = reshape x [4, 2, 16]
pm = permute r [2, 0, 1]
sl = slice pm [3:7, 1:5:2, 1:-1:-1]
bc = broadcast h [2, 0, 4]
cc = concat(x, x, t) axis 0
pad = pad x [1:2, 0:0] value -inf
ro = roll x [7, 0]
att = attention(q, k, v, mask) causal scale 0.125
att2 = attention(q, k, v) scale 1.0
e = gather(t, i)
ids: input i32[3]
ids2: input i64[2]
offsets: input i64[3]
same: input i64[8, 16]
same2: input f32[8, 16]
e2 = gather(x, ids) axis 1
e3 = gather_along(x, same) axis 1
sc = scatter(r, ids2) rows 9 axis 1 max
sc2 = scatter_along(x, same) rows 9
to = top(x) k 2
to2 = top(x) k 2 smallest indices
run = scan(x) logsumexp axis 1
states = recurrence(x, same2) axis 1
last = last_state(x, same2)
at3 = attention(q, q, q, offsets) causal window 2 softcap 50.0 packed scale 1.0
return e
return "the end" = att
return again = att
"#;

#[test]
fn canonical_texts_come_back() {
    for text in [CANONICAL, CANONICAL_2] {
        // The one line that shows a longer way to write an index.
        let printed = text.replace("2*k - 0 + 1", "2*k + 1");
        let graph = parse(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(print(&graph), printed);
        round(&graph);
    }
}

#[test]
fn longhand_is_printed_short() {
    let check = |written: &str, printed: &str| {
        let head = "x: input f32[2, 3]\nw: param f32[3, 4]\n";
        let graph = parse(&format!("{head}{written}")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(print(&graph), format!("{head}{printed}\n"));
    };
    check("y = einsum \"ik,kj->ij\" x w", "y = einsum f32 (i: 2, j: 4 | k: 3) sum x[i, k] * w[k, j]");
    check(
        "y = einsum f32 (i, j | k) sum x[i, k] * w[k, j]",
        "y = einsum f32 (i: 2, j: 4 | k: 3) sum x[i, k] * w[k, j]",
    );
    check("y = einsum f32 (i: 1, k) map x[i + 1, k]", "y = einsum f32 (i: 1, k: 3) map x[i + 1, k]");
    check("y = map max(x, 0.0)", "y = einsum f32 (i0: 2, i1: 3) map max(x[i0, i1], 0.0)");
    check(
        "b: input bf16[3]\ns: input bf16[2, 1]\ny = map s * b + 1.0",
        "b: input bf16[3]\ns: input bf16[2, 1]\n\
         y = einsum bf16 (i0: 2, i1: 3) map s[i0, 0] * b[i1] + 1.0",
    );
    check("y = map x > 0.0", "y = einsum bool (i0: 2, i1: 3) map x[i0, i1] > 0.0");
    check("y = map 7", "y = einsum i64 () map 7");
    check("return y = x # same", "return y = x");
    check("return x = x", "return x");
    check("y = slice x [0:2:1, 0:3:2]", "y = slice x [0:2, 0:4:2]");
    check("y = slice x [1:1, 2:0:-1]", "y = slice x [1:1, 2:0:-1]");
    check("y = reshape x [\n  6 # six\n]", "y = reshape x [6]");
    check(
        "y = einsum f32 (i: 2 | k: 3) sum { let a = x[i, k]; let b = a + 1.0; a * b }",
        "y = einsum f32 (i: 2 | k: 3) sum {\n  let r0 = x[i, k];\n  r0 * (r0 + 1.0)\n}",
    );
    check("y = einsum bool (i: 2, k: 3) map ((x[i, k])) > (0.0)", "y = einsum bool (i: 2, k: 3) map x[i, k] > 0.0");
    check(
        "y = einsum f32 (i: 2, k: 3) map neg(x[i, k]) - (1.0 - 2.0)",
        "y = einsum f32 (i: 2, k: 3) map -x[i, k] - (1.0 - 2.0)",
    );
    check(
        "y = einsum f32 (i: 2, j: 3) map (x[i, j] * x[i, j]) + x[0 + i, 0]",
        "y = einsum f32 (i: 2, j: 3) map x[i, j] * x[i, j] + x[i, 0]",
    );
}

#[test]
fn a_caret_stands_under_the_place() {
    let error = parse("x: input f32[2]\n\ty = einsum f32 (i: 2) map x[i] * w[i]").expect_err("no w");
    let expected = "line 2, column 35: there is no tensor `w` above\n\
                    2 | \ty = einsum f32 (i: 2) map x[i] * w[i]\n  | \t                                 ^";
    assert_eq!(error.to_string(), expected);
    let refused = parse("x: input f32[2]\ny = permute x [1]").expect_err("no axis 1");
    assert!(refused.refused.is_some() && refused.to_string().contains("permutation"));
}

#[test]
fn a_deep_expression_comes_back() {
    let mut graph = Graph::new();
    let x = graph.input("x", InputKind::Input, TensorType::new(DType::F32, [2])).expect("a new name");
    let mut join = Expr::operand(DType::F32);
    let mut row = 0;
    for n in 0..3000 {
        row = if n % 2 == 0 {
            let one = join.float(1.0, DType::F32);
            join.binary(Binary::Sub, row, one).expect("floats")
        } else {
            join.unary(if n % 3 == 0 { Unary::Neg } else { Unary::Exp }, row).expect("a float")
        };
    }
    let labels = vec![Label::new("i", 2)];
    let accesses = vec![Access::labels(&[0])];
    let einsum = Einsum { labels, rank: 1, accesses, join, monoid: Monoid::Sum, dtype: DType::F32 };
    graph.einsum("y", einsum, &[x]).expect("a map");
    round(&graph);
}
