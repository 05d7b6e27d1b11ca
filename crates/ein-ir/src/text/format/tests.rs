use super::format;
use crate::text::parse;

/// Laid out as expected, and the same again, with the same meaning.
fn check(text: &str, expected: &str) {
    let laid_out = format(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(laid_out, expected, "of\n{text}");
    assert_eq!(format(&laid_out).as_deref(), Ok(expected));
    assert_eq!(parse(&laid_out), parse(text));
}

const X: &str = "x: input f32[2, 3]\n";

#[test]
fn statements_are_lines() {
    check("", "");
    check("\n\n  # only this\r\n\n\n", "# only this\n");
    check("x  :  input f32[ 2,3 ]\r\n\treturn x\r\n", "x: input f32[2, 3]\nreturn x\n");
    check("\u{feff}x: input f32[]", "x: input f32[]\n");
}

#[test]
fn spaces() {
    let rows = [
        ("y=reshape x[6]", "y = reshape x [6]"),
        ("y = slice x [0 : 2,2:-1:- 1]", "y = slice x [0:2, 2:-1:-1]"),
        ("y=pad x[1:1,0 : 0]value - 1.5", "y = pad x [1:1, 0:0] value -1.5"),
        ("y=pad x[1:1,0:0]value bits( 5 )", "y = pad x [1:1, 0:0] value bits(5)"),
        ("y=concat( x,x )axis 1", "y = concat(x, x) axis 1"),
        ("y=top( x )k 2 smallest", "y = top(x) k 2 smallest"),
        ("y=einsum\"ik->ki\"x", "y = einsum \"ik->ki\" x"),
        ("y=einsum f32(i:2|k:3)sum x[i,k]", "y = einsum f32 (i: 2 | k: 3) sum x[i, k]"),
        ("y=einsum f32(|i,k)sum x[i,k]", "y = einsum f32 (| i, k) sum x[i, k]"),
        ("y=einsum f32(i:2|)map x[i,0]", "y = einsum f32 (i: 2) map x[i, 0]"),
        ("y=einsum f32(i:2)map x[-i+1,2-0]", "y = einsum f32 (i: 2) map x[-i + 1, 2 - 0]"),
        ("y=einsum f32(i:1,r:1)map x[0,2*i+1*r]", "y = einsum f32 (i: 1, r: 1) map x[0, 2*i + 1*r]"),
        ("y=map-x*- 2.0+(x)", "y = map -x * -2.0 + (x)"),
        ("y=map select(x>0.0&&!(x>=1.0),1.0:f32,x)", "y = map select(x > 0.0 && !(x >= 1.0), 1.0:f32, x)"),
        ("y=map cast < i32 > ( x )<<1:i32", "y = map cast<i32>(x) << 1:i32"),
        ("y=map x+bits(1):f32", "y = map x + bits(1):f32"),
        ("y=map\"x\"", "y = map \"x\""),
        ("return y=x", "return y = x"),
    ];
    for (text, expected) in rows {
        check(&format!("{X}{text}"), &format!("{X}{expected}\n"));
    }
}

#[test]
fn blocks() {
    check(
        &format!("{X}y=einsum f32(i,j)map{{of x[i,j],x[i,j];let a=$0;let b=$1;a*b}}"),
        &format!(
            "{X}y = einsum f32 (i, j) map {{\n  of x[i, j], x[i, j];\n  let a = $0;\n  let b = $1;\n  a * b\n}}\n"
        ),
    );
    // Braces around one short value go, and come where it is long.
    check(&format!("{X}y = map {{ x + 1.0 }}"), &format!("{X}y = map x + 1.0\n"));
    let long = ["max(x, 0.125) * 1.5"; 6].join(" + ");
    check(
        &format!("{X}y = map {long}"),
        &format!("{X}y = map {{\n  {}\n}}\n", ["max(x, 0.125) * 1.5"; 6].join("\n    + ")),
    );
}

#[test]
fn long_lists_are_filled() {
    let many: Vec<String> = (0..40).map(|n| format!("t{n}")).collect();
    let inputs: Vec<String> = many.iter().map(|t| format!("{t}: input f32[2]\n")).collect();
    let text = format!("{}y = concat({}) axis 0\n", inputs.concat(), many.join(","));
    let laid_out = format(&text).expect("it is right");
    let tail: Vec<&str> = laid_out.lines().skip(40).collect();
    assert_eq!(tail.first(), Some(&"y = concat("));
    assert_eq!(tail.last(), Some(&") axis 0"));
    assert!(tail.len() == 4 && tail.iter().all(|l| l.len() <= 100), "{laid_out}");
    assert_eq!(format(&laid_out), Ok(laid_out.clone()));
    assert_eq!(parse(&laid_out), parse(&text));
}

#[test]
fn a_long_call_is_taken_apart() {
    let (a, b) = (["x * 1.25"; 5].join(" - "), ["exp(x)"; 8].join(" * "));
    check(
        &format!("{X}y = map 1.0 + max({a}, {b})"),
        &format!("{X}y = map {{\n  1.0\n    + max(\n      {a},\n      {b}\n    )\n}}\n"),
    );
}

#[test]
fn comments_and_blank_lines_stay() {
    let text = "\
# What it is.


# And why.
x: input f32[2,3] # given


y = concat(x, # first
  # then
  x # again
) axis 0 # joined
z = einsum f32 (i: 2, j: 3) map {
  # a name

  let a = x[i,j]; # read

  # the value
  a + # inside
    a
  # the end
}
# last";
    let expected = "\
# What it is.

# And why.
x: input f32[2, 3]  # given

y = concat(
  x,  # first
  # then
  x  # again
) axis 0  # joined
z = einsum f32 (i: 2, j: 3) map {
  # a name

  let a = x[i, j];  # read

  # the value
  # inside
  a + a
  # the end
}
# last
";
    check(text, expected);
}

#[test]
fn what_is_wrong_is_not_laid_out() {
    let error = format("x: input f32[2").expect_err("it is not closed");
    assert_eq!((error.line, error.column), (1, 15));
}
