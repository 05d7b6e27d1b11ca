//! The tables of the search: what every value of every variable, and every pair of neighbours, costs.

use super::classes::share;
use super::{Search, SourceClass, State, delivers};
use crate::costs::{EntryId, TIE};
use crate::elimination::Table;
use crate::layouts::{NeedsId, RelationId};
use crate::options::Objective;
use ein_ir::graph::TensorId;
use ein_task::machine::DeviceSet;
use ein_task::relation::Held;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The share of an exchange that nothing hides.
const LEFT: f64 = 0.125;

/// How what a row makes comes to a home: what that asks for, and the only relation it is a home for.
type Door = (Option<NeedsId>, Option<RelationId>);

/// So many states to a door are worth a variable of its own.
const CROWD: usize = 2;

/// Which prices a reader's table holds.
pub(super) struct Grid {
    /// The relation of every value of the home, by its place among the distinct ones.
    relations: Vec<usize>,
    /// Distinct lists of needs of the reader.
    lists: Vec<NeedsId>,
    /// The list of each of the reader's candidates, if it needs anything.
    columns: Vec<Option<usize>>,
    /// The price of every list from every distinct relation.
    entries: Vec<EntryId>,
    /// As of which move of prices to other numbers.
    moved: u32,
}

impl State {
    fn door(&self) -> Door {
        (self.needs, self.only)
    }
}

impl SourceClass {
    /// The doors of the homes, and that of every home, where many homes have one: it is then a variable of its own, so
    /// that what lies before it is looked at once for all of them.
    fn doors(&self) -> Option<(Vec<Door>, Vec<usize>)> {
        let mut known: BTreeMap<Door, usize> = BTreeMap::new();
        let mut doors = Vec::new();
        let of = |s: &State| {
            *known.entry(s.door()).or_insert_with(|| {
                doors.push(s.door());
                doors.len() - 1
            })
        };
        let of_states: Vec<usize> = self.states.iter().map(of).collect();
        (of_states.len() >= CROWD * doors.len()).then_some((doors, of_states))
    }

    /// Through which door every home is reached: 0 through its own, and forbidden through all others.
    fn door_table(&self) -> Vec<f64> {
        let Some((doors, of_states)) = self.doors() else { return Vec::new() };
        let row = |door: usize| of_states.iter().map(move |&own| if own == door { 0.0 } else { f64::INFINITY });
        (0..doors.len()).flat_map(row).collect()
    }
}

