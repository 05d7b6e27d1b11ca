//! What exchanges between layouts cost: a bound at first, the synthesised program's price once it matters.

use crate::answers::Answers;
use crate::exchanges::hand_out;
use crate::layouts::{Layouts, NeedsId, RelationId};
use crate::options::Objective;
use crate::pattern::{Axes, Pattern, Ports, Profile};
use crate::price::PriceError;
use ein_task::bounds;
use ein_task::machine::Machine;
use std::collections::HashMap;
use std::rc::Rc;

/// Seconds and bytes of one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Seconds by the counting page.
    pub seconds: f64,
    /// Bytes over all link crossings.
    pub bytes: f64,
}

impl Cost {
    /// The number that the search minimises. Where bytes tie, seconds decide.
    pub fn scalar(self, objective: Objective) -> f64 {
        match objective {
            Objective::Time | Objective::Memory => self.seconds,
            Objective::Bytes => self.bytes + TIE * self.seconds,
        }
    }
}

/// What a second is worth in bytes under the `bytes` objective: too little to outweigh a byte.
pub(crate) const TIE: f64 = 1e-3;

/// A price, and whether a synthesised program stands behind it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cost: Cost,
    exact: bool,
    /// Whether the bound is the one that all of the question proves, not the busiest port alone.
    sharp: bool,
}

/// Prices of exchanges by pattern.
pub(crate) struct Costs<'a> {
    machine: &'a Machine,
    ports: Ports,
    uniform: bool,
    pairs: HashMap<(RelationId, NeedsId), usize>,
    axes: Axes,
    relations: HashMap<RelationId, Option<Rc<Profile>>>,
    needs: HashMap<NeedsId, Option<Rc<Profile>>>,
    /// Patterns under the names that devices have, and under canonical names.
    patterns: HashMap<Pattern, usize>,
    canonical: HashMap<Pattern, usize>,
    entries: Vec<Entry>,
    /// Exchanges whose own price differs from their pattern's.
    own: HashMap<(RelationId, NeedsId), Cost>,
    exchanges: &'a mut Answers,
}

impl<'a> Costs<'a> {
    /// No price known yet.
    pub fn new(machine: &'a Machine, exchanges: &'a mut Answers) -> Self {
        Self {
            machine,
            ports: Ports::of(machine),
            uniform: Ports::uniform(machine),
            pairs: HashMap::new(),
            axes: Axes::default(),
            relations: HashMap::new(),
            needs: HashMap::new(),
            patterns: HashMap::new(),
            canonical: HashMap::new(),
            entries: Vec::new(),
            own: HashMap::new(),
            exchanges,
        }
    }

    /// The best known price of handing `needs` out from `have`: exact, or a bound.
    pub fn price(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) -> Cost {
        if let Some(own) = self.own.get(&(have, needs)) {
            return *own;
        }
        let entry = self.entry(layouts, have, needs);
        self.entries[entry].cost
    }

    fn entry(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) -> usize {
        if let Some(&known) = self.pairs.get(&(have, needs)) {
            return known;
        }
        let relation = layouts.relation_at(have);
        let axes = &mut self.axes;
        let from = self.relations.entry(have).or_insert_with(|| axes.of_relation(relation).map(Rc::new)).clone();
        let to = self.needs.entry(needs).or_insert_with(|| axes.of_needs(layouts.needs_at(needs)).map(Rc::new)).clone();
        let entry = if let (Some(from), Some(to)) = (from, to) {
            let found = self.axes.pattern(relation, &from, &to);
            let known = self.patterns.get(&found).copied();
            known.unwrap_or_else(|| {
                let entry = self.canonical_entry(&found);
                self.patterns.insert(found, entry);
                entry
            })
        } else {
            self.entries.push(Entry { cost: Cost::default(), exact: false, sharp: false });
            self.entries.len() - 1
        };
        self.pairs.insert((have, needs), entry);
        entry
    }

    /// The entry of a pattern not seen before under these names.
    fn canonical_entry(&mut self, found: &Pattern) -> usize {
        let canonical = if self.uniform { found.renamed() } else { found.clone() };
        let next = self.entries.len();
        let (seconds, bytes) = self.ports.bound(&canonical);
        let exact = canonical.0.is_empty();
        let entry = *self.canonical.entry(canonical).or_insert(next);
        if entry == next {
            self.entries.push(Entry { cost: Cost { seconds, bytes }, exact, sharp: exact });
        }
        entry
    }

    /// Makes the price of this exchange exact. Says whether anything changed.
    pub fn settle(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) -> Result<bool, PriceError> {
        let entry = self.entry(layouts, have, needs);
        if self.own.contains_key(&(have, needs)) {
            return Ok(false);
        }
        let before = self.entries[entry];
        let exchange = hand_out(layouts.relation_at(have), layouts.needs_at(needs));
        let answer = self.exchanges.answer(&exchange, self.machine)?;
        let traffic = &answer.traffic;
        let cost = Cost { seconds: traffic.seconds.0, bytes: traffic.bytes_total.0 as f64 };
        if before.exact {
            // Equal up to names, but the program found for these names may be another.
            if before.cost != cost {
                self.own.insert((have, needs), cost);
                return Ok(true);
            }
            return Ok(false);
        }
        self.entries[entry] = Entry { cost, exact: true, sharp: true };
        Ok(before.cost != cost)
    }

    /// Makes a bound as high as cuts and prices of the links prove, unless the price is exact: a hundredth of what
    /// finding a program takes.
    pub fn sharpen(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) {
        let entry = self.entry(layouts, have, needs);
        if self.entries[entry].sharp || self.own.contains_key(&(have, needs)) {
            return;
        }
        let exchange = hand_out(layouts.relation_at(have), layouts.needs_at(needs));
        let proved = bounds::bound(&exchange, &exchange.atoms(), self.machine).total().0;
        let entry = &mut self.entries[entry];
        entry.cost.seconds = entry.cost.seconds.max(proved);
        entry.sharp = true;
    }

    /// What answers the questions.
    pub fn answers(&mut self) -> &mut Answers {
        self.exchanges
    }

    /// Distinct patterns seen.
    pub fn patterns(&self) -> usize {
        self.entries.len()
    }
}
