//! Nested loops and the positions that walk along them, as text.

use std::fmt::Write;

/// Loops over a box, outermost first, and walkers: positions in memory, or indices, that are affine in the loops.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Loops {
    /// Rounds of every loop.
    pub(crate) extents: Vec<usize>,
    /// For every walker, its step in every loop.
    pub(crate) steps: Vec<Vec<i64>>,
}

impl Loops {
    /// Loops of these extents; `steps` are the walkers' steps in each.
    pub(crate) fn new(extents: Vec<usize>, steps: Vec<Vec<i64>>) -> Self {
        Self { extents, steps }
    }

    /// Points.
    pub(crate) fn count(&self) -> u64 {
        self.extents.iter().map(|&e| e as u64).product()
    }

    /// Without loops of one round, neighbours that every walker walks on through joined.
    pub(crate) fn merged(mut self) -> Self {
        for l in (0..self.extents.len()).rev() {
            if self.extents[l] == 1 {
                self.remove(l);
            }
        }
        for l in (1..self.extents.len()).rev() {
            let rounds = self.extents[l] as i64;
            if self.steps.iter().all(|s| s[l - 1] == s[l] * rounds) {
                self.extents[l] *= self.extents[l - 1];
                self.remove(l - 1);
            }
        }
        self
    }

    /// Takes a loop out.
    pub(crate) fn remove(&mut self, l: usize) {
        self.extents.remove(l);
        self.steps.iter_mut().for_each(|s| {
            s.remove(l);
        });
    }

    /// The loops in another order: loop `n` is what was loop `order[n]`. Those not named are left out.
    pub(crate) fn ordered(&self, order: &[usize]) -> Self {
        let pick = |s: &Vec<i64>| order.iter().map(|&l| s[l]).collect();
        Self { extents: order.iter().map(|&l| self.extents[l]).collect(), steps: self.steps.iter().map(pick).collect() }
    }

    /// Rounds of the innermost loop; 1 where there is none.
    pub(crate) fn inner(&self) -> usize {
        self.extents.last().copied().unwrap_or(1)
    }

    /// The step of a walker in the innermost loop; 0 where there is none.
    pub(crate) fn inner_step(&self, walker: usize) -> i64 {
        self.steps[walker].last().copied().unwrap_or(0)
    }

    /// How far from its first position a walker goes, either way, at most.
    pub(crate) fn reach(&self, walker: usize) -> u64 {
        let far = |(&s, &e): (&i64, &usize)| s.unsigned_abs() * (e as u64).saturating_sub(1);
        self.steps[walker].iter().zip(&self.extents).map(far).sum()
    }

    /// Whether points and positions have to be counted in 64 bits.
    pub(crate) fn wide(&self) -> bool {
        let most = (0..self.steps.len()).map(|w| self.reach(w)).max().unwrap_or(0);
        // Room for the threads beyond the last point.
        self.count().max(most) >= (1 << 31) - (1 << 24)
    }

    /// The type to count in: `int` or `long long`.
    pub(crate) fn counter(&self) -> &'static str {
        if self.wide() { "long long" } else { "int" }
    }

    /// Statements that declare, as `<prefix><walker>`, the positions of the walkers at the point of number `number`, an
    /// expression of the type `counter`. The walkers are relative to their first positions.
    pub(crate) fn positions(&self, number: &str, prefix: &str, counter: &str) -> String {
        let mut text = String::new();
        let mut rest = number.to_string();
        let mut index = vec![String::new(); self.extents.len()];
        for l in (0..self.extents.len()).rev() {
            let name = format!("{prefix}i{l}");
            let extent = self.extents[l];
            if l == 0 {
                let _ = writeln!(text, "const {counter} {name} = {rest};");
            } else {
                let _ = writeln!(text, "const {counter} {name} = {rest} % {extent}, {prefix}r{l} = {rest} / {extent};");
                rest = format!("{prefix}r{l}");
            }
            index[l] = name;
        }
        for (w, steps) in self.steps.iter().enumerate() {
            let term = |(s, i): (&i64, &String)| match s {
                0 => None,
                1 => Some(i.clone()),
                s => Some(format!("{i} * ({counter}){s}")),
            };
            let terms: Vec<String> = steps.iter().zip(&index).filter_map(term).collect();
            let sum = if terms.is_empty() { "0".into() } else { terms.join(" + ") };
            let _ = writeln!(text, "const {counter} {prefix}{w} = {sum};");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_join_where_all_walk_on() {
        let check = |extents: &[usize], steps: &[&[i64]], expected: (&[usize], &[&[i64]])| {
            let all = |s: &[&[i64]]| s.iter().map(|s| s.to_vec()).collect::<Vec<_>>();
            let got = Loops::new(extents.to_vec(), all(steps)).merged();
            assert_eq!(got, Loops::new(expected.0.to_vec(), all(expected.1)));
        };
        check(&[2, 3, 4], &[&[12, 4, 1]], (&[24], &[&[1]]));
        check(&[2, 3, 4], &[&[12, 4, 1], &[0, 4, 1]], (&[2, 12], &[&[12, 1], &[0, 1]]));
        check(&[2, 1, 4], &[&[4, 9, 1]], (&[8], &[&[1]]));
        check(&[1, 1], &[&[4, 9]], (&[], &[&[]]));
        check(&[3, 2], &[&[1, 3]], (&[3, 2], &[&[1, 3]]));
        check(&[5, 4], &[&[0, 0]], (&[20], &[&[0]]));
    }

    #[test]
    fn positions_are_sums_of_steps() {
        let loops = Loops::new(vec![2, 3], vec![vec![3, 1], vec![0, -5]]);
        assert_eq!(
            loops.positions("n", "p", "int"),
            "const int pi1 = n % 3, pr1 = n / 3;\nconst int pi0 = pr1;\nconst int p0 = pi0 * (int)3 + pi1;\nconst int p1 = \
             pi1 * (int)-5;\n"
        );
    }
}
