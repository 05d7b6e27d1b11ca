//! The walk along the hull of (bytes, cost), from a plan that fits towards one that is cheaper and does not, and mixtures
//! of the two neighbours at its end.

use super::{Attempt, FEW, Fitting, TINY};
use crate::error::PlanError;
use crate::search::{Assigned, Room, SOMEWHAT};

/// Most prices of memory that are tried between a plan that fits and one that does not.
const STEPS: usize = 12;

/// Plans that do not fit although they seemed to, at most.
const ERRORS: usize = 3;

/// A mixture is cheaper than another one that fits by this share of its cost, or it is not worth lowering.
const LITTLE: f64 = 1e-4;

/// Most mixtures of two plans that are lowered.
const MIXTURES: usize = 6;

/// Prices of memory, as multiples of the first: those that the search finds hardly worth paying, then any.
const PRICES: [f64; 7] = [8.0, 64.0, 4096.0, 262_144.0, 1.0, 512.0, 32_768.0];

/// How many times what devices must hold beside what is resident they hold at most: exchanges and what lives longer are in it.
const ROOMY: f64 = 4.0;

/// So many times that is room in which it surely fits.
const AMPLE: f64 = 4.0;

/// How far from the hull of (bytes, cost) its corners that are known may be, as a share of the cost.
const FLAT: f64 = 2e-5;

/// A plan that fits, and the bytes left of the device that has least left.
struct Fits {
    plan: Attempt,
    left: f64,
}

/// A corner of the hull.
struct Corner {
    /// Without its memory.
    cost: f64,
    /// Bytes that count as memory.
    bytes: f64,
    /// The assignment, unless it is one of a model in which what is resident has no home.
    values: Option<Assigned>,
}

impl Corner {
    fn of(attempt: Attempt) -> Self {
        Self { cost: attempt.cost, bytes: attempt.found.memory, values: Some(attempt.found.values) }
    }
}

