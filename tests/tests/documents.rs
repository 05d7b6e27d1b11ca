//! What documents list is what there is.

use ein_tests::operations::all;
use std::collections::BTreeSet;

/// `docs/operations.md` names every method that makes a tensor, once, and nothing else.
#[test]
fn the_list_of_operations_is_complete() {
    let page = include_str!("../../docs/operations.md");
    let listed: Vec<&str> =
        page.lines().filter(|l| l.starts_with('`')).flat_map(|l| l.split('`').skip(1).step_by(2)).collect();
    let unique: BTreeSet<&str> = listed.iter().copied().collect();
    let made: BTreeSet<&str> = all().iter().map(|r| r.name.split_whitespace().next().expect("a name")).collect();
    let missing: Vec<_> = made.difference(&unique).collect();
    let unknown: Vec<_> = unique.difference(&made).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
}