impl Search<'_> {
    /// Variables and factors, from the prices as they are known now.
    pub(super) fn build(&mut self, relaxed: bool) {
        self.model.clear();
        self.tables.clear();
        self.row_variable.clear();
        self.home_variable.clear();
        let mut door_variable: BTreeMap<TensorId, usize> = BTreeMap::new();
        let mut doors: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        for id in self.graph.ids() {
            if let Some((class, _)) = self.rows.get(&id) {
                let size = self.ops[*class].seconds.len();
                self.row_variable.insert(id, self.model.variable(size));
            }
            if let Some((class, _)) = self.tensors.get(&id)
                && self.has_variable(*class)
            {
                let class = *class;
                if self.sources[class].states.is_empty() {
                    self.find_states(class, id);
                }
                let own = &self.sources[class];
                let shared = if relaxed && own.is_crowded() { own.shared_lists().len() } else { 0 };
                let size = own.states.len() + shared;
                let has_doors = relaxed && own.is_crowded() && self.row_variable.contains_key(&id);
                let count = || own.doors().map(|(doors, _)| doors.len());
                if has_doors && let Some(doors) = *doors.entry(class).or_insert_with(count) {
                    door_variable.insert(id, self.model.variable(doors));
                }
                self.home_variable.insert(id, self.model.variable(size));
            }
        }
        for id in self.graph.ids() {
            if let Some(&(class, _)) = self.rows.get(&id) {
                let table = self.table((class, 0), |s| s.compute_table(class));
                self.model.factor(&[self.row_variable[&id]], &table);
            }
            let Some((class, readers)) = self.tensors.get(&id).cloned() else { continue };
            let Some(&home) = self.home_variable.get(&id) else {
                if self.multiplier > 0.0
                    && let [reader] = readers[..]
                {
                    let table = self.table((usize::MAX - class, 2 << 32), |s| s.own_home_table(class));
                    self.model.factor(&[self.row_variable[&reader]], &table);
                }
                continue;
            };
            // Tables of the relaxed model differ where sharing is possible, and only there.
            let relaxed = relaxed && self.sources[class].is_crowded();
            let code = (usize::MAX - class, if relaxed { 1 << 32 } else { 0 });
            let table = self.table((code.0, code.1), |s| s.home_table(class, relaxed));
            self.model.factor(&[home], &table);
            if let Some(&row) = self.row_variable.get(&id) {
                let table = self.table((code.0, code.1 + 1), |s| s.arrival_table(class, relaxed));
                let door = door_variable.get(&id).copied();
                self.model.factor(&[row, door.unwrap_or(home)], &table);
                if let Some(door) = door {
                    let table = self.table((code.0, 3 << 32), |s| s.sources[class].door_table());
                    self.model.factor(&[door, home], &table);
                }
            }
            for (n, reader) in readers.iter().enumerate() {
                let table = self.reader((code.0, code.1 + 2 + n), class, n, relaxed);
                self.model.factor(&[home, self.row_variable[reader]], &table);
            }
        }
    }

    /// Whether the home of a tensor is decided by the model. A resident one costs nothing where memory does
    /// not, so its home is simply what its readers need. So is that of one that a single row reads as long as a byte of
    /// memory costs less than moving one does: what another home saves of it, the busiest device would have to receive.
    pub(super) fn has_variable(&self, class: usize) -> bool {
        let own = &self.sources[class];
        !own.resident || self.multiplier > 0.0 && (own.own_homes.is_empty() || self.apart || self.is_dear())
    }

    /// Whether moving a byte may cost less than holding it at every device that computes.
    fn is_dear(&self) -> bool {
        let hidden = if self.hiding > 0.0 { LEFT } else { 1.0 };
        self.multiplier * (1.0 + self.uneven) > hidden * self.costs.least_of_a_byte(self.options.objective)
    }

    /// What a row's candidates cost by the memory of a resident tensor that it alone reads.
    fn own_home_table(&mut self, class: usize) -> Vec<f64> {
        let bytes = self.own_home_bytes(class);
        bytes.into_iter().map(|bytes| self.multiplier * bytes).collect()
    }

    /// The bytes that count as memory of a resident tensor that one row alone reads, for each of the row's candidates.
    pub(super) fn own_home_bytes(&self, class: usize) -> Vec<f64> {
        let own = &self.sources[class];
        let (row, slot) = own.readers[0];
        let bytes = |list: &Option<NeedsId>| list.map_or(0.0, |list| self.counted(own.own_homes[&list]));
        self.ops[row].needs[slot].iter().map(bytes).collect()
    }

    /// A table of this build; the same object as in the last build if the numbers are the same.
    fn table(&mut self, key: (usize, usize), make: impl FnOnce(&mut Self) -> Vec<f64>) -> Table {
        if let Some(table) = self.tables.get(&key) {
            return table.clone();
        }
        let data = make(self);
        let table = self.model.keep(key, data);
        self.tables.insert(key, table.clone());
        table
    }

    /// The table of a reader, made anew only where a price in it has changed.
    fn reader(&mut self, key: (usize, usize), class: usize, reader: usize, relaxed: bool) -> Table {
        if let Some(table) = self.tables.get(&key) {
            return table.clone();
        }
        let grid = self.grid(class, reader);
        let table = match self.readers.get(&key) {
            Some((table, as_of, built))
                if !relaxed
                    && self.held == 0.0
                    && Rc::ptr_eq(as_of, &grid)
                    && !self.costs.changed(&grid.entries, *built) =>
            {
                table.clone()
            }
            _ => {
                let data = self.reader_table(class, reader, relaxed);
                let table = self.model.keep(key, data);
                self.readers.insert(key, (table.clone(), grid, self.costs.now()));
                table
            }
        };
        self.tables.insert(key, table.clone());
        table
    }

    fn compute_table(&self, class: usize) -> Vec<f64> {
        let scale = match self.options.objective {
            Objective::Time | Objective::Makespan | Objective::Memory => 1.0,
            Objective::Bytes => TIE,
        };
        let own = &self.ops[class];
        own.seconds.iter().map(|s| s * scale).collect()
    }

    fn home_table(&mut self, class: usize, relaxed: bool) -> Vec<f64> {
        let own = &self.sources[class];
        let multiplier = if own.resident { self.multiplier } else { self.held_price(class) };
        let (objective, uneven) = (self.options.objective, self.uneven);
        let (costs, layouts) = (&mut self.costs, &self.layouts);
        let mut data: Vec<f64> = own
            .states
            .iter()
            .enumerate()
            .map(|(at, s)| {
                let mut price = |n: NeedsId| costs.price(layouts, s.relation, n).scalar(objective);
                let out = own.outputs.filter(|n| s.extra != Some(*n)).map_or(0.0, |n| {
                    let part = if relaxed { own.part(at, n, own.readers.len()) } else { 1.0 };
                    part * price(n)
                });
                multiplier * (s.share.mean + uneven * s.share.largest) + out + s.extra.map_or(0.0, price)
            })
            .collect();
        if relaxed {
            let outputs = own.outputs;
            for list in own.shared_lists() {
                let served = outputs.is_none_or(|n| delivers(&self.layouts, list, n));
                data.push(if served { self.best_home(class, list).1 } else { f64::INFINITY });
            }
        }
        data
    }

    /// What going to each home costs each of the producer's candidates; in the relaxed model, where doors have a variable,
    /// what going through each of these does.
    fn arrival_table(&mut self, class: usize, relaxed: bool) -> Vec<f64> {
        let own = &self.sources[class];
        let doors = own.doors().filter(|_| relaxed).map(|(doors, _)| doors);
        let doors: Vec<Door> = doors.unwrap_or_else(|| own.states.iter().map(State::door).collect());
        let producer = &self.ops[own.producer.expect("only made tensors arrive")];
        let hiding = self.hiding;
        let objective = self.options.objective;
        let (multiplier, uneven) = (self.held_price(class), self.uneven);
        let (costs, layouts) = (&mut self.costs, &self.layouts);
        // Asked together, because that costs less.
        let distinct: BTreeSet<RelationId> = producer.produced.iter().copied().collect();
        let wanted = doors.iter().filter(|door| door.1.is_none()).filter_map(|door| door.0);
        let wanted: Vec<NeedsId> = wanted.collect::<BTreeSet<_>>().into_iter().collect();
        costs.entries(layouts, &distinct.into_iter().collect::<Vec<_>>(), &wanted);
        let mut rows: BTreeMap<RelationId, Vec<f64>> = BTreeMap::new();
        for &left in &producer.produced {
            // What goes home is held beside what comes of it.
            let beside = if multiplier > 0.0 {
                let relation = layouts.relation_at(left);
                let element = relation.pending.bytes(&relation.whole) / relation.whole.volume().max(1);
                let share = share(&relation.blocks, element, &self.workers);
                multiplier * (share.mean + uneven * share.largest)
            } else {
                0.0
            };
            rows.entry(left).or_insert_with(|| {
                let price = |&(needs, only): &Door| match needs {
                    _ if only.is_some_and(|only| only != left) => f64::INFINITY,
                    None => 0.0,
                    Some(needs) => costs.price(layouts, left, needs).scalar(objective) + beside,
                };
                doors.iter().map(price).collect()
            });
        }
        let candidates = producer.produced.iter().zip(&producer.seconds);
        candidates.flat_map(|(left, &own)| rows[left].iter().map(move |&e| hidden(e, hiding * own))).collect()
    }

    /// The numbers of the prices that a reader's table holds.
    fn grid(&mut self, class: usize, reader: usize) -> Rc<Grid> {
        let own = &self.sources[class];
        let fresh = |g: &&Rc<Grid>| g.relations.len() == own.states.len() && g.moved == self.costs.moved();
        if let Some(known) = self.grids.get(&(class, reader)).filter(fresh) {
            return known.clone();
        }
        let (c, slot) = own.readers[reader];
        let needs = &self.ops[c].needs[slot];
        let lists: Vec<NeedsId> = needs.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let column = |n: &Option<NeedsId>| n.map(|n| lists.binary_search(&n).expect("it is one of the lists"));
        let columns = needs.iter().map(column).collect();
        // Homes that differ in what is shared have one relation.
        let distinct: Vec<RelationId> =
            own.states.iter().map(|s| s.relation).collect::<BTreeSet<_>>().into_iter().collect();
        let place = |s: &State| distinct.binary_search(&s.relation).expect("it is one of them");
        let relations = own.states.iter().map(place).collect();
        let entries = self.costs.entries(&self.layouts, &distinct, &lists);
        let moved = self.costs.moved();
        let grid = Rc::new(Grid { relations, lists, columns, entries, moved });
        self.grids.insert((class, reader), grid.clone());
        grid
    }

    /// What a list costs where it is held for a time, by its bytes.
    fn beside(&self, class: usize, list: NeedsId) -> f64 {
        let multiplier = self.held_price(class);
        if multiplier == 0.0 {
            return 0.0;
        }
        let needs = self.layouts.needs_at(list).iter();
        let blocks: Vec<Held> =
            needs.map(|n| Held { region: n.region.clone(), devices: DeviceSet::one(n.device) }).collect();
        let share = share(&blocks, self.sources[class].element, &self.workers);
        multiplier * (share.mean + self.uneven * share.largest)
    }

    fn reader_table(&mut self, class: usize, reader: usize, relaxed: bool) -> Vec<f64> {
        let grid = self.grid(class, reader);
        let own = &self.sources[class];
        let objective = self.options.objective;
        let width = grid.lists.len();
        // Which candidate makes the tensor is not known here; it takes no less than the quickest.
        let made = own.producer.map_or(0.0, |p| self.ops[p].seconds.iter().copied().fold(f64::INFINITY, f64::min));
        let mut data = Vec::with_capacity((own.states.len() + own.lists.len()) * grid.columns.len());
        let mut prices = vec![0.0; width];
        // What is handed out is held beside the home.
        let beside: Vec<f64> = grid.lists.iter().map(|&list| self.beside(class, list)).collect();
        for (at, (state, &relation)) in own.states.iter().zip(&grid.relations).enumerate() {
            let entries = &grid.entries[relation * width..(relation + 1) * width];
            for (((price, entry), list), beside) in prices.iter_mut().zip(entries).zip(&grid.lists).zip(&beside) {
                let shared = state.extra == Some(*list);
                let part = if relaxed { own.part(at, *list, reader) } else { 1.0 };
                let own_price = self.costs.at(*entry).scalar(objective);
                *price = if shared || own_price == 0.0 { 0.0 } else { part * own_price + beside };
            }
            let columns = grid.columns.iter().zip(&self.ops[own.readers[reader].0].seconds);
            data.extend(columns.map(|(c, &s)| c.map_or(0.0, |c| hidden(prices[c], self.hiding * s.max(made)))));
        }
        if relaxed {
            for list in own.shared_lists() {
                let serves: Vec<f64> = grid
                    .lists
                    .iter()
                    .map(|&n| if delivers(&self.layouts, list, n) { 0.0 } else { f64::INFINITY })
                    .collect();
                data.extend(grid.columns.iter().map(|c| c.map_or(0.0, |c| serves[c])));
            }
        }
        data
    }
}

/// What an exchange counts for where so many seconds of it can hide behind what is computed before or after it. A part
/// stays, since the first and the last piece of it hide behind nothing.
fn hidden(seconds: f64, behind: f64) -> f64 {
    if behind > 0.0 { (seconds - behind).max(LEFT * seconds) } else { seconds }
}
