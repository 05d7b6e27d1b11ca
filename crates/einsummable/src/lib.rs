//! einsummable
