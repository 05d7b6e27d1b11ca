//! ein-cuda: the device of NVIDIA GPUs.
//!
//! [`generate`] turns a row of a task graph into a [`Program`](program::Program): launches of generated CUDA C++ kernels,
//! products for the library, copies. It knows no driver, so that all of it is tested where there is no GPU. Nothing
//! here decides what happens where: that is in the task graph.

pub mod compile;
pub mod copies;
pub mod devices;
pub mod driver;
pub mod generate;
pub mod gpus;
pub mod measure;
pub mod nodes;
pub mod program;
pub mod rows;
