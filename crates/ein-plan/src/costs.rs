//! What exchanges between layouts cost: a bound at first, the synthesised program's price once it matters.

use crate::answers::Answers;
use crate::exchanges::hand_out;
use crate::layouts::{Layouts, NeedsId, RelationId};
use crate::options::Objective;
use crate::parallel::shared;
use crate::pattern::{Axes, Fingerprint, Profile};
use crate::ports::Ports;
use crate::price::PriceError;
use crate::symmetry::Symmetry;
use ein_task::bounds;
use ein_task::machine::Machine;
use rustc_hash::{FxHashMap, FxHashSet};
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
            Objective::Time | Objective::Makespan | Objective::Memory => self.seconds,
            Objective::Bytes => self.bytes + TIE * self.seconds,
        }
    }
}

/// What a second is worth in bytes under the `bytes` objective: too little to outweigh a byte.
pub(crate) const TIE: f64 = 1e-3;

/// Exchanges from which on several threads name them, and patterns from which on several threads look at them.
const SHARED_NAMES: usize = 4096;
const SHARED_PATTERNS: usize = 512;
/// The number of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId(u32);

/// A price, and whether a synthesised program stands behind it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    cost: Cost,
    exact: bool,
    /// Whether the bound is the one that all of the question proves, not the busiest port alone.
    sharp: bool,
    /// When it last changed.
    changed: u32,
}

/// Prices of exchanges by pattern.
pub(crate) struct Costs<'a> {
    machine: &'a Machine,
    ports: Ports,
    symmetry: Rc<Symmetry>,
    pairs: FxHashMap<(RelationId, NeedsId), EntryId>,
    axes: Axes,
    relations: FxHashMap<RelationId, Option<Profile>>,
    needs: FxHashMap<NeedsId, Option<Profile>>,
    /// Patterns under the names that devices have, and under canonical names.
    patterns: FxHashMap<Fingerprint, EntryId>,
    canonical: FxHashMap<Fingerprint, EntryId>,
    entries: Vec<Entry>,
    /// Counts changes of prices.
    now: u32,
    /// When the entry of a pair last became another.
    moved: u32,
    exchanges: &'a mut Answers,
}

impl<'a> Costs<'a> {
    /// No price known yet.
    pub fn new(machine: &'a Machine, exchanges: &'a mut Answers) -> Self {
        Self {
            machine,
            ports: Ports::of(machine),
            symmetry: exchanges.symmetry(machine),
            pairs: FxHashMap::default(),
            axes: Axes::default(),
            relations: FxHashMap::default(),
            needs: FxHashMap::default(),
            patterns: FxHashMap::default(),
            canonical: FxHashMap::default(),
            entries: Vec::new(),
            now: 0,
            moved: 0,
            exchanges,
        }
    }

    /// The best known price of handing `needs` out from `have`: exact, or a bound.
    pub fn price(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) -> Cost {
        let entry = self.entry(layouts, have, needs);
        self.at(entry)
    }

    /// The price of this number.
    pub fn at(&self, entry: EntryId) -> Cost {
        self.entries[entry.0 as usize].cost
    }

    /// How often prices have changed so far.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// When the number of some exchange last became another.
    pub fn moved(&self) -> u32 {
        self.moved
    }

    /// Whether any of these prices changed after `then`.
    pub fn changed(&self, entries: &[EntryId], then: u32) -> bool {
        then < self.now && entries.iter().any(|e| self.entries[e.0 as usize].changed > then)
    }

    /// The number of the price of handing `needs` out from `have`.
    pub fn entry(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) -> EntryId {
        self.pairs.get(&(have, needs)).copied().unwrap_or_else(|| self.entries(layouts, &[have], &[needs])[0])
    }

    /// The numbers of the prices of handing each of `wanted` out from each of `have`, the latter's first all first.
    pub fn entries(&mut self, layouts: &Layouts, have: &[RelationId], wanted: &[NeedsId]) -> Vec<EntryId> {
        let every = have.iter().flat_map(|&h| wanted.iter().map(move |&n| (h, n)));
        let mut entries: Vec<Option<EntryId>> = every.map(|pair| self.pairs.get(&pair).copied()).collect();
        let width = wanted.len();
        let unknown: Vec<(usize, usize)> =
            (0..entries.len()).filter(|&at| entries[at].is_none()).map(|at| (at / width, at % width)).collect();
        let names = self.named(layouts, have, wanted, &unknown);
        self.meet(layouts, have, wanted, &unknown, &names);
        self.pairs.reserve(unknown.len());
        for (&(h, n), name) in unknown.iter().zip(names) {
            let entry = match name {
                Some(name) => self.patterns[&name],
                None => self.new_entry(Cost::default(), false),
            };
            self.pairs.insert((have[h], wanted[n]), entry);
            entries[h * width + n] = Some(entry);
        }
        entries.into_iter().flatten().collect()
    }

