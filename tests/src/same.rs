//! When two results are the same.

use ein_ir::dense::Dense;
use std::collections::BTreeMap;

/// A number that the environment sets, such as how many seeds to run.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|t| !t.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, but must be a whole number")))
}

/// The first thing in which results differ by more than `tolerance` times the larger of 1 and the largest
/// magnitude expected. A NaN equals a NaN only, an infinity the same one only; 0 means the same values.
pub fn difference(
    found: &BTreeMap<String, Dense>,
    expected: &BTreeMap<String, Dense>,
    tolerance: f64,
) -> Option<String> {
    if !found.keys().eq(expected.keys()) {
        return Some(format!("outputs {:?}, expected {:?}", found.keys(), expected.keys()));
    }
    expected.iter().find_map(|(name, value)| {
        let what = one_difference(&found[name], value, tolerance)?;
        Some(format!("`{name}`: {what}"))
    })
}

/// [`difference`] of one tensor.
pub fn one_difference(found: &Dense, expected: &Dense, tolerance: f64) -> Option<String> {
    if found.ty() != expected.ty() {
        return Some(format!("{}, expected {}", found.ty(), expected.ty()));
    }
    let (found, expected) = (found.to_f64(), expected.to_f64());
    let scale = expected.iter().filter(|v| v.is_finite()).fold(1.0_f64, |m, v| m.max(v.abs()));
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * scale;
    let wrong = found.iter().zip(&expected).enumerate().filter(|(_, (a, b))| !same(**a, **b));
    let count = wrong.clone().count();
    let (at, (a, b)) = wrong.into_iter().next()?;
    Some(format!("element {at} is {a}, expected {b}; {count} of {} are off", expected.len()))
}

#[cfg(test)]
mod tests {
    use super::one_difference;
    use ein_ir::dense::Dense;

    #[test]
    fn differences_are_found() {
        let d = |v: &[f32]| Dense::f32([v.len()], v.to_vec());
        let rows: [(&[f32], &[f32], f64, bool); 9] = [
            (&[1.0, 2.0], &[1.0, 2.0], 0.0, true),
            (&[1.0, 2.0], &[1.0, 2.0001], 0.0, false),
            (&[1.0, 100.0], &[1.0, 100.05], 1e-3, true),
            (&[1.0, 100.0], &[1.0, 101.0], 1e-3, false),
            (&[f32::NAN], &[f32::NAN], 0.0, true),
            (&[f32::NAN], &[0.0], 1e9, false),
            (&[f32::INFINITY], &[f32::INFINITY], 0.0, true),
            (&[f32::INFINITY], &[f32::NEG_INFINITY], 1.0, false),
            (&[1.0], &[1.0, 1.0], 1.0, false),
        ];
        for (found, expected, tolerance, same) in rows {
            let is = one_difference(&d(found), &d(expected), tolerance).is_none();
            assert_eq!(is, same, "{found:?} {expected:?} {tolerance}");
        }
    }
}
