//! The exchange question and the five steps of its answer.

use crate::machine::DeviceId;
use crate::relation::Relation;
use ein_ir::region::Region;

/// A box that a device must get, finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Need {
    /// Where.
    pub device: DeviceId,
    /// What, in source coordinates.
    pub region: Region,
}

/// From the relation one operation leaves to the boxes its readers need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// What there is.
    pub have: Relation,
    /// What must be there; all readers of a tensor are in one question.
    pub needs: Vec<Need>,
}

/// A piece: the result of the step of that number.
pub type PieceId = usize;

/// One step; it names earlier steps only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Block `block` of the relation, at one of its holders.
    Load {
        /// Position in [`Relation::blocks`].
        block: usize,
        /// One of its devices.
        device: DeviceId,
    },
    /// A box of a piece.
    Cut {
        /// The piece.
        piece: PieceId,
        /// The box, inside the piece's region.
        region: Region,
    },
    /// The piece on another device, over the direct link. A relay is two moves.
    Move {
        /// The piece.
        piece: PieceId,
        /// Where to.
        to: DeviceId,
    },
    /// Pieces of one region and disjoint partials, on one device, combined in this order. A fold that
    /// holds every partial of its region is finished. A fold of one piece only finishes it.
    Fold {
        /// The pieces, in folding order.
        pieces: Vec<PieceId>,
    },
    /// Pieces of disjoint regions that fill a box, on one device, all finished or all of equal partials.
    Paste {
        /// The pieces.
        pieces: Vec<PieceId>,
        /// The box they fill.
        region: Region,
    },
}

/// The answer to an exchange question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
    /// For every need, the piece that is it.
    pub yields: Vec<PieceId>,
}
