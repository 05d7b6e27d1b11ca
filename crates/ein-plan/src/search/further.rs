//! What the search gets to know beside its own candidates.

use super::Search;
use crate::error::PlanError;
use crate::needs::{home_relation, produced};
use crate::options::Objective;
use crate::tiny::{OutOfTime, Proposal, cheaper};

impl Search<'_> {
    /// Looks at every cut of every row where the graph is tiny, for something that takes less than `cost`. Whether there is
    /// something new to solve with.
    ///
    /// # Errors
    /// A deadline that comes first. The candidates may then be new and what may be decided of tensors not, so that there is
    /// nothing to solve any more.
    pub fn look_further(&mut self, cost: f64) -> Result<bool, PlanError> {
        let by_time = matches!(self.options.objective, Objective::Time | Objective::Makespan);
        if !self.tiny || !by_time || self.multiplier > 0.0 || self.hiding > 0.0 {
            return Ok(false);
        }
        // What is as good is no news.
        let limit = cost * (1.0 - 1e-9);
        let known = self.costs.answers();
        match cheaper(self.graph, self.machine, self.options, known, limit, self.limit, self.deadline) {
            Ok(Some(found)) => self.know(&found).map(|()| true),
            Ok(None) => Ok(false),
            Err(OutOfTime) => Err(self.out_of_time()),
        }
    }

    /// Adds decompositions to the candidates, and finds anew what may be decided of tensors. What then moves gets its price,
    /// which for these names of devices may be less than that of what is equal up to names.
    fn know(&mut self, proposal: &Proposal) -> Result<(), PlanError> {
        for (&id, decomposition) in &proposal.decompositions {
            let Some(spec) = self.graph.spec(id) else { continue };
            let number = self.rows[&id].0;
            let mut class = std::mem::take(&mut self.ops[number]);
            let mut places = class.places();
            let before = class.seconds.len();
            let working = self.enter(&mut class, &mut places, id, &spec, decomposition.clone());
            if class.seconds.len() > before && working.is_some_and(|w| w > self.limit) {
                class.pop();
            }
            self.ops[number] = class;
        }
        for moved in &proposal.moves {
            let (graph, id) = (self.graph, moved.tensor);
            let relation = match (&moved.from, proposal.decompositions.get(&id)) {
                (Some(held), _) => home_relation(graph, id, held),
                (None, Some(made)) => produced(graph, id, made, self.options.wide_partials),
                (None, None) => continue,
            };
            let (have, needs) = (self.layouts.relation(relation), self.layouts.needs(moved.needs.clone()));
            self.settle_one(have, needs, id)?;
        }
        self.sources.clear();
        self.tensors.clear();
        self.grids.clear();
        self.readers.clear();
        self.classify_tensors()
    }
}
