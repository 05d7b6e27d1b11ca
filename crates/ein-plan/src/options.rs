//! What the caller may ask of a plan.

use ein_task::machine::DeviceId;
use ein_task::units::Bytes;

/// What the search minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Objective {
    /// Serial seconds of the counting page: compute plus exchanges.
    #[default]
    Time,
    /// Bytes over links, with contractions balanced.
    Bytes,
    /// The largest device's peak memory.
    Memory,
}

/// Where inputs or outputs of the graph are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Once, in any layout the plan likes.
    #[default]
    Anywhere,
    /// Whole on every device.
    Replicated,
    /// Whole on one device.
    Device(DeviceId),
}

/// A fixed strategy, for comparison only: the search knows none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strategy {
    /// Everything on one device.
    OneDevice,
    /// The batch cut, weights whole everywhere.
    Data,
    /// Heads and hidden features cut, activations whole (Megatron-LM).
    Tensor,
    /// `Tensor`, with tokens cut between the products.
    TensorSequence,
    /// The batch cut, weights cut and gathered where used.
    FullyShardedData,
    /// Tokens cut outside attention, heads cut inside (DeepSpeed-Ulysses).
    Ulysses,
}

impl Strategy {
    /// All of them, in listing order.
    pub const ALL: [Strategy; 6] =
        [Self::OneDevice, Self::Data, Self::Tensor, Self::TensorSequence, Self::FullyShardedData, Self::Ulysses];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneDevice => "one-device",
            Self::Data => "data",
            Self::Tensor => "tensor",
            Self::TensorSequence => "tensor-sequence",
            Self::FullyShardedData => "fsdp",
            Self::Ulysses => "ulysses",
        }
    }

    /// The strategy of this name.
    pub fn parse(name: &str) -> Option<Strategy> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// How exchanges are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExchangeStyle {
    /// By synthesised programs.
    #[default]
    Synthesized,
    /// By synthesised programs that store as little at once as they can: slower, taken where others do not fit.
    Lean,
    /// Every reader fetches each piece from its first holder and folds for itself: for comparison.
    Naive,
}

/// What the caller asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What to minimise.
    pub objective: Objective,
    /// With `Objective::Bytes`: every device does at most 1.02 of its share of the contractions.
    pub balance: bool,
    /// A limit below the machine's own memory.
    pub memory: Option<Bytes>,
    /// Whether partials of 16-bit types cross in f32.
    pub wide_partials: bool,
    /// Where inputs of kind `Input` are held.
    pub inputs: Placement,
    /// Where outputs are held.
    pub outputs: Placement,
    /// A fixed strategy instead of the search.
    pub strategy: Option<Strategy>,
    /// How exchanges are answered.
    pub exchange: ExchangeStyle,
    /// With `Objective::Time`: whether blocks are cut once more on their devices, and memory is spread, where the
    /// simulator says that exchanges then hide behind what is computed. Never where devices are threads.
    pub overlap: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            objective: Objective::Time,
            balance: true,
            memory: None,
            wide_partials: false,
            inputs: Placement::Anywhere,
            outputs: Placement::Anywhere,
            strategy: None,
            exchange: ExchangeStyle::Synthesized,
            overlap: true,
        }
    }
}
