//! Why a machine was refused.

use crate::machine::DeviceSet;

/// Why a machine, a machine file or a selection of devices was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MachineError {
    /// Not TOML, or a key that is unknown, missing or of the wrong type.
    #[error("{reason}")]
    Syntax {
        /// The parser's words, with the line.
        reason: String,
    },
    /// A number with a unit that does not parse.
    #[error("{place}: `{text}` is not {expected}")]
    Quantity {
        /// Whose number.
        place: String,
        /// What stands there.
        text: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A number that must be positive.
    #[error("{place} is {found}; it must be a finite number above 0")]
    NotPositive {
        /// Whose number.
        place: String,
        /// What it is.
        found: f64,
    },
    /// A number that must not be negative.
    #[error("{place} is {found}; it must be a finite number, 0 or more")]
    Negative {
        /// Whose number.
        place: String,
        /// What it is.
        found: f64,
    },
    /// A name with characters that texts and selections use for something else, or an empty one.
    #[error("`{name}` is not a name for a {what}: use a letter, then letters, digits or `_`")]
    Name {
        /// A device, a group, a switch.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Two things of one name.
    #[error("two {what}s are named `{name}`")]
    SameName {
        /// Device, switch, resource.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A device that a list names twice.
    #[error("{place} names `{device}` twice")]
    Repeated {
        /// The list.
        place: String,
        /// The device.
        device: String,
    },
    /// A word that is none of the known ones.
    #[error("{place}: `{found}` is not known; known are {known}")]
    Unknown {
        /// Where it stands.
        place: String,
        /// The word.
        found: String,
        /// What would work.
        known: String,
    },
    /// A switch whose keys do not fit together.
    #[error("switch `{name}`: {reason}")]
    Switch {
        /// Its name.
        name: String,
        /// What is wrong, and what would work.
        reason: String,
    },
    /// A link from a device to itself.
    #[error("{place} joins `{device}` with itself; a link needs two devices")]
    Loop {
        /// The cable or link.
        place: String,
        /// The device.
        device: String,
    },
    /// Two links for one ordered pair.
    #[error(
        "{first} and {second} both link `{from}` to `{to}`; a pair has one direct link: remove one, or add their bandwidths"
    )]
    TwoLinks {
        /// From.
        from: String,
        /// To.
        to: String,
        /// What made the first.
        first: String,
        /// What made the second.
        second: String,
    },
    /// A machine without a device that computes.
    #[error("machine `{name}` has no device that computes; it needs at least one of kind `gpu` or `cpu`")]
    NoDevices {
        /// The machine.
        name: String,
    },
    /// More devices than a set of devices holds.
    #[error("machine `{name}` has {found} devices; at most {most} are supported", most = DeviceSet::MAX)]
    TooMany {
        /// The machine.
        name: String,
        /// How many.
        found: usize,
    },
    /// A device that computes but cannot get data from, or hand data to, another one.
    #[error(
        "nothing can move from `{from}` to `{to}`, not even over other devices; a link from one of [{sources}] to one of [{targets}] would join them"
    )]
    Unreachable {
        /// From.
        from: String,
        /// To.
        to: String,
        /// Devices that data of `from` can get to.
        sources: String,
        /// Devices from which `to` can be reached.
        targets: String,
    },
    /// A machine whose parts do not fit together.
    #[error("machine `{name}`: {reason}")]
    Inconsistent {
        /// The machine.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// No shipped machine has this name.
    #[error("there is no machine `{name}`; known are {known}, or give the path of a machine file")]
    UnknownMachine {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A selection of no device.
    #[error("no device is selected; machine `{name}` has {has} that compute")]
    NoneSelected {
        /// The machine.
        name: String,
        /// How many there are.
        has: usize,
    },
    /// More devices asked for than there are.
    #[error("{asked} devices are asked for, but machine `{name}` has {has} that compute")]
    TooFew {
        /// The machine.
        name: String,
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        has: usize,
    },
    /// A device number beyond the machine.
    #[error("device {device} is asked for, but machine `{name}` has devices 0 to {last}", last = .has - 1)]
    NoSuchDevice {
        /// The machine.
        name: String,
        /// The number.
        device: u16,
        /// How many there are.
        has: usize,
    },
    /// A device selected twice.
    #[error("device {device} is selected twice")]
    SelectedTwice {
        /// The number.
        device: u16,
    },
}
