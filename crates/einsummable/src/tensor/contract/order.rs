//! In which order the operands of an einsum are multiplied.

/// Axes as bits.
pub(super) type Axes = u128;

/// The most operands whose order is found by trying every pair of sets of them: 3ⁿ pairs.
const EXACT: usize = 10;

/// Pairs of operands to multiply, one after the other: operands are numbered as given, and every product is one more.
/// With few operands no order costs fewer multiplications; with many, each product is the one that leaves least.
pub(super) fn cheapest(operands: &[Axes], output: Axes, extents: &[usize]) -> Vec<(usize, usize)> {
    if operands.len() <= EXACT { exact(operands, output, extents) } else { greedy(operands, output, extents) }
}

/// Elements of a space of these axes. Floats, so that nothing overflows.
fn volume(axes: Axes, extents: &[usize]) -> f64 {
    extents.iter().enumerate().filter(|(n, _)| axes >> n & 1 == 1).map(|(_, &e)| e as f64).product()
}

/// The cheapest order of all, by dynamic programming over sets of operands.
fn exact(operands: &[Axes], output: Axes, extents: &[usize]) -> Vec<(usize, usize)> {
    let all = 1_usize << operands.len();
    let union = |set: usize| (0..operands.len()).filter(|n| set >> n & 1 == 1).fold(0, |axes, n| axes | operands[n]);
    let unions: Vec<Axes> = (0..all).map(union).collect();
    // What a set's product keeps: axes of its own that the output or an operand outside has.
    let kept: Vec<Axes> = (0..all).map(|set| unions[set] & (output | unions[all - 1 - set])).collect();
    let mut cost = vec![0.0_f64; all];
    let mut halves = vec![(0, 0); all];
    for set in (1..all).filter(|s| s.count_ones() > 1) {
        let mut best = f64::INFINITY;
        let lowest = set & set.wrapping_neg();
        let mut a = (set - 1) & set;
        while a > 0 {
            let b = set ^ a;
            // Each pair once: the side with the lowest operand comes first.
            if a & lowest != 0 {
                let total = cost[a] + cost[b] + volume(kept[a] | kept[b], extents);
                if total < best {
                    best = total;
                    halves[set] = (a, b);
                }
            }
            a = (a - 1) & set;
        }
        cost[set] = best;
    }
    let mut pairs = Vec::new();
    if operands.len() > 1 {
        listed(all - 1, &halves, operands.len(), &mut pairs);
    }
    pairs
}

/// Lists the products of a set, the set's own last; the number of its product.
fn listed(set: usize, halves: &[(usize, usize)], operands: usize, pairs: &mut Vec<(usize, usize)>) -> usize {
    if set.is_power_of_two() {
        return set.trailing_zeros() as usize;
    }
    let (a, b) = halves[set];
    let pair = (listed(a, halves, operands, pairs), listed(b, halves, operands, pairs));
    pairs.push(pair);
    operands + pairs.len() - 1
}

/// Always the product that makes least of its two operands; of those the cheapest, and then the first.
fn greedy(operands: &[Axes], output: Axes, extents: &[usize]) -> Vec<(usize, usize)> {
    let mut left: Vec<(usize, Axes)> = operands.iter().copied().enumerate().collect();
    let mut pairs = Vec::new();
    while left.len() > 1 {
        let mut least = (f64::INFINITY, f64::INFINITY);
        let mut best = (0, 1, 0);
        for i in 0..left.len() {
            for j in i + 1..left.len() {
                let others = left.iter().enumerate().filter(|(n, _)| *n != i && *n != j);
                let outside = others.fold(output, |axes, (_, o)| axes | o.1);
                let both = left[i].1 | left[j].1;
                let kept = both & outside;
                let grown = volume(kept, extents) - volume(left[i].1, extents) - volume(left[j].1, extents);
                let price = (grown, volume(both, extents));
                if price < least {
                    (least, best) = (price, (i, j, kept));
                }
            }
        }
        let (i, j, kept) = best;
        pairs.push((left[i].0, left[j].0));
        left.remove(j);
        left.remove(i);
        left.push((operands.len() + pairs.len() - 1, kept));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Axes by letters, a to z.
    fn axes(term: &str) -> Axes {
        term.bytes().fold(0, |axes, c| axes | 1 << (c - b'a'))
    }

    /// Multiplications of an order.
    fn cost(terms: &[Axes], output: Axes, extents: &[usize], pairs: &[(usize, usize)]) -> f64 {
        let mut parts: Vec<Option<Axes>> = terms.iter().copied().map(Some).collect();
        let mut total = 0.0;
        for &(a, b) in pairs {
            let (x, y) = (parts[a].take().expect("used once"), parts[b].take().expect("used once"));
            total += volume(x | y, extents);
            let outside = parts.iter().flatten().fold(output, |all, p| all | p);
            parts.push(Some((x | y) & outside));
        }
        assert_eq!(parts.iter().flatten().count(), 1, "one product is left");
        total
    }

    #[test]
    fn the_cheapest_order_is_found() {
        let check = |spec: &str, extents: &[usize], expected: &[(usize, usize)], price: f64| {
            let (terms, output) = spec.split_once("->").expect("an arrow");
            let terms: Vec<Axes> = terms.split(',').map(axes).collect();
            let pairs = cheapest(&terms, axes(output), extents);
            assert_eq!(pairs, expected, "{spec}");
            assert!((cost(&terms, axes(output), extents, &pairs) - price).abs() < 1e-9, "{spec}");
        };
        // Left first is 200 thousand multiplications, right first 20 million.
        check("ab,bc,cd->ad", &[10, 1000, 10, 1000], &[(0, 1), (3, 2)], 200_000.0);
        check("ab,bc,cd->ad", &[1000, 10, 1000, 10], &[(1, 2), (0, 3)], 200_000.0);
        check("a,b,ab->", &[50, 60], &[(1, 2), (0, 3)], 3050.0);
        check("ab->a", &[2, 3], &[], 0.0);
    }

    #[test]
    fn many_operands_are_put_in_a_good_order() {
        // A chain of thin and thick matrices: without the two ends every product is of the thin sides.
        let letters = "abcdefghijklmnopqrstu";
        let terms: Vec<Axes> = (0..20).map(|n| axes(&letters[n..n + 2])).collect();
        let extents: Vec<usize> = (0..21).map(|n| if n % 2 == 0 { 2 } else { 100 }).collect();
        let output = axes("au");
        let pairs = cheapest(&terms, output, &extents);
        assert_eq!(pairs.len(), 19);
        assert!(cost(&terms, output, &extents, &pairs) < 5000.0);
        let worst: Vec<(usize, usize)> = (0..19).map(|n| (if n == 0 { 19 } else { 19 + n }, 18 - n)).collect();
        assert!(cost(&terms, output, &extents, &worst) > 5000.0);
    }
}
