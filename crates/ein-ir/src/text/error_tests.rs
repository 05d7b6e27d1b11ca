//! What is said of wrong texts, whole: a snapshot beside this file. `INSTA_UPDATE=always` writes it anew, to be read.

use super::parse;

/// What stands above the wrong statements; `x` is a matrix, `ids` are rows of it.
const HEAD: &str =
    "x: input f32[2, 3]\nids: input i64[4]\nweight: param f32[3, 5]\nmask: input bool[2, 3]\nscale: input f64[]\n";

/// Wrong statements behind [`HEAD`].
const STATEMENTS: &[&str] = &[
    // Inputs.
    "y: input f33[2]",
    "y: input float32[2]",
    "y: input f32[2",
    "y: input f32[-2]",
    "y: parm f32[2]",
    "y: input f32[99999999999999999999]",
    "y: input f32[99999999999, 9999999999]",
    "y: input f32[2] z",
    "y: \"input f32[2]",
    "y: input f32",
    "x: input f32[2]",
    // Statements.
    "y",
    "retrun y",
    "return: input f32[2]",
    "let = reshape x [6]",
    "y := reshape x [6]",
    "// a comment",
    "y = reshape x [6] @",
    "y = reshape x [6] reshape x [6]",
    "\"\\q\": input f32[2]",
    "naïve: input f32[2]",
    "y = einsum ‘ij->ji’ x",
    "return y",
    "return wieght",
    "return x\nreturn x = weight",
    // Operations.
    "y = shape x [6]",
    "y = matmul x weight",
    "y = 3",
    "y = resahpe x [6]",
    "y = reshape wieght [6]",
    // Views.
    "y = reshape x [7]",
    "y = permute x [1]",
    "y = slice x [0:2, 0:9]",
    "y = slice x [0:2, 0:3:0]",
    "y = slice x [0:2]",
    "y = broadcast x [4, 2, 4]",
    "y = concat(x, weight) axis 0",
    "y = concat(x, mask) axis 0",
    "y = concat(x, x) axis 2",
    "y = concat(x, x)",
    "y = pad x [1:1, 0:0] values 0.0",
    "y = pad x [1:1] value 0.0",
    "y = roll x [0, 3]",
    // Kernels.
    "y = attention(x, x)",
    "y = attention(x, x, x)",
    "y = gather(x, x)",
    "y = gather(x, ids) axis 2",
    "y = gather(x)",
    "y = top(x) k 9",
    "y = top(x) k 2 largest smallest",
    "y = top(x) k 1 k 2",
    "y = top(x) k 1 indexes",
    "y = scan(x) sum axis",
    "y = scan(x) mean",
    "y = scan(mask) sum axis 1",
    "y = scatter(x, ids) row 5 axis 1",
    "y = scatter(x, ids)",
    "q: input f32[1, 2, 3, 4]\ny = attention(q, q, q) window 0 causal",
    "q: input f32[1, 2, 3, 4]\ny = attention(q, q, q) window 2",
    "q: input f32[1, 2, 3, 4]\ny = attention(q, q, q) softcap -1.0",
    "q: input f32[1, 3, 3, 4]\nk: input f32[1, 2, 3, 4]\ny = attention(q, k, k)",
    // Einsums.
    "y = einsum \"ik,kj->ij\" x",
    "y = einsum \"ik,kj->ij\" x x",
    "y = einsum \"ik,kjl->ij\" x weight",
    "y = einsum \"ik,kj\" x weight",
    "y = einsum \"i?->i\" x",
    "y = einsum \"ij->ij\" mask",
    "y = einsum f32 (i: 2, j: 3 map x[i, j]",
    "y = einsum f32 (i: 2, i: 3) map x[i, i]",
    "y = einsum f32 (i: 2, j: 4) map x[i, j]",
    "y = einsum f32 (i: 2, j: 3) map x[i, j + 1]",
    "y = einsum f32 (i: 2, j: 3) map x[i]",
    "y = einsum f32 (i: 2, j: 3) map x[i, jj]",
    "y = einsum f32 (i: 2, j: 3) map x[i, j + j]",
    "y = einsum f32 (i: 2, row: 3) map x[i, rwo]",
    "y = einsum f32 (i, j, k) map x[i, j]",
    "y = einsum f32 (i: 2 | j: 3) map x[i, j]",
    "y = einsum f32 (i: 2 | j: 3) add x[i, j]",
    "y = einsum f32 (i: 2, j: 3) map exp(ids[0])",
    "y = einsum f32 (i: 2, j: 3) map mask[i, j] + mask[i, j]",
    "y = einsum f64 (i: 2, j: 3) map x[i, j] * 2.0",
    "y = einsum i32 (i: 2, j: 3) map ids[i] & 1:i32",
    "y = einsum f32 (i: 2 | j: 3) summ x[i, j]",
    "y = einsum bool (i: 2 | j: 3) sum mask[i, j]",
    "y = einsum i64 (| i: 4) moments ids[i]",
    "e: input f32[0]\ny = einsum f32 (| i: 0) max e[i]",
    // Values.
    "y = einsum f32 (i: 2, j: 3) map x",
    "y = einsum f32 (i: 2, j: 3) map z",
    "y = einsum f32 (i: 2, j: 3) map foo(x[i, j])",
    "y = einsum f32 (i: 2, j: 3) map sqr(x[i, j])",
    "y = einsum f32 (i: 2, j: 3) map relu(x[i, j])",
    "y = einsum f32 (i: 2, j: 3) map max(x[i, j])",
    "y = einsum f32 (i: 2, j: 3) map x[i, j] * 1",
    "y = einsum f32 (i: 2, j: 3) map x[i, j] + scale[]",
    "y = einsum f32 (i: 2, j: 3) map select(x[i, j], 1.0, 0.0)",
    "y = einsum f32 (i: 2, j: 3) map !x[i, j]",
    "y = einsum f32 (i: 2, j: 3) map x[i, j] < 1.0 < 2.0",
    "y = einsum f32 (i: 2, j: 3) map (x[i, j]",
    "y = einsum f32 (i: 2, j: 3) map cast<f31>(x[i, j])",
    "y = einsum f32 (i: 2, j: 3) map cast<f32(x[i, j])",
    "y = einsum f32 (i: 2, j: 3) map cast(x[i, j])",
    "y = einsum f32 (i: 2, j: 3) map $0",
    "y = einsum f32 (i: 2, j: 3) map { of x[i, j]; x[j, i] }",
    "y = einsum f32 (i: 2, j: 3) map { let a = x[i, j]; let a = 1.0; a }",
    "y = einsum f32 (i: 2, j: 3) map { let scaled = x[i, j]; scald * scaled }",
    "y = einsum f32 (i: 2, j: 3) map { let a = x[i, j]; let b = 1.0; a }",
    "y = einsum f32 (i: 2, j: 3) map {\n  x[i, j]\n\nz = reshape x [6]",
    // Elementwise maps.
    "y = map x + weight",
    "y = map x[i, j]",
    "y = map x + wieght",
    "y = map x + scale",
];

