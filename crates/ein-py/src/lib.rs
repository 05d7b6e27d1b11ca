//! ein-py
