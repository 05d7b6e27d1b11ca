//! Einsummable: tensor computations on several devices without saying how.
//!
//! Write a model with [`Tensor`] and [`nn`], or open a Hugging Face folder with [`models`]; a session plans it
//! for a machine and runs it.

// What the README shows is compiled and run.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
struct Readme;

pub mod embed;
mod expression;
pub mod generate;
pub mod models;
pub mod nn;
pub mod plan_store;
pub mod runner;
pub mod session;
pub mod synthetic;
pub mod tensor;
pub mod tokenizer;
pub mod trace;
pub mod weights;
pub mod workloads;

pub use ein_ir::dense::Dense;
pub use ein_ir::dtype::DType;
pub use session::{Compiled, Session, SessionError};
pub use tensor::activation::Gelu;
pub use tensor::arithmetic::Rounding;
pub use tensor::attention::AttentionOptions;
pub use tensor::conv::{ConvOptions, Padding};
pub use tensor::conv_transpose::ConvTransposeOptions;
pub use tensor::cross_entropy::CrossEntropyOptions;
pub use tensor::cumulative::Along;
pub use tensor::index::Reduce;
pub use tensor::interpolate::{InterpolateMode, InterpolateOptions};
pub use tensor::loss::Reduction;
pub use tensor::pad::PadMode;
pub use tensor::pool::{AvgPoolOptions, LpPoolOptions, MaxPoolOptions};
pub use tensor::unfold::UnfoldOptions;
pub use tensor::{Operand, Tensor, TensorError};
pub use trace::{Traced, trace};