#[test]
fn whole_messages() {
    let mut all = String::new();
    for text in STATEMENTS {
        let error = parse(&format!("{HEAD}{text}")).expect_err(text).to_string();
        all.push_str(&format!("{text}\n\n{error}\n\n----\n\n"));
    }
    insta::assert_snapshot!("messages", format!("{HEAD}\n----\n\n{all}"));
}

#[test]
fn deep_nesting_is_refused() {
    let rows = [
        (format!("y = einsum f32 () map {}1.0{}", "(".repeat(5000), ")".repeat(5000)), "levels of brackets"),
        (format!("y = einsum f32 () map {}", "-".repeat(5000)), "signs and brackets"),
        (format!("y = map {}", "exp(".repeat(5000)), "levels of brackets"),
        ("y = reshape x ".to_string() + &"[".repeat(5000), "there is no tensor"),
    ];
    for (text, part) in rows {
        assert!(parse(&text).expect_err("too deep").message.contains(part));
    }
}

/// The caret of a long line stands under the fault, with what is around it.
#[test]
fn long_lines_are_shown_in_part() {
    let many = vec!["x[i, j]"; 400].join(" + ");
    let text = format!("{HEAD}y = einsum f32 (i: 2, j: 3) map {many} + z[i] + {many}");
    let shown = parse(&text).expect_err("no z").to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.iter().all(|l| l.chars().count() < 180), "{shown}");
    let caret = lines[2].chars().count() - 1;
    assert_eq!(lines[1].chars().nth(caret), Some('z'), "{shown}");
}