impl Fitting<'_> {
    /// Finds two neighbours on the hull of (bytes, cost) of which one fits and the other does not, then mixes them.
    pub(super) fn walk(&mut self, free: &Attempt, held: Room) -> Result<(), PlanError> {
        let first = self.first(free, held);
        // One plan says what would do.
        if !self.search.may_fit() {
            let tried = self.attempt(first * 4096.0)?;
            self.lowered_anyway(&tried.found.choice, tried.cost)?;
            return Ok(());
        }
        let mut choices = vec![(free.found.choice.clone(), free.cost)];
        for factor in PRICES {
            let tried = self.attempt(first * factor)?;
            choices.push((tried.found.choice.clone(), tried.cost));
            let held = self.search.resident(&tried.found.choice);
            // With room enough it surely fits, and only what is cheaper is lowered.
            let beside = ROOMY * self.search.worked_on_by_one();
            let left = if held.left - beside >= held.fullest || held.left >= AMPLE * beside {
                Some(held.left - beside)
            } else {
                self.lowered(&tried.found.choice, tried.cost)?.map(|room| room.left).filter(|&left| left >= 0.0)
            };
            if let Some(left) = left {
                let bytes = self.search.counted_of(&free.found.choice);
                let cheap = Corner { cost: free.cost, bytes, values: None };
                self.mix_neighbours(cheap, Fits { plan: tried, left }, first)?;
            }
            if self.best.is_some() {
                break;
            }
        }
        // What is slower than others because it stores less at once may still be quicker than what else fits.
        if self.best.is_none() || self.rows() <= FEW {
            choices.dedup();
            for (choice, _) in &choices {
                if self.search.resident(choice).left >= 0.0 {
                    self.lowered_lean(choice)?;
                }
            }
        }
        if self.best.is_none() || self.rows() <= TINY {
            self.search.hold_less(&[]);
            self.least_held(first)?;
            self.search.hold_less(&[]);
        }
        // What is refused is refused where the least memory is asked for, too.
        if self.best.is_none() && self.rows() <= FEW {
            self.dearer_and_dearer(first)?;
        }
        if self.best.is_none() && self.lack.is_none() {
            for (choice, cost) in &choices {
                self.lowered_anyway(choice, *cost)?;
            }
        }
        if self.best.is_some() && self.bound <= 0.0 {
            self.bound_at(0.0)?;
        }
        Ok(())
    }

    /// Walks the hull from a plan that fits towards one that is cheaper and does not, to two neighbours, and mixes them.
    ///
    /// What a device holds beside its part of what is resident is about what it is of the plan that fits, so only the last
    /// one that seems to fit is lowered; if it does not after all, the walk goes on below it.
    fn mix_neighbours(&mut self, mut cheap: Corner, mut dear: Fits, first: f64) -> Result<(), PlanError> {
        let mut beside = self.search.resident(&dear.plan.found.choice).left - dear.left;
        let mut price = None;
        for _ in 0..ERRORS {
            let (next, last) = self.neighbours(&mut cheap, &dear.plan, beside)?;
            price = last.or(price);
            let Some(next) = next else { break };
            // Of a large graph a mixture is lowered soon, and tells as much.
            if self.rows() > FEW {
                let left = self.search.resident(&next.found.choice).left - beside;
                dear = Fits { plan: next, left };
                break;
            }
            let room = self.lowered(&next.found.choice, next.cost)?;
            if let Some(left) = room.map(|room| room.left).filter(|&left| left >= 0.0) {
                dear = Fits { plan: next, left };
                break;
            }
            beside = room.map_or(beside, |room| self.search.resident(&next.found.choice).left - room.left);
            cheap = Corner::of(next);
        }
        if let Some(price) = price {
            self.mix(cheap, &dear, first, price)?;
        }
        if self.best.as_ref().is_none_or(|best| dear.plan.cost < best.cost) {
            self.lowered(&dear.plan.found.choice, dear.plan.cost)?;
        }
        if let Some(price) = price.filter(|_| self.best.is_some()) {
            self.bound_at(price)?;
        }
        Ok(())
    }

    /// Walks the hull between a plan that does not fit and one that does, of which `beside` bytes are held beside what is
    /// resident: `cheap` becomes the neighbour that does not seem to fit. The one that seems to, if it is another, and the
    /// price of a byte between them, if there is one.
    fn neighbours(
        &mut self,
        cheap: &mut Corner,
        fits: &Attempt,
        beside: f64,
    ) -> Result<(Option<Attempt>, Option<f64>), PlanError> {
        let (mut dear, mut price) = (None, None);
        for _ in 0..STEPS {
            let own: &Attempt = dear.as_ref().unwrap_or(fits);
            let (cost, bytes) = (own.cost, own.found.memory);
            let slope = (cost - cheap.cost) / (cheap.bytes - bytes);
            if !slope.is_finite() || slope <= 0.0 {
                break;
            }
            price = Some(slope);
            let next = self.attempt(slope)?;
            let line = cheap.cost + slope * cheap.bytes;
            let last = next.cost + slope * next.found.memory >= line - FLAT * cost;
            if bytes < next.found.memory && next.found.memory < cheap.bytes {
                // A small graph is quickly lowered, and some plans hold less beside what is resident than others do.
                let seems = if self.rows() <= FEW {
                    self.lowered(&next.found.choice, next.cost)?.is_some_and(|room| room.left >= 0.0)
                } else {
                    self.search.resident(&next.found.choice).left >= beside
                };
                if seems {
                    dear = Some(next);
                } else {
                    *cheap = Corner::of(next);
                }
            }
            if last {
                break;
            }
        }
        Ok((dear, price))
    }

    /// Decides a run of tensors as one plan does and the rest as another, so that as little as fits is decided as the
    /// dearer one does.
    fn mix(&mut self, mut cheap: Corner, dear: &Fits, first: f64, price: f64) -> Result<(), PlanError> {
        let values = if let Some(values) = cheap.values.take() {
            values
        } else {
            // The free plan once more, with homes for what is resident.
            let free = self.attempt(first * 1e-6)?;
            cheap.bytes = free.found.memory;
            free.found.values
        };
        (self.search.multiplier, self.search.uneven) = (price, SOMEWHAT);
        let Fits { plan: dear, left } = dear;
        let (a, b) = (&values, &dear.found.values);
        let mixtures = self.search.mixtures(a, b);
        // Mixtures that hold nearly as much are looked at together, because where the two meet costs more or less.
        let near = 0.03 * (cheap.bytes - dear.found.memory);
        let mut limit = dear.found.memory + left;
        // What the cheapest mixture that fits costs, the bytes of the least that does not, and what is held beside what is
        // resident of the last one that was lowered.
        let (mut fits, mut over, mut beside) = (f64::INFINITY, f64::INFINITY, None);
        for _ in 0..MIXTURES {
            let most = mixtures.iter().map(|m| m.bytes).filter(|&m| m <= limit).fold(f64::NEG_INFINITY, f64::max);
            let fitting = mixtures.iter().filter(|m| m.bytes <= limit && m.bytes >= most - near);
            let Some(mixture) = fitting.min_by(|a, b| a.cost.total_cmp(&b.cost)) else { break };
            if mixture.cost >= fits * (1.0 - LITTLE) {
                break;
            }
            let Some(mixed) = self.search.mixed(a, b, mixture)? else { break };
            let resident = self.search.resident(&mixed.choice).left;
            // What cannot fit beside as much as another mixture holds is not lowered to see that.
            let own = match beside.map(|beside: f64| resident - beside).filter(|&own| own < 0.0) {
                Some(own) => own,
                None => self.lowered_anyway(&mixed.choice, mixed.cost)?.left,
            };
            if own >= 0.0 {
                (fits, beside) = (fits.min(mixed.cost), Some(resident - own));
                limit = (mixture.bytes + own).min(over - 1.0);
                continue;
            }
            over = over.min(mixture.bytes);
            // Where devices hold unequal parts, the fullest one gains more than the mean.
            let slope = (left - own) / (mixture.bytes - dear.found.memory);
            let even = mixture.bytes + own.min(-1.0);
            let by_slope = dear.found.memory + left / slope;
            limit = if slope > 1.0 { by_slope.min(mixture.bytes - 1.0) } else { even };
        }
        Ok(())
    }
}
