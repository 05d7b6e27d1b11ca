//! Kernels with their arguments, and grids.

use super::types::stored;
use crate::program::{Arg, Kernel, Launch, Place, Step};
use ein_ir::dtype::DType;
use ein_run::Cause;
use std::fmt::Write;

/// Threads of a block where nothing else decides.
pub(crate) const THREADS: u32 = 256;

/// The parameters of a kernel and what is passed for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    parameters: Vec<String>,
    casts: String,
    args: Vec<Arg>,
}

impl Arguments {
    /// A pointer to elements of a C type; its name.
    pub(crate) fn typed(&mut self, place: Place, ty: &str) -> String {
        let n = self.args.len();
        self.parameters.push(format!("unsigned char* p{n}"));
        self.args.push(Arg::Pointer(place));
        let _ = writeln!(self.casts, "{ty}* a{n} = ({ty}*)p{n};");
        format!("a{n}")
    }

    /// A pointer to elements that are written; its name.
    pub(crate) fn written(&mut self, place: Place, dtype: DType) -> String {
        self.typed(place, stored(dtype))
    }

    /// A `long long`; its name.
    pub(crate) fn number(&mut self, value: i64) -> String {
        let n = self.args.len();
        self.parameters.push(format!("long long n{n}"));
        self.args.push(Arg::I64(value));
        format!("n{n}")
    }

    /// The kernel that does `text`, with these parameters, on a grid of `blocks` of `threads` each. The second number of
    /// blocks may be 65535 at most. `what` names it.
    pub(crate) fn launch(self, what: &str, text: &str, blocks: [u64; 2], threads: u32) -> Result<Step, Cause> {
        if blocks[0] >= 1 << 31 || blocks[1] >= 1 << 16 || blocks.contains(&0) {
            return Err(Cause::malformed(format!("{what} would be launched with {blocks:?} blocks")));
        }
        let (parameters, casts) = (self.parameters.join(", "), self.casts);
        let source = format!(
            "extern \"C\" __global__ void __launch_bounds__({threads}) NAME({parameters}) {{\n{casts}{text}}}\n"
        );
        let grid = [blocks[0] as u32, blocks[1] as u32, 1];
        let kernel = Kernel::new(what, &source);
        Ok(Step::Launch(Launch { kernel, grid, block: [threads, 1, 1], shared: 0, args: self.args }))
    }
}
