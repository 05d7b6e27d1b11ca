//! The PCIe tree that the pairs' common ancestors tell of.

use super::facts::Ancestor;

/// A place below the root: a GPU, or something whose members share one way up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// A GPU with a port of its own.
    Gpu(usize),
    /// A PCIe switch.
    Switch(Vec<Place>),
    /// A socket, where there are several.
    Socket(Vec<Place>),
}

impl Place {
    /// The GPUs at or below it.
    pub(crate) fn gpus(&self) -> Vec<usize> {
        match self {
            Self::Gpu(n) => vec![*n],
            Self::Switch(below) | Self::Socket(below) => below.iter().flat_map(Self::gpus).collect(),
        }
    }
}

/// What hangs below the root for `count` GPUs. Where the ancestor of a pair is not told, it is taken to be a host
/// bridge: then the two share nothing.
pub(crate) fn tree(count: usize, ancestor: &dyn Fn(usize, usize) -> Option<Ancestor>) -> Vec<Place> {
    let meet = |a: usize, b: usize| ancestor(a, b).unwrap_or(Ancestor::Bridge);
    let all: Vec<usize> = (0..count).collect();
    let sockets = groups(&all, Ancestor::Socket, &meet);
    if sockets.len() < 2 {
        return switches(&all, &meet);
    }
    sockets.iter().map(|members| Place::Socket(switches(members, &meet))).collect()
}

/// The switches, and the GPUs without one, of a socket.
fn switches(members: &[usize], meet: &dyn Fn(usize, usize) -> Ancestor) -> Vec<Place> {
    let outer = groups(members, Ancestor::Switches, meet);
    outer
        .into_iter()
        .map(|group| {
            let inner = groups(&group, Ancestor::Switch, meet);
            // One switch, or several in a row of which each has one GPU.
            if inner.len() == 1 || inner.len() == group.len() {
                return at_switch(group);
            }
            Place::Switch(inner.into_iter().map(at_switch).collect())
        })
        .collect()
}

fn at_switch(group: Vec<usize>) -> Place {
    match group.as_slice() {
        [one] => Place::Gpu(*one),
        _ => Place::Switch(group.into_iter().map(Place::Gpu).collect()),
    }
}

/// Members that meet at `level` or below, together; in order of their first.
fn groups(members: &[usize], level: Ancestor, meet: &dyn Fn(usize, usize) -> Ancestor) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &gpu in members {
        let near = |g: &Vec<usize>| g.iter().any(|&other| meet(other.min(gpu), other.max(gpu)) <= level);
        match groups.iter_mut().find(|g| near(g)) {
            Some(group) => group.push(gpu),
            None => groups.push(vec![gpu]),
        }
    }
    groups
}
