//! How well one list of numbers tells another.

use ein_run::measure::median;

/// Pearson's correlation of pairs; 0 where one side does not vary.
pub fn pearson(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len().max(1) as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0 / count, s.1 + p.1 / count));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        xx += (a - x) * (a - x);
        yy += (b - y) * (b - y);
        xy += (a - x) * (b - y);
    }
    if xx == 0.0 || yy == 0.0 { 0.0 } else { xy / (xx * yy).sqrt() }
}

/// The median of how far the first of each pair is from the second, in parts of the second.
pub fn median_error(pairs: &[(f64, f64)]) -> f64 {
    median(&pairs.iter().map(|(found, true_)| (found / true_ - 1.0).abs()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_and_error_are_those_of_the_formulas() {
        let check = |pairs: &[(f64, f64)], r: f64, error: f64| {
            let found = (pearson(pairs), median_error(pairs));
            assert!((found.0 - r).abs() < 1e-9 && (found.1 - error).abs() < 1e-9, "{found:?}");
        };
        check(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)], 1.0, 0.5);
        check(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], -1.0, 2.0 / 3.0);
        check(&[(1.0, 1.0), (2.0, 1.0)], 0.0, 0.5);
        // Means 2 and 8/3; 1·4/3 + 0 + 1·1/3 ... by hand: xy = 1, xx = 2, yy = 14/3.
        check(&[(1.0, 1.0), (2.0, 4.0), (3.0, 3.0)], 2.0 / (2.0_f64 * 14.0 / 3.0).sqrt(), 0.0);
        check(&[], 0.0, 0.0);
    }
}
