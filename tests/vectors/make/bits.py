"""Bits of integers and bools."""

import torch

from make import case, extremes, integers, tensor

A, B = [0, 1, -1, 12, -13, 2**31 - 1, -(2**31)], [7, -2, 10, 10, 255, -1, 1]

ROWS = []
for name, function in [("bitwise_and", torch.bitwise_and), ("bitwise_or", torch.bitwise_or), ("bitwise_xor", torch.bitwise_xor)]:
    ROWS += [
        case(name, "i64", function, tensor(A, "i64"), tensor(B, "i64")),
        case(name, "i32 and u8", function, tensor(A, "i32"), integers(7, dtype="u8")),
        case(name, "broadcast bools", function, tensor([[True], [False]], "bool"), tensor([True, False], "bool")),
        case(name, "bools and integers", function, tensor([True, False], "bool"), tensor([6, 7], "i32")),
        case(name, "a number", lambda x, value, function=function: function(x, value), tensor([200, 5], "u8"), value=15),
    ]
ROWS += [
    case("bitwise_not", "i64", torch.bitwise_not, tensor(A, "i64")),
    case("bitwise_not", "u8", torch.bitwise_not, tensor([0, 5, 255], "u8")),
    case("bitwise_not", "bools", torch.bitwise_not, tensor([True, False], "bool")),
]
for name, function in [("bitwise_left_shift", torch.bitwise_left_shift), ("bitwise_right_shift", torch.bitwise_right_shift)]:
    ROWS += [
        case(name, "i64", function, tensor([1, -1, 5, -9, 1, 1, -1], "i64"), tensor([3, 3, 62, 1, 64, -1, 70], "i64")),
        case(name, "i32", function, tensor([1, -1, 5, -9, 1, 1, -1], "i32"), tensor([3, 3, 30, 1, 32, -1, 31], "i32")),
        case(name, "u8", function, tensor([1, 255, 129, 200], "u8"), tensor([3, 1, 7, 8], "u8")),
        case(name, "u8 and i64", function, tensor([1, 255, 129], "u8"), tensor([3, 1, 7], "i64")),
        case(name, "a number", lambda x, value, function=function: function(x, value), tensor([100, -100], "i32"), value=2),
    ]
ROWS += extremes(ROWS)
