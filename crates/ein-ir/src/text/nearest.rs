//! What a misspelt word may have meant.

/// The candidate that is nearest to a word, if it is near enough to be meant: a third of its letters may differ, or it
/// is the start or the end of the candidate.
pub(super) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // A long word costs as much as it is long, for every candidate.
    const LONGEST: usize = 64;
    let letters = word.chars().count();
    let near = candidates.into_iter().filter(|c| letters <= LONGEST && c.chars().count() <= LONGEST);
    let measured = near.filter_map(|c| {
        let edits = edits(word, c);
        let part = letters >= 3 && (c.starts_with(word) || c.ends_with(word));
        // A word of one letter is like any other.
        (part || (letters > 1 && edits <= (letters / 3).clamp(1, 3))).then_some((edits, c))
    });
    measured.min_by_key(|(edits, _)| *edits).map(|(_, c)| c)
}

/// `; did you mean … ?`, or nothing.
pub(super) fn hint<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}

/// As [`hint`]; where nothing is near, what there is.
pub(super) fn hint_or<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>, otherwise: &str) -> String {
    let meant = hint(word, candidates);
    if meant.is_empty() { format!("; {otherwise}") } else { meant }
}

/// How many letters have to be put in, left out, replaced or swapped with their neighbour; a capital counts as its
/// small letter.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase().chars().collect::<Vec<_>>(), b.to_lowercase().chars().collect::<Vec<_>>());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_near() {
        let rows = [
            ("atention", Some("attention")),
            ("gahter", Some("gather")),
            ("Reshape", Some("reshape")),
            ("transpose", None),
            ("shape", Some("reshape")),
            ("atten", Some("attention")),
            ("mean", None),
            ("x", None),
            ("sacn", Some("scan")),
            ("", None),
        ];
        for (word, meant) in rows {
            assert_eq!(nearest(word, ["attention", "gather", "reshape", "scan", "q", "max"]), meant, "{word}");
        }
        assert_eq!(edits("abcd", "acbd"), 1);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(nearest(&"a".repeat(1000), ["attention"]), None);
    }
}
