//! The place of the Python package (`ein.compile`): it will stand on [`einsummable`]'s session. Nothing is here yet.

#[doc(no_inline)]
pub use einsummable;
