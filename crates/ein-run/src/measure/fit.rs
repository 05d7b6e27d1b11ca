//! Least squares.

/// Seconds as a straight line of an amount of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Seconds for no work; not negative.
    pub start: f64,
    /// Seconds for each unit of work.
    pub slope: f64,
}

impl Line {
    /// Seconds of an amount of work.
    pub fn at(&self, work: f64) -> f64 {
        self.start + self.slope * work
    }
}

/// The line through points (work, seconds) whose squared *relative* errors are least: otherwise the largest sizes
/// alone would decide. A line that would start below nothing starts at nothing.
///
/// ```
/// let line = ein_run::measure::fit(&[(1.0, 3.0), (2.0, 5.0), (10.0, 21.0)]);
/// assert!((line.start - 1.0).abs() < 1e-9 && (line.slope - 2.0).abs() < 1e-9);
/// ```
///
/// # Panics
///
/// Fewer than two different amounts, or times that are not positive.
pub fn fit(points: &[(f64, f64)]) -> Line {
    assert!(points.iter().all(|p| p.1 > 0.0), "a time is positive");
    // Dividing each equation by its time makes the errors relative: start · u + slope · v = 1.
    let (mut uu, mut uv, mut vv, mut u1, mut v1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(work, seconds) in points {
        let (u, v) = (1.0 / seconds, work / seconds);
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
    }
    let determinant = uu * vv - uv * uv;
    assert!(determinant > 1e-12 * uu * vv, "two different amounts of work make a line");
    let (start, slope) = ((u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant);
    if start >= 0.0 { Line { start, slope } } else { Line { start: 0.0, slope: v1 / vv } }
}

/// The middle of a list, or the mean of the two in the middle; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, middle) if n % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}
