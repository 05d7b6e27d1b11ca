//! ein-run