    /// Gives every pattern among exchanges, given by their positions and names, an entry.
    fn meet(
        &mut self,
        layouts: &Layouts,
        have: &[RelationId],
        wanted: &[NeedsId],
        positions: &[(usize, usize)],
        names: &[Option<Fingerprint>],
    ) {
        let mut met: FxHashSet<Fingerprint> = FxHashSet::default();
        let named = positions.iter().zip(names).filter_map(|(&at, name)| Some((at, (*name)?)));
        let new: Vec<_> = named.filter(|(_, name)| !self.patterns.contains_key(name) && met.insert(*name)).collect();
        let (axes, ports, symmetry) = (&self.axes, &self.ports, &*self.symmetry);
        let (relations, needs) = (&self.relations, &self.needs);
        let look = |&((h, n), name): &((usize, usize), Fingerprint)| {
            let profiles = relations[&have[h]].as_ref().zip(needs[&wanted[n]].as_ref());
            let (from, to) = profiles.expect("what has a name has profiles");
            let found = axes.pattern(layouts.relation_at(have[h]), from, to);
            (name, found.renamed(symmetry), ports.bound(&found), found.0.is_empty())
        };
        for (name, canonical, (seconds, bytes), nothing) in shared(&new, SHARED_PATTERNS, look) {
            let known = self.canonical.get(&canonical).copied();
            let entry = known.unwrap_or_else(|| self.new_entry(Cost { seconds, bytes }, nothing));
            self.canonical.insert(canonical, entry);
            self.patterns.insert(name, entry);
        }
    }

    /// The fingerprints of exchanges, given by positions of what there is and of what is needed; nothing of those that have
    /// too many blocks. Threads share them where they are many.
    fn named(
        &mut self,
        layouts: &Layouts,
        have: &[RelationId],
        wanted: &[NeedsId],
        positions: &[(usize, usize)],
    ) -> Vec<Option<Fingerprint>> {
        if positions.is_empty() {
            return Vec::new();
        }
        let axes = &mut self.axes;
        for &h in have {
            self.relations.entry(h).or_insert_with(|| axes.of_relation(layouts.relation_at(h)));
        }
        for &n in wanted {
            self.needs.entry(n).or_insert_with(|| axes.of_needs(layouts.needs_at(n)));
        }
        let from: Vec<Option<&Profile>> = have.iter().map(|h| self.relations[h].as_ref()).collect();
        let to: Vec<Option<&Profile>> = wanted.iter().map(|n| self.needs[n].as_ref()).collect();
        let (own, other): (Vec<&Profile>, Vec<&Profile>) =
            (from.iter().flatten().copied().collect(), to.iter().flatten().copied().collect());
        axes.prepare(&own, &other);
        let axes = &*axes;
        let name = |&(h, n): &(usize, usize)| {
            let (from, to) = from[h].zip(to[n])?;
            Some(axes.fingerprint(layouts.relation_at(have[h]), from, to))
        };
        shared(positions, SHARED_NAMES, name)
    }

    fn new_entry(&mut self, cost: Cost, exact: bool) -> EntryId {
        let id = EntryId(u32::try_from(self.entries.len()).expect("fewer prices than 2^32"));
        self.entries.push(Entry { cost, exact, sharp: exact, changed: self.now });
        id
    }

    fn set(&mut self, entry: EntryId, cost: Cost, exact: bool) {
        self.now += 1;
        self.entries[entry.0 as usize] = Entry { cost, exact, sharp: true, changed: self.now };
    }

    /// Makes the price of this exchange exact. Says whether anything changed.
    pub fn settle(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) -> Result<bool, PriceError> {
        let entry = self.entry(layouts, have, needs);
        let before = self.entries[entry.0 as usize];
        let exchange = hand_out(layouts.relation_at(have), layouts.needs_at(needs));
        let answer = self.exchanges.answer(&exchange, self.machine)?;
        let traffic = &answer.traffic;
        let cost = Cost { seconds: traffic.seconds.0, bytes: traffic.bytes_total.0 as f64 };
        if before.cost == cost {
            self.entries[entry.0 as usize].exact = true;
            return Ok(false);
        }
        if before.exact {
            // Equal up to names, but the program found for these names is another.
            let own = self.new_entry(cost, true);
            self.now += 1;
            self.moved = self.now;
            self.pairs.insert((have, needs), own);
        } else {
            self.set(entry, cost, true);
        }
        Ok(true)
    }

    /// Makes a bound as high as cuts and prices of the links prove, unless the price is exact: a hundredth of what
    /// finding a program takes.
    pub fn sharpen(&mut self, layouts: &Layouts, have: RelationId, needs: NeedsId) {
        let entry = self.entry(layouts, have, needs);
        if self.entries[entry.0 as usize].sharp {
            return;
        }
        let exchange = hand_out(layouts.relation_at(have), layouts.needs_at(needs));
        let proved = bounds::bound(&exchange, &exchange.atoms(), self.machine).total().0;
        let Cost { seconds, bytes } = self.at(entry);
        self.set(entry, Cost { seconds: seconds.max(proved), bytes }, false);
    }

    /// What receiving a byte more at the busiest device adds to a price at least.
    pub fn least_of_a_byte(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Time | Objective::Makespan | Objective::Memory => 1.0 / self.ports.widest(),
            Objective::Bytes => 1.0,
        }
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
