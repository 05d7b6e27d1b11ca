//! Tensors as the driver describes them for bulk copies (`cuTensorMapEncodeTiled`): what it takes, and 128 bytes that the
//! shim understands. The real ones are not documented, so nothing may look into them.

/// What the bytes begin with: `MAP` of the shim's `bulk.cpp`.
const MAGIC: u64 = 0x0050_414d;
/// Axes, values along an axis, bytes of a step, and values of a box along an axis (CUDA Driver API, "Tensor Map Object
/// Management").
const AXES: usize = 5;
const EXTENT: u64 = 1 << 32;
const STEP: u64 = 1 << 40;
const BOX: u32 = 256;
/// What the address and the steps are multiples of, and the bytes of a box's lines.
const ALIGNMENT: u64 = 16;
/// Compute capability that has bulk copies.
const LEAST: u32 = 9;

/// A tensor and the boxes of it that are copied. The first axis is that of consecutive values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// `CUtensorMapDataType`.
    pub dtype: u32,
    /// The first value.
    pub address: u64,
    /// Values along each axis.
    pub extents: Vec<u64>,
    /// Bytes from one value to the next, along each axis but the first.
    pub steps: Vec<u64>,
    /// Values of a box along each axis.
    pub boxes: Vec<u32>,
    /// Of which values every so manyth is copied, along each axis.
    pub every: Vec<u32>,
    /// `CUtensorMapInterleave`.
    pub interleave: u32,
    /// `CUtensorMapSwizzle`.
    pub swizzle: u32,
    /// `CUtensorMapFloatOOBfill`.
    pub fill: u32,
}

impl TensorMap {
    /// The 128 bytes for a GPU of this compute capability.
    ///
    /// # Errors
    ///
    /// A text with the rule of the real driver's that is broken, or with what the fake does not have.
    pub fn encode(&self, capability: (u32, u32)) -> Result<[u64; 16], String> {
        let element = self.check(capability)?;
        let mut words = [0; 16];
        words[..5].copy_from_slice(&[MAGIC, self.address, self.extents.len() as u64, element, self.swizzle.into()]);
        words[5..5 + self.extents.len()].copy_from_slice(&self.extents);
        words[10..10 + self.steps.len()].copy_from_slice(&self.steps);
        for (n, &of) in self.boxes.iter().enumerate() {
            words[14 + n / 4] |= u64::from(of) << (16 * (n % 4));
        }
        Ok(words)
    }

    /// Bytes of a value, if the driver takes the tensor.
    fn check(&self, (major, minor): (u32, u32)) -> Result<u64, String> {
        if major < LEAST {
            return Err(format!("tensor maps need compute capability {LEAST}.0, this is {major}.{minor}"));
        }
        let element = match self.dtype {
            0 => 1,
            1 | 6 | 9 => 2,
            2 | 3 | 7 | 10..=12 => 4,
            4 | 5 | 8 => 8,
            other => return Err(format!("values of the type {other}")),
        };
        let rank = self.extents.len();
        if rank == 0
            || rank > AXES
            || self.boxes.len() != rank
            || self.every.len() != rank
            || self.steps.len() + 1 != rank
        {
            return Err(format!("a tensor of {rank} axes: 1 to {AXES}, with a box and steps for each"));
        }
        if self.address == 0 || !self.address.is_multiple_of(ALIGNMENT) {
            return Err(format!("a tensor at {:#x}: it begins at a multiple of {ALIGNMENT} bytes", self.address));
        }
        if let Some(extent) = self.extents.iter().find(|&&e| e == 0 || e > EXTENT) {
            return Err(format!("{extent} values along an axis: 1 to 2^32"));
        }
        if let Some(step) = self.steps.iter().find(|&&s| !s.is_multiple_of(ALIGNMENT) || s >= STEP) {
            return Err(format!("steps of {step} bytes: multiples of {ALIGNMENT}, below 2^40"));
        }
        if let Some(of) = self.boxes.iter().find(|&&b| b == 0 || b > BOX) {
            return Err(format!("a box of {of} values along an axis: 1 to {BOX}"));
        }
        let line = u64::from(self.boxes[0]) * element;
        if !line.is_multiple_of(ALIGNMENT) {
            return Err(format!("lines of a box of {line} bytes: multiples of {ALIGNMENT}"));
        }
        let span = match self.swizzle {
            0 => u64::MAX,
            1 => 32,
            2 => 64,
            3 => 128,
            other => return Err(format!("the swizzle {other}, which the fake does not have")),
        };
        if line > span {
            return Err(format!("lines of a box of {line} bytes: at most {span}, which are swizzled"));
        }
        if self.interleave != 0
            || self.fill != 0
            || self.every.iter().any(|&e| e != 1)
            || (1..3).contains(&self.swizzle)
        {
            return Err(
                "interleaved tensors, fills by NaN, narrow swizzles and steps over values: the fake has none".into()
            );
        }
        Ok(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut TensorMap);

    #[test]
    fn maps_keep_to_the_drivers_rules() {
        let good = TensorMap {
            dtype: 9,
            address: 0x1000,
            extents: vec![96, 7, 3, 2],
            steps: vec![192, 1344, 4032],
            boxes: vec![64, 128, 1, 1],
            every: vec![1; 4],
            interleave: 0,
            swizzle: 3,
            fill: 0,
        };
        assert!(good.encode((9, 0)).is_ok());
        let changes: [(Change, &str); 11] = [
            (|m| m.address = 0x1008, "a multiple of 16"),
            (|m| m.steps[1] = 1336, "multiples of 16"),
            (|m| m.steps[2] = 1 << 40, "below 2^40"),
            (|m| m.extents[1] = 0, "1 to 2^32"),
            (|m| m.boxes[1] = 257, "1 to 256"),
            (|m| m.boxes[1] = 0, "1 to 256"),
            (|m| m.boxes[0] = 72, "at most 128"),
            (|m| m.boxes[0] = 12, "lines of a box of 24 bytes"),
            (|m| m.extents.push(1), "axes"),
            (|m| m.dtype = 99, "type 99"),
            (|m| m.fill = 1, "NaN"),
        ];
        for (change, rule) in changes {
            let mut bad = good.clone();
            change(&mut bad);
            let said = bad.encode((9, 0)).expect_err(rule);
            assert!(said.contains(rule), "`{rule}` is not in: {said}");
        }
        assert!(good.encode((8, 9)).expect_err("it is too old").contains("9.0"));
    }
}
