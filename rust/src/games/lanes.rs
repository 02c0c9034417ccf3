//! Numbers of several games that are calculated together.

use std::array::from_fn;
use std::ops::{Add, Div, Mul, Sub};

/// Games that are calculated together, in one register where the processor can.
pub const LANES: usize = 4;

/// One number, or one number per game: formulas for both have the same results to the last bit.
pub trait Number:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
{
}

impl Number for f64 {}
impl Number for Lanes {}

/// One number per game.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lanes(pub [f64; LANES]);

macro_rules! lane_by_lane {
    ($($operation:ident $method:ident),*) => {$(
        impl $operation for Lanes {
            type Output = Self;

            #[inline]
            fn $method(self, other: Self) -> Self {
                Self(from_fn(|lane| self.0[lane].$method(other.0[lane])))
            }
        }

        impl $operation<f64> for Lanes {
            type Output = Self;

            #[inline]
            fn $method(self, other: f64) -> Self {
                Self(from_fn(|lane| self.0[lane].$method(other)))
            }
        }
    )*};
}

lane_by_lane!(Add add, Sub sub, Mul mul, Div div);
