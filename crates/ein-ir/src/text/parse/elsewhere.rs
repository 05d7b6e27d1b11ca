//! What other systems call things, and what they are here.

/// Names and what they are here, in the words of a message.
type Table = [(&'static str, &'static str)];

/// What a name is here, if it is known from elsewhere.
pub(super) fn of(table: &Table, name: &str) -> Option<&'static str> {
    table.iter().find(|row| row.0 == name).map(|row| row.1)
}

pub(super) const OPERATIONS: [(&str, &str); 22] = [
    ("transpose", "`permute`"),
    ("view", "`reshape`"),
    ("expand", "`broadcast`"),
    ("cat", "`concat`"),
    ("stack", "`concat`, of parts that are reshaped"),
    ("flip", "`slice` with a step of -1"),
    ("matmul", "`einsum`, such as einsum \"ik,kj->ij\" x w"),
    ("mm", "`einsum`, such as einsum \"ik,kj->ij\" x w"),
    ("dot", "`einsum`, such as einsum \"i,i->\" x y"),
    ("conv", "an `einsum` that reads x[2*o + r]"),
    ("softmax", "an `einsum` that folds with softmax, and a map"),
    ("sum", "an `einsum` that folds with sum"),
    ("max", "an `einsum` that folds with max, or a map of two values"),
    ("mean", "an `einsum` that folds with moments"),
    ("relu", "a map of max(x, 0.0)"),
    ("cast", "a map of cast<…>(…)"),
    ("topk", "`top`"),
    ("sort", "`top` of all elements"),
    ("cumsum", "`scan`"),
    ("embedding", "`gather`"),
    ("linear_recurrence", "`recurrence`"),
    ("linear_recurrence_last", "`last_state`"),
];

pub(super) const TYPES: [(&str, &str); 12] = [
    ("double", "`f64`"),
    ("float64", "`f64`"),
    ("float", "`f32`"),
    ("float32", "`f32`"),
    ("bfloat16", "`bf16`"),
    ("half", "`f16`"),
    ("float16", "`f16`"),
    ("int", "`i64`"),
    ("int64", "`i64`"),
    ("long", "`i64`"),
    ("int32", "`i32`"),
    ("uint8", "`u8`"),
];

pub(super) const FOLDS: [(&str, &str); 6] = [
    ("add", "`sum`"),
    ("product", "`prod`"),
    ("mean", "`moments`, the first of two"),
    ("var", "`moments`, the second of two"),
    ("any", "`max`"),
    ("all", "`min`"),
];

pub(super) const FUNCTIONS: [(&str, &str); 9] = [
    ("relu", "`max(x, 0.0)`"),
    ("where", "`select`"),
    ("square", "`x * x`"),
    ("reciprocal", "`1.0 / x`"),
    ("sum", "a fold: list labels after `|`, as in einsum f32 (| i: 4) sum x[i]"),
    ("prod", "a fold: list labels after `|`, as in einsum f32 (| i: 4) prod x[i]"),
    ("mean", "a fold: list labels after `|`, as in einsum f32 (| i: 4) moments x[i]"),
    ("any", "a fold: list labels after `|`, as in einsum bool (| i: 4) max x[i]"),
    ("all", "a fold: list labels after `|`, as in einsum bool (| i: 4) min x[i]"),
];
