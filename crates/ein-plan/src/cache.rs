//! Plans that were made before, by question: graph, machine and everything that was asked.
//!
//! In a process an answer is shared. Beyond it, a [`Store`] keeps texts: this crate reads and writes no file. What comes from
//! a store is not trusted: it must be of this planner and this very question, and passes the checks of [`crate::saved`]; else
//! the question is planned afresh and the text replaced.

use crate::error::PlanError;
use crate::options::Options;
use crate::plan::{Plan, plan};
use crate::recompute;
use crate::saved::{self, PLANNER};
use ein_ir::graph::Graph;
use ein_ir::simplify::simplify;
use ein_task::machine::Machine;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Where texts are kept between processes. Failures are a store's own business: what cannot be had is not there, and
/// what cannot be kept is lost.
pub trait Store: Send + Sync {
    /// The text of a key of 32 hexadecimal digits, if it is there.
    fn load(&self, key: &str) -> Option<String>;

    /// Keeps a text, whole or not at all, instead of the key's last one.
    fn keep(&self, key: &str, text: &str);
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was planned.
    Planned,
    /// This process had it.
    Process,
    /// The store had it.
    Store,
}

/// Answers of one process that are shared at most; the one asked for longest ago goes first.
const MOST: usize = 32;

/// Plans by question.
#[derive(Default)]
pub struct Cache {
    known: Mutex<Vec<Known>>,
    store: Option<Box<dyn Store>>,
}

/// A question and its answer.
struct Known {
    hash: u128,
    machine: Machine,
    options: Options,
    plan: Arc<Plan>,
}

impl Cache {
    /// A cache that asks and fills a store, too.
    pub fn with_store(store: impl Store + 'static) -> Self {
        Self { known: Mutex::default(), store: Some(Box::new(store)) }
    }

    /// The plan of a graph, and where it comes from. Refusals are not kept, nor what a time limit ended too early; a plan
    /// that is kept answers whatever the limit.
    pub fn plan(&self, graph: &Graph, machine: &Machine, asked: &Options) -> Result<(Arc<Plan>, Origin), PlanError> {
        let options = &Options { time_limit: None, ..asked.clone() };
        let hash = structure(graph);
        if let Some(plan) = self.known(hash, machine, options) {
            return Ok((plan, Origin::Process));
        }
        let simple = self.store.is_some().then(|| simplify(graph));
        let key = simple.as_ref().map(|simple| key(simple, machine, options));
        let kept = key.as_ref().zip(simple.as_ref()).and_then(|(key, simple)| self.load(key, simple, machine, options));
        let (plan, from) = match kept {
            Some(plan) => (Arc::new(plan), Origin::Store),
            None => (Arc::new(plan(graph, machine, asked)?), Origin::Planned),
        };
        if plan.report.effort.stopped {
            return Ok((plan, from));
        }
        if let (Some(store), Some(key), Origin::Planned) = (&self.store, &key, from) {
            let seconds = saved::json(&plan.report.planning_seconds);
            store.keep(key, &format!("{}seconds {seconds}\n{}", head(options), saved::print(&plan)));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(MOST - 1);
        known.insert(0, Known { hash, machine: machine.clone(), options: options.clone(), plan: plan.clone() });
        Ok((plan, from))
    }

    /// The answer that this process has; it becomes the latest.
    fn known(&self, hash: u128, machine: &Machine, options: &Options) -> Option<Arc<Plan>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|k| k.hash == hash && k.options == *options && k.machine == *machine)?;
        known[..=at].rotate_right(1);
        Some(known[0].plan.clone())
    }

    /// The answer that the store has, if it is one to this question.
    fn load(&self, key: &str, simple: &Graph, machine: &Machine, options: &Options) -> Option<Plan> {
        let text = self.store.as_ref()?.load(key)?;
        let (seconds, text) = text.strip_prefix(&head(options))?.strip_prefix("seconds ")?.split_once('\n')?;
        if saved::planner(text) != Some(PLANNER) {
            return None;
        }
        let mut plan = saved::read(text).ok()?;
        plan.report.planning_seconds = serde_json::from_str(seconds).ok()?;
        // Where memory binds, maps may be made again.
        let same = plan.graph == *simple || recompute::again(simple).is_some_and(|again| again == plan.graph);
        (same && plan.machine == *machine).then_some(plan)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).len();
        write!(f, "Cache of {known} plans, {} a store", if self.store.is_some() { "with" } else { "without" })
    }
}

/// What stands before a kept plan: the options as they were asked; those of the plan say what was needed to fit.
fn head(options: &Options) -> String {
    format!("asked {}\n", saved::json(options))
}

/// Rows and outputs of a graph as a number: 128 bits, so that two graphs never have the same by chance.
fn structure(graph: &Graph) -> u128 {
    let mut hasher = Xxh3::new();
    let mut writer = Words(&mut hasher, Vec::with_capacity(1 << 12));
    graph.nodes().hash(&mut writer);
    graph.outputs().hash(&mut writer);
    writer.flush();
    hasher.digest128()
}

/// The name of a question in a store, the planner included.
fn key(graph: &Graph, machine: &Machine, options: &Options) -> String {
    let text = format!("{PLANNER}\n{}\n{}\n{}", saved::json(options), machine.to_text(), ein_ir::text::print(graph));
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

/// Hashed values come as words of some bytes; together they are hashed ten times as fast.
struct Words<'a>(&'a mut Xxh3, Vec<u8>);

impl Words<'_> {
    fn flush(&mut self) {
        self.0.update(&self.1);
        self.1.clear();
    }
}

impl Hasher for Words<'_> {
    fn write(&mut self, bytes: &[u8]) {
        if self.1.len() + bytes.len() > self.1.capacity() {
            self.flush();
        }
        self.1.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        // The number of 128 bits is taken at the end.
        0
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
